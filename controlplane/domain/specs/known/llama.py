"""Llama and models of its architecture, Mistral, and what is built on them."""

from __future__ import annotations

from controlplane.domain.specs.known.row import Config, changed, row, seeing

_128K, _TIED = {"max_position_embeddings": 131072}, {"tie_word_embeddings": True}

LLAMA_2_7B = row("llama", 4096, 11008, 32, 32, 32, 32000, max_position_embeddings=4096)
_LLAMA_2_13B = row("llama", 5120, 13824, 40, 40, 40, 32000, max_position_embeddings=4096)
_LLAMA_2_70B = row("llama", 8192, 28672, 80, 64, 8, 32000, max_position_embeddings=4096)
LLAMA_3_8B = row("llama", 4096, 14336, 32, 32, 8, 128256, max_position_embeddings=8192)
_LLAMA_3_70B = row("llama", 8192, 28672, 80, 64, 8, 128256, max_position_embeddings=8192)
LLAMA_31_8B, LLAMA_31_70B = changed(LLAMA_3_8B, **_128K), changed(_LLAMA_3_70B, **_128K)
_LLAMA_32_1B = row("llama", 2048, 8192, 16, 32, 8, 128256, head_dim=64, **_128K | _TIED)
_LLAMA_32_3B = row("llama", 3072, 8192, 28, 24, 8, 128256, head_dim=128, **_128K | _TIED)
MISTRAL_7B_1 = row("mistral", 4096, 14336, 32, 32, 8, 32000, sliding_window=4096, max_position_embeddings=32768)
MISTRAL_7B_2 = row("mistral", 4096, 14336, 32, 32, 8, 32000, sliding_window=None, max_position_embeddings=32768)
_MISTRAL_7B_3 = changed(MISTRAL_7B_2, vocab_size=32768)
_SMALL_24B = row("mistral", 5120, 32768, 40, 32, 8, 131072, sliding_window=None, head_dim=128, **_128K)
_LARGE = row("mistral", 12288, 28672, 88, 96, 8, 32768, sliding_window=None, head_dim=128, **_128K)
_SMALL_22B = row("mistral", 6144, 16384, 56, 48, 8, 32768, head_dim=128, max_position_embeddings=32768)
_PIXTRAL = {"model_type": "pixtral", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
            "patch_size": 14, "image_size": 1540}  # fmt: skip
_SMALL_31 = seeing("mistral3", _SMALL_24B, _PIXTRAL, spatial_merge_size=2)
_MIXTRAL_7B = row("mixtral", 4096, 14336, 32, 32, 8, 32000, num_local_experts=8, num_experts_per_tok=2,
                  max_position_embeddings=32768)  # fmt: skip
_MIXTRAL_22B = row("mixtral", 6144, 16384, 56, 48, 8, 32000, num_local_experts=8, num_experts_per_tok=2,
                   max_position_embeddings=65536)  # fmt: skip
_CLIP = {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
         "patch_size": 14, "image_size": 336}  # fmt: skip
_LLAMA_4 = {"attention_chunk_size": 8192, "head_dim": 128, "num_experts_per_tok": 1, "intermediate_size_mlp": 16384}
_LLAMA_4_VISION = {"model_type": "llama4_vision_model", "hidden_size": 1408, "intermediate_size": 5632,
                   "num_hidden_layers": 34, "patch_size": 14, "image_size": 336, "pixel_shuffle_ratio": 0.5,
                   "vision_output_dim": 4096, "projector_output_dim": 4096}  # fmt: skip
_MLLAMA_VISION = {"model_type": "mllama_vision_model", "hidden_size": 1280, "intermediate_size": 5120,
                  "num_hidden_layers": 32, "num_global_layers": 8, "patch_size": 14, "image_size": 560,
                  "vision_output_dim": 7680, "max_num_tiles": 4}  # fmt: skip
_FP8 = {"quantization_config": {"quant_method": "fp8"}}  # the files that are published; `-BF16` says that they are not
_LARGE_3 = row(
    "deepseek_v3", 7168, 16384, 61, 128, 128, 131072, q_lora_rank=1536, kv_lora_rank=512, qk_rope_head_dim=64,
    qk_nope_head_dim=128, v_head_dim=128, n_routed_experts=128, num_experts_per_tok=4, n_shared_experts=1,
    moe_intermediate_size=4096, first_k_dense_replace=3, max_position_embeddings=294912,
)  # fmt: skip
_SMALL_4 = row(
    "mistral4", 4096, 12288, 36, 32, 32, 131072, q_lora_rank=1024, kv_lora_rank=256, qk_rope_head_dim=64,
    qk_nope_head_dim=64, v_head_dim=128, n_routed_experts=128, num_experts_per_tok=4, n_shared_experts=1,
    moe_intermediate_size=2048, max_position_embeddings=1048576,
)  # fmt: skip


def _ministral_3(hidden: int, inner: int, layers: int, tied: bool) -> Config:
    text = row("ministral3", hidden, inner, layers, 32, 8, 131072, head_dim=128, tie_word_embeddings=tied,
               max_position_embeddings=262144)  # fmt: skip
    return seeing("mistral3", text, _PIXTRAL, spatial_merge_size=2)


MODELS: dict[str, Config] = {
    "Llama-2-7b": LLAMA_2_7B,
    "Llama-2-13b": _LLAMA_2_13B,
    "Llama-2-70b": _LLAMA_2_70B,
    "llama-7b": changed(LLAMA_2_7B, max_position_embeddings=2048),
    "llama-13b": changed(_LLAMA_2_13B, max_position_embeddings=2048),
    "llama-30b": row("llama", 6656, 17920, 60, 52, 52, 32000, max_position_embeddings=2048),
    "llama-65b": row("llama", 8192, 22016, 80, 64, 64, 32000, max_position_embeddings=2048),
    "CodeLlama-7b": changed(LLAMA_2_7B, vocab_size=32016, max_position_embeddings=16384),
    "CodeLlama-13b": changed(_LLAMA_2_13B, vocab_size=32016, max_position_embeddings=16384),
    "CodeLlama-34b": row("llama", 8192, 22016, 48, 64, 8, 32000, max_position_embeddings=16384),
    "CodeLlama-70b": changed(_LLAMA_2_70B, vocab_size=32016, max_position_embeddings=16384),
    "Meta-Llama-3-8B": LLAMA_3_8B,
    "Meta-Llama-3-70B": _LLAMA_3_70B,
    "Llama-3.1-8B": LLAMA_31_8B,
    "Llama-3.1-70B": LLAMA_31_70B,
    "Llama-3.1-405B": row("llama", 16384, 53248, 126, 128, 8, 128256, **_128K),
    "Llama-3.2-1B": _LLAMA_32_1B,
    "Llama-3.2-3B": _LLAMA_32_3B,
    "Llama-3.2-11B-Vision": seeing(
        "mllama",
        row("mllama_text_model", 4096, 14336, 40, 32, 8, 128256, cross_attention_layers=list(range(3, 40, 5)), **_128K),
        _MLLAMA_VISION,
    ),
    "Llama-3.2-90B-Vision": seeing(
        "mllama",
        row("mllama_text_model", 8192, 28672, 100, 64, 8, 128256, cross_attention_layers=list(range(3, 100, 5)),
        **_128K),
        _MLLAMA_VISION,
    ),
    "Llama-3.3-70B": LLAMA_31_70B,
    "Llama-3.1-Nemotron-70B": LLAMA_31_70B,
    "Llama-3.1-Nemotron-Nano-8B-v1": LLAMA_31_8B,
    "Llama-4-Scout-17B-16E": seeing(
        "llama4",
        row("llama4_text", 5120, 8192, 48, 40, 8, 202048, num_local_experts=16, max_position_embeddings=10485760,
        **_LLAMA_4),
        _LLAMA_4_VISION,
    ),
    "Llama-4-Maverick-17B-128E": seeing(
        "llama4",
        row("llama4_text", 5120, 8192, 48, 40, 8, 202048, num_local_experts=128, interleave_moe_layer_step=2,
            max_position_embeddings=1048576, **_LLAMA_4),
        _LLAMA_4_VISION,
    ),
    "TinyLlama-1.1B": row("llama", 2048, 5632, 22, 32, 4, 32000, max_position_embeddings=2048),
    "vicuna-7b": LLAMA_2_7B,
    "vicuna-13b": _LLAMA_2_13B,
    "orpheus-3b-0.1": changed(_LLAMA_32_3B, vocab_size=156940),
    "DeepSeek-R1-Distill-Llama-8B": LLAMA_31_8B,
    "DeepSeek-R1-Distill-Llama-70B": LLAMA_31_70B,
    "Hermes-3-Llama-3.1-405B": row("llama", 16384, 53248, 126, 128, 8, 128256, **_128K),
    "SOLAR-10.7B": row("llama", 4096, 14336, 48, 32, 8, 32000, max_position_embeddings=4096),
    "SmolLM2-135M": row("llama", 576, 1536, 30, 9, 3, 49152, max_position_embeddings=8192, **_TIED),
    "SmolLM2-360M": row("llama", 960, 2560, 32, 15, 5, 49152, max_position_embeddings=8192, **_TIED),
    "SmolLM2-1.7B": row("llama", 2048, 8192, 24, 32, 32, 49152, max_position_embeddings=8192, **_TIED),
    "SmolLM3-3B": row("smollm3", 2048, 11008, 36, 16, 4, 128256, max_position_embeddings=65536, **_TIED),
    "Yi-6B": row("llama", 4096, 11008, 32, 32, 4, 64000, max_position_embeddings=4096),
    "Yi-9B": row("llama", 4096, 11008, 48, 32, 4, 64000, max_position_embeddings=4096),
    "Yi-34B": row("llama", 7168, 20480, 60, 56, 8, 64000, max_position_embeddings=4096),
    "Falcon3-1B": row("llama", 2048, 8192, 18, 8, 4, 131072, head_dim=256, max_position_embeddings=8192),
    "Falcon3-3B": row("llama", 3072, 9216, 22, 12, 4, 131072, head_dim=256, max_position_embeddings=32768),
    "Falcon3-7B": row("llama", 3072, 23040, 28, 12, 4, 131072, head_dim=256, max_position_embeddings=32768),
    "Falcon3-10B": row("llama", 3072, 23040, 40, 12, 4, 131072, head_dim=256, max_position_embeddings=32768),
    "Mistral-7B-v0.1": MISTRAL_7B_1,
    "Mistral-7B-v0.2": MISTRAL_7B_2,
    "Mistral-7B-v0.3": _MISTRAL_7B_3,
    "Mistral-7B": _MISTRAL_7B_3,
    "Mathstral-7B-v0.1": _MISTRAL_7B_3,
    "zephyr-7b": MISTRAL_7B_1,
    "openchat-3.5": changed(MISTRAL_7B_1, vocab_size=32002),
    "Mistral-Nemo-2407": row("mistral", 5120, 14336, 40, 32, 8, 131072, head_dim=128, sliding_window=None, **_128K),
    "Mistral-Small-2409": _SMALL_22B,
    "Codestral-22B-v0.1": _SMALL_22B,
    "Mistral-Small-24B-2501": changed(_SMALL_24B, max_position_embeddings=32768),
    "Mistral-Small-3.1-24B-2503": _SMALL_31,
    "Mistral-Small-3.2-24B-2506": _SMALL_31,
    "Devstral-Small-2505": _SMALL_24B,
    "Devstral-Small-2507": _SMALL_24B,
    "Devstral-Small-2-24B-2512": changed(
        _SMALL_31, text_config=changed(_SMALL_24B, model_type="ministral3", max_position_embeddings=393216), **_FP8
    ),
    "Devstral-2-123B-2512": changed(_LARGE, vocab_size=131072, model_type="ministral3", max_position_embeddings=262144,
                                    **_FP8),
    "Magistral-Small-2506": _SMALL_24B,
    "Magistral-Small-2507": _SMALL_24B,
    "Magistral-Small-2509": _SMALL_31,
    "Mistral-Large-2407": _LARGE,
    "Mistral-Large-2411": _LARGE,
    "Mistral-Large-3-675B": seeing("mistral3", _LARGE_3, changed(_PIXTRAL, hidden_size=1664, intermediate_size=8192,
                                                                 num_hidden_layers=48), **_FP8),
    "Mistral-Small-4-119B": seeing("mistral3", _SMALL_4, _PIXTRAL, spatial_merge_size=2, **_FP8),
    "Mistral-Medium-3.5-128B": seeing(
        "mistral3", changed(_LARGE, vocab_size=131072, model_type="ministral3", max_position_embeddings=262144),
        changed(_PIXTRAL, hidden_size=1664, intermediate_size=8192, num_hidden_layers=48), spatial_merge_size=2, **_FP8,
    ),
    "Ministral-8B-2410": row("mistral", 4096, 12288, 36, 32, 8, 131072, head_dim=128, max_position_embeddings=32768),
    "Ministral-3-3B-2512": _ministral_3(3072, 9216, 26, True),
    "Ministral-3-8B-2512": _ministral_3(4096, 14336, 34, False),
    "Ministral-3-14B-2512": _ministral_3(5120, 16384, 40, False),
    "Pixtral-12B-2409": seeing(
        "llava", row("mistral", 5120, 14336, 40, 32, 8, 131072, head_dim=128, sliding_window=None, **_128K),
        changed(_PIXTRAL, image_size=1024, patch_size=16),
    ),
    "Pixtral-Large-2411": seeing(
        "llava", _LARGE, changed(_PIXTRAL, hidden_size=1664, intermediate_size=8192, num_hidden_layers=48,
            patch_size=16),
    ),
    "Mixtral-8x7B": _MIXTRAL_7B,
    "Mixtral-8x22B": _MIXTRAL_22B,
    "llava-1.5-7b": seeing("llava", changed(LLAMA_2_7B, vocab_size=32064), _CLIP),
    "llava-1.5-13b": seeing("llava", changed(_LLAMA_2_13B, vocab_size=32064), _CLIP),
    "llava-v1.6-mistral-7b": seeing("llava_next", changed(MISTRAL_7B_2, vocab_size=32064), _CLIP),
    "llava-v1.6-vicuna-7b": seeing("llava_next", changed(LLAMA_2_7B, vocab_size=32064), _CLIP),
    "llava-v1.6-vicuna-13b": seeing("llava_next", changed(_LLAMA_2_13B, vocab_size=32064), _CLIP),
}  # fmt: skip
