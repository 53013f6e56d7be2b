"""OpenAI, Google, Microsoft, Cohere, AllenAI, Tencent, Baidu and the older open models."""

from __future__ import annotations

from controlplane.domain.specs.known.llama import LLAMA_2_7B
from controlplane.domain.specs.known.qwen import MODELS as QWEN
from controlplane.domain.specs.known.row import Config, changed, row, seeing

_TIED, _128K = {"tie_word_embeddings": True}, {"max_position_embeddings": 131072}
_MXFP4 = {"quant_method": "mxfp4"}


def _gpt_oss(layers: int, experts: int) -> Config:
    return row("gpt_oss", 2880, 2880, layers, 64, 8, 201088, head_dim=64, sliding_window=128, num_local_experts=experts,
               num_experts_per_tok=4, quantization_config=_MXFP4, **_128K)  # fmt: skip


_SIGLIP = {"model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304, "num_hidden_layers": 27,
           "patch_size": 14, "image_size": 896}  # fmt: skip


def _gemma_3(hidden: int, inner: int, layers: int, heads: int, kv: int, **more: object) -> Config:
    text = row("gemma3_text", hidden, inner, layers, heads, kv, 262208,
               **{"head_dim": 256, "sliding_window": 1024, **_TIED, **_128K, **more})  # fmt: skip
    return seeing("gemma3", text, _SIGLIP)


def _gemma_4(hidden: int, inner: int, layers: int, heads: int, kv: int, **more: object) -> Config:
    every = 5 if layers == 35 else 6
    kinds = ["full_attention" if layer % every == every - 1 else "sliding_attention" for layer in range(layers)]
    text = row("gemma4_text", hidden, inner, layers, heads, kv, 262144,
               **{"head_dim": 256, "global_head_dim": 512, "layer_types": kinds, **_TIED, **more})  # fmt: skip
    if layers in (30, 60):
        return seeing("gemma4", text, _GEMMA_4_TOWER)
    return seeing("gemma4", text, _GEMMA_4_SMALL, audio_config={"model_type": "gemma4_audio", "hidden_size": 1024})


_GEMMA_4_TOWER = {"model_type": "gemma4_vision", "hidden_size": 1152, "intermediate_size": 4304,
"num_hidden_layers": 27,
                  "num_attention_heads": 16, "head_dim": 72, "patch_size": 16,
                  "position_embedding_size": 10240}  # fmt: skip
_GEMMA_4_SMALL = {"model_type": "gemma4_vision", "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16,
                  "num_attention_heads": 12, "head_dim": 64, "patch_size": 16,
                  "position_embedding_size": 10240}  # fmt: skip
_BIG_4 = {"attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "sliding_window": 1024,
          "max_position_embeddings": 262144}  # fmt: skip
_SMALL_4 = {"hidden_size_per_layer_input": 256, "vocab_size_per_layer_input": 262144, "sliding_window": 512, **_128K}
_LONGROPE = {**_128K, "original_max_position_embeddings": 4096, "rope_scaling": {"type": "longrope"}}
_PHI_4 = row("phi3", 5120, 17920, 40, 40, 10, 100352, max_position_embeddings=16384)
_PHI_3_MINI = row("phi3", 3072, 8192, 32, 32, 32, 32064, max_position_embeddings=4096)
_PHI_4_MINI = row("phi3", 3072, 8192, 32, 24, 8, 200064, **_TIED | _LONGROPE)
_COMMAND_A = row("cohere2", 12288, 36864, 64, 96, 8, 256000, head_dim=128, sliding_window=4096,
max_position_embeddings=262144,
                 **_TIED)  # fmt: skip
_ERNIE = {
    "moe_num_experts": 64,
    "moe_layer_end_index": -1,
    "max_position_embeddings": 131072,
    "use_bias": False,
    **_TIED,
}


def _opt(hidden: int, layers: int, heads: int) -> Config:
    return row("opt", hidden, 4 * hidden, layers, heads, heads, 50272, max_position_embeddings=2048, **_TIED)


def _pythia(hidden: int, layers: int, heads: int, vocab: int = 50304) -> Config:
    return row("gpt_neox", hidden, 4 * hidden, layers, heads, heads, vocab, max_position_embeddings=2048)


def _bloom(hidden: int, layers: int, heads: int) -> Config:
    return row("bloom", hidden, 4 * hidden, layers, heads, heads, 250880, max_position_embeddings=2048, **_TIED)


def _gpt2(hidden: int, layers: int, heads: int) -> Config:
    return row("gpt2", hidden, 4 * hidden, layers, heads, heads, 50257, max_position_embeddings=1024, **_TIED)


_INTERN_SMALL = {"model_type": "intern_vit_6b", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
                 "patch_size": 14, "image_size": 448}  # fmt: skip
_INTERN_LARGE = {**_INTERN_SMALL, "hidden_size": 3200, "intermediate_size": 12800, "num_hidden_layers": 45}


def _internvl(text: Config, vision: Config = _INTERN_SMALL) -> Config:
    return {"model_type": "internvl_chat", "llm_config": text, "vision_config": vision, "downsample_ratio": 0.5}


MODELS: dict[str, Config] = {
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
    "gpt2": _gpt2(768, 12, 12),
    "gpt2-medium": _gpt2(1024, 24, 16),
    "gpt2-large": _gpt2(1280, 36, 20),
    "gpt2-xl": _gpt2(1600, 48, 25),
    "gemma-2b": row("gemma", 2048, 16384, 18, 8, 1, 256000, head_dim=256, max_position_embeddings=8192, **_TIED),
    "gemma-7b": row("gemma", 3072, 24576, 28, 16, 16, 256000, head_dim=256, max_position_embeddings=8192, **_TIED),
    "gemma-2-2b": row("gemma2", 2304, 9216, 26, 8, 4, 256000, head_dim=256, sliding_window=4096,
                      max_position_embeddings=8192, **_TIED),
    "gemma-2-9b": row("gemma2", 3584, 14336, 42, 16, 8, 256000, head_dim=256, sliding_window=4096,
                      max_position_embeddings=8192, **_TIED),
    "gemma-2-27b": row("gemma2", 4608, 36864, 46, 32, 16, 256000, head_dim=128, sliding_window=4096,
                       max_position_embeddings=8192, **_TIED),
    "gemma-3-270m": row("gemma3_text", 640, 2048, 18, 4, 1, 262144, head_dim=256, sliding_window=512,
                        max_position_embeddings=32768, **_TIED),
    "gemma-3-1b": row("gemma3_text", 1152, 6912, 26, 4, 1, 262144, head_dim=256, sliding_window=512,
                      max_position_embeddings=32768, **_TIED),
    "gemma-3-4b": _gemma_3(2560, 10240, 34, 8, 4),
    "gemma-3-12b": _gemma_3(3840, 15360, 48, 16, 8),
    "gemma-3-27b": _gemma_3(5376, 21504, 62, 32, 16, head_dim=128),
    "gemma-4-E2B": _gemma_4(1536, 6144, 35, 8, 1, num_kv_shared_layers=20, use_double_wide_mlp=True, **_SMALL_4),
    "gemma-4-E4B": _gemma_4(2560, 10240, 42, 8, 2, num_kv_shared_layers=18, **_SMALL_4),
    "gemma-4-26B-A4B": _gemma_4(2816, 2112, 30, 16, 8, num_global_key_value_heads=2, enable_moe_block=True,
        num_experts=128,
                                top_k_experts=8, moe_intermediate_size=704, **_BIG_4),
    "gemma-4-31B": _gemma_4(5376, 21504, 60, 32, 16, num_global_key_value_heads=4, **_BIG_4),
    "phi-1_5": row("phi", 2048, 8192, 24, 32, 32, 51200, max_position_embeddings=2048),
    "phi-2": row("phi", 2560, 10240, 32, 32, 32, 51200, max_position_embeddings=2048),
    "Phi-3-mini": _PHI_3_MINI,
    "Phi-3-mini-4k": changed(_PHI_3_MINI, sliding_window=2047),
    "Phi-3-mini-128k": changed(_PHI_3_MINI, **_LONGROPE),
    "Phi-3.5-mini": changed(_PHI_3_MINI, **_LONGROPE),
    "Phi-3-medium-4k": row("phi3", 5120, 17920, 40, 40, 10, 32064, max_position_embeddings=4096),
    "Phi-3-medium-128k": row("phi3", 5120, 17920, 40, 40, 10, 32064, **_LONGROPE),
    "Phi-3.5-MoE": row("phimoe", 4096, 6400, 32, 32, 8, 32064, num_local_experts=16, num_experts_per_tok=2,
        attention_bias=True,
                       **_128K),
    "phi-4": _PHI_4,
    "Phi-4-reasoning": changed(_PHI_4, max_position_embeddings=32768),
    "Phi-4-mini": _PHI_4_MINI,
    "c4ai-command-r-v01": row("cohere", 8192, 22528, 40, 64, 64, 256000, **_TIED | _128K),
    "c4ai-command-r-08-2024": row("cohere", 8192, 24576, 40, 64, 8, 256000, **_TIED | _128K),
    "c4ai-command-r-plus": row("cohere", 12288, 33792, 64, 96, 8, 256000, use_qk_norm=True, **_TIED | _128K),
    "c4ai-command-r7b-12-2024": row("cohere2", 4096, 14336, 32, 32, 8, 256000, sliding_window=4096, **_TIED | _128K),
    "c4ai-command-a-03-2025": _COMMAND_A,
    "command-a-reasoning-08-2025": _COMMAND_A,
    "aya-expanse-8b": row("cohere", 4096, 14336, 32, 32, 8, 256000, max_position_embeddings=8192, **_TIED),
    "aya-expanse-32b": row("cohere", 8192, 24576, 40, 64, 8, 256000, max_position_embeddings=8192, **_TIED),
    "OLMo-1B": row("olmo", 2048, 8192, 16, 16, 16, 50304, max_position_embeddings=2048, **_TIED),
    "OLMo-7B": row("olmo", 4096, 11008, 32, 32, 32, 50304, max_position_embeddings=2048),
    "OLMo-2-0425-1B": row("olmo2", 2048, 8192, 16, 16, 16, 100352, max_position_embeddings=4096),
    "OLMo-2-1124-7B": row("olmo2", 4096, 11008, 32, 32, 32, 100352, max_position_embeddings=4096),
    "OLMo-2-1124-13B": row("olmo2", 5120, 13824, 40, 40, 40, 100352, max_position_embeddings=4096),
    "OLMo-2-0325-32B": row("olmo2", 5120, 27648, 64, 40, 8, 100352, max_position_embeddings=4096),
    "Olmo-3-7B": row("olmo3", 4096, 11008, 32, 32, 32, 100278, sliding_window=4096, max_position_embeddings=65536),
    "Olmo-3-32B": row("olmo3", 5120, 27648, 64, 40, 8, 100278, sliding_window=4096, max_position_embeddings=65536),
    "OLMoE-1B-7B": row("olmoe", 2048, 1024, 16, 16, 16, 50304, num_experts=64, num_experts_per_tok=8,
                       max_position_embeddings=4096),
    "internlm2_5-1_8b": row("internlm2", 2048, 8192, 24, 16, 8, 92544, max_position_embeddings=32768),
    "internlm2_5-7b": row("internlm2", 4096, 14336, 32, 32, 8, 92544, max_position_embeddings=32768),
    "internlm2_5-20b": row("internlm2", 6144, 16384, 48, 48, 8, 92544, max_position_embeddings=32768),
    "internlm2-7b": row("internlm2", 4096, 14336, 32, 32, 8, 92544, max_position_embeddings=32768),
    "internlm2-20b": row("internlm2", 6144, 16384, 48, 48, 8, 92544, max_position_embeddings=32768),
    "internlm3-8b": row("internlm3", 4096, 10240, 48, 32, 2, 128512, head_dim=128, max_position_embeddings=32768),
    "InternVL2_5-8B": _internvl(row("internlm2", 4096, 14336, 32, 32, 8, 92553, max_position_embeddings=32768)),
    "InternVL3-8B": _internvl(changed(QWEN["Qwen2.5-7B"], vocab_size=151674)),
    "InternVL3-14B": _internvl(changed(QWEN["Qwen2.5-14B"], vocab_size=151674)),
    "InternVL3-38B": _internvl(changed(QWEN["Qwen2.5-32B"], vocab_size=151674), _INTERN_LARGE),
    "InternVL3-78B": _internvl(changed(QWEN["Qwen2.5-72B"], vocab_size=151674), _INTERN_LARGE),
    "InternVL3_5-8B": _internvl(QWEN["Qwen3-8B"]),
    "InternVL3_5-14B": _internvl(QWEN["Qwen3-14B"]),
    "InternVL3_5-38B": _internvl(QWEN["Qwen3-32B"], _INTERN_LARGE),
    "InternVL3_5-30B-A3B": _internvl(QWEN["Qwen3-30B-A3B"]),
    "Hunyuan-A13B": row("hunyuan_v1_moe", 4096, 3072, 32, 32, 8, 128167, head_dim=128, num_experts=64, moe_topk=8,
                        num_shared_expert=1, **_TIED | {"max_position_embeddings": 32768}),
    "Hunyuan-7B": row("hunyuan_v1_dense", 4096, 14336, 32, 32, 8, 128167, head_dim=128, max_position_embeddings=32768,
        **_TIED),
    "ERNIE-4.5-0.3B": row("ernie4_5", 1024, 3072, 18, 16, 2, 103424, head_dim=128, **_TIED | _128K),
    "ERNIE-4.5-21B-A3B": row("ernie4_5_moe", 2560, 12288, 28, 20, 4, 103424, moe_k=6, moe_intermediate_size=1536,
                             moe_num_shared_experts=2, moe_layer_start_index=1, **_ERNIE),
    "ERNIE-4.5-300B-A47B": row("ernie4_5_moe", 8192, 28672, 54, 64, 8, 103424, moe_k=8, moe_intermediate_size=3584,
                               moe_num_shared_experts=0, moe_layer_start_index=3,
                               **_ERNIE | {"tie_word_embeddings": False}),
    "Seed-OSS-36B": row("seed_oss", 5120, 27648, 64, 80, 8, 155136, head_dim=128, attention_bias=True,
        attention_out_bias=False,
                        max_position_embeddings=524288),
    "EXAONE-3.5-2.4B": row("exaone", 2560, 7168, 30, 32, 8, 102400, max_position_embeddings=32768, **_TIED),
    "EXAONE-3.5-7.8B": row("exaone", 4096, 14336, 32, 32, 8, 102400, max_position_embeddings=32768),
    "EXAONE-3.5-32B": row("exaone", 5120, 27392, 64, 40, 8, 102400, max_position_embeddings=32768),
    "EXAONE-Deep-7.8B": row("exaone", 4096, 14336, 32, 32, 8, 102400, max_position_embeddings=32768),
    "EXAONE-4.0-1.2B": row("exaone4", 2048, 4096, 30, 32, 8, 102400, head_dim=64, max_position_embeddings=65536,
        **_TIED),
    "EXAONE-4.0-32B": row("exaone4", 5120, 27392, 64, 40, 8, 102400, head_dim=128, sliding_window=4096,
        sliding_window_pattern="LLLG",
                          **_128K),
    "Apertus-8B": row("apertus", 4096, 21504, 32, 32, 8, 131072, max_position_embeddings=65536),
    "Apertus-70B": row("apertus", 8192, 43008, 80, 64, 8, 131072, max_position_embeddings=65536),
    "Baichuan2-7B": row("baichuan", 4096, 11008, 32, 32, 32, 125696, max_position_embeddings=4096),
    "Baichuan2-13B": row("baichuan", 5120, 13696, 40, 40, 40, 125696, max_position_embeddings=4096),
    "dbrx": row("dbrx", 6144, 10752, 40, 48, 8, 100352, num_experts=16, num_experts_per_tok=4,
        max_position_embeddings=32768),
    "starcoder": row("gpt_bigcode", 6144, 24576, 40, 48, 1, 49152, max_position_embeddings=8192, **_TIED),
    "granite-20b-code": row("gpt_bigcode", 6144, 24576, 52, 48, 1, 49152, max_position_embeddings=8192, **_TIED),
    "granite-34b-code": row("gpt_bigcode", 6144, 24576, 88, 48, 1, 49152, max_position_embeddings=8192, **_TIED),
    "starcoder2-3b": row("starcoder2", 3072, 12288, 30, 24, 2, 49152, max_position_embeddings=16384, **_TIED),
    "starcoder2-7b": row("starcoder2", 4608, 18432, 32, 36, 4, 49152, max_position_embeddings=16384, **_TIED),
    "starcoder2-15b": row("starcoder2", 6144, 24576, 40, 48, 4, 49152, max_position_embeddings=16384, **_TIED),
    "stablelm-2-1_6b": row("stablelm", 2048, 5632, 24, 32, 32, 100352, use_qkv_bias=True, max_position_embeddings=4096),
    "stablelm-2-12b": row("stablelm", 5120, 13824, 40, 32, 8, 100352, qk_layernorm=True, use_parallel_residual=True,
                          max_position_embeddings=4096),
    "stablelm-3b-4e1t": row("stablelm", 2560, 6912, 32, 32, 32, 50304, max_position_embeddings=4096),
    "falcon-7b": row("falcon", 4544, 18176, 32, 71, 1, 65024, multi_query=True, parallel_attn=True, bias=False,
                     max_position_embeddings=2048, **_TIED),
    "falcon-40b": row("falcon", 8192, 32768, 60, 128, 8, 65024, new_decoder_architecture=True, bias=False,
                      max_position_embeddings=2048, **_TIED),
    "falcon-180B": row("falcon", 14848, 59392, 80, 232, 8, 65024, new_decoder_architecture=True, bias=False,
                       max_position_embeddings=2048, **_TIED),
    "opt-125m": _opt(768, 12, 12),
    "opt-1.3b": _opt(2048, 24, 32),
    "opt-2.7b": _opt(2560, 32, 32),
    "opt-6.7b": _opt(4096, 32, 32),
    "opt-13b": _opt(5120, 40, 40),
    "opt-30b": _opt(7168, 48, 56),
    "opt-66b": _opt(9216, 64, 72),
    "pythia-410m": _pythia(1024, 24, 16),
    "pythia-1b": _pythia(2048, 16, 8),
    "pythia-1.4b": _pythia(2048, 24, 16),
    "pythia-2.8b": _pythia(2560, 32, 32),
    "pythia-6.9b": _pythia(4096, 32, 32, 50432),
    "pythia-12b": _pythia(5120, 36, 40, 50688),
    "gpt-neox-20b": _pythia(6144, 44, 64, 50432),
    "gpt-j-6b": row("gptj", 4096, 16384, 28, 16, 16, 50400, max_position_embeddings=2048),
    "bloom-560m": _bloom(1024, 24, 16),
    "bloom-7b1": _bloom(4096, 30, 32),
    "bloom": _bloom(14336, 70, 112),
    "mpt-7b": row("mpt", 4096, 16384, 32, 32, 32, 50432, max_position_embeddings=2048, **_TIED),
    "mpt-30b": row("mpt", 7168, 28672, 48, 64, 64, 50432, max_position_embeddings=8192, **_TIED),
    "Chinese-Alpaca-2-7b": changed(LLAMA_2_7B, vocab_size=55296),
    "Hy3-preview": row("hy_v3", 4096, 13312, 80, 64, 8, 120832, head_dim=128, num_experts=192, num_experts_per_tok=8,
                       num_shared_experts=1, moe_intermediate_size=1536, first_k_dense_replace=1, use_qk_norm=True,
                       **_128K),
}  # fmt: skip
