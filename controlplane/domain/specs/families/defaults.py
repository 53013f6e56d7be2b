"""What nested text configs leave out: the values that the published code of their family fills in."""

from __future__ import annotations

# the model type of the nested config where it names none
TEXT_TYPES: dict[str, str] = {
    "llava": "llama", "llava_next": "llama", "llava_onevision": "qwen2", "vipllava": "llama", "paligemma": "gemma",
    "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "mistral3": "mistral",
    "llama4": "llama4_text",
    "mllama": "mllama_text_model", "qwen2_vl": "qwen2_vl_text", "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text", "qwen3_5": "qwen3_5_text", "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen2_5_omni_thinker": "qwen2_5_omni_text", "qwen2_5_omni": "qwen2_5_omni_text", "idefics3": "llama",
    "smolvlm": "llama",
    "glm4v": "glm4v_text", "glm4v_moe": "glm4v_moe_text", "kimi_vl": "deepseek_v3", "kimi_k25": "kimi_k2",
    "deepseek_vl_v2": "deepseek_v2", "internvl": "qwen2", "internvl_chat": "qwen2", "lfm2_vl": "lfm2",
    "voxtral": "llama",
    "ernie4_5_vl_moe": "ernie4_5_vl_moe_text", "hunyuan_vl": "hunyuan_v1_dense",
}  # fmt: skip

_LLAMA: dict[str, object] = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}  # fmt: skip
_GEMMA3: dict[str, object] = {
    "vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096, "max_position_embeddings": 131072,
}  # fmt: skip
_MISTRAL: dict[str, object] = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072, "sliding_window": 4096,
}  # fmt: skip

TEXT: dict[str, dict[str, object]] = {
    "llama": _LLAMA,
    "mistral": _MISTRAL,
    "mixtral": {**_MISTRAL, "sliding_window": None, "num_local_experts": 8, "num_experts_per_tok": 2},
    "gemma": {
        "vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "max_position_embeddings": 8192,
    },
    "gemma2": {
        "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096,
        "max_position_embeddings": 8192,
    },
    "gemma3_text": _GEMMA3,
    "qwen2": {
        "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 22016, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32768,
        "use_sliding_window": False,
    },
    "llama4_text": {
        "vocab_size": 202048, "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "num_experts_per_tok": 1,
        "num_local_experts": 16, "attention_chunk_size": 8192, "max_position_embeddings": 131072,
    },
}  # fmt: skip
