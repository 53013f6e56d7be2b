"""Further models that people serve: widths as their config.json has them, each held to the published total."""

# ruff: noqa: PLR0917 - a line of the table gives widths in the order in which papers do
from __future__ import annotations

from controlplane.domain.specs.known.deepseek import MODELS as DEEPSEEK
from controlplane.domain.specs.known.further import MODELS as FURTHER
from controlplane.domain.specs.known.hybrid import MODELS as HYBRID
from controlplane.domain.specs.known.llama import LLAMA_2_7B, LLAMA_3_8B, MISTRAL_7B_2
from controlplane.domain.specs.known.llama import MODELS as LLAMA
from controlplane.domain.specs.known.other import MODELS as OTHER
from controlplane.domain.specs.known.qwen import MODELS as QWEN
from controlplane.domain.specs.known.row import Config, changed, row, seeing

_TIED = {"tie_word_embeddings": True}
_2K, _4K, _8K, _32K = ({"max_position_embeddings": 1024 * kilo} for kilo in (2, 4, 8, 32))
_128K = {"max_position_embeddings": 131072}
_CLIP = {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
         "patch_size": 14, "image_size": 336}  # fmt: skip
_INTERN = {"model_type": "intern_vit_6b", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
           "patch_size": 14, "image_size": 448}  # fmt: skip


def _fp8(name: str) -> Config:
    return changed(LLAMA[name], quantization_config={"quant_method": "fp8"})


def _trinity(hidden: int, inner: int, layers: int, heads: int, kv: int, experts: int, active: int, width: int,
             dense: int, window: int) -> Config:  # fmt: skip
    return row("afmoe", hidden, inner, layers, heads, kv, 200192, head_dim=128, num_experts=experts,
               num_experts_per_tok=active, moe_intermediate_size=width, num_shared_experts=1, num_dense_layers=dense,
               sliding_window=window, **_128K)  # fmt: skip


def _small_phi_moe(inner: int, heads: int, kv: int) -> Config:
    return row("phimoe", 4096, inner, 32, heads, kv, 32064, head_dim=128, num_local_experts=16, num_experts_per_tok=2,
               attention_bias=True, lm_head_bias=True, **_4K)  # fmt: skip


def _vl2(hidden: int, inner: int, layers: int, heads: int, experts: int, width: int, **more: object) -> Config:
    return row("deepseek_v2", hidden, inner, layers, heads, heads, 102400, n_routed_experts=experts,
               num_experts_per_tok=6, n_shared_experts=2, moe_intermediate_size=width, first_k_dense_replace=1,
               kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=128, v_head_dim=128,
               **{**_4K, **more})  # fmt: skip


_LING_LITE = row("bailing_moe", 2048, 5632, 28, 16, 4, 126464, head_dim=128, num_experts=64, num_experts_per_tok=6,
                 moe_intermediate_size=1408, num_shared_experts=2, first_k_dense_replace=0, **_32K)  # fmt: skip
_GRANITE_H = changed(HYBRID["granite-4.0-h-tiny"], num_local_experts=0, num_experts_per_tok=0,
                     intermediate_size=4096, shared_intermediate_size=4096)  # fmt: skip

MODELS: dict[str, Config] = {
    # in FP8 as published, unlike those for reasoning
    "Ministral-3-3B-Instruct-2512": _fp8("Ministral-3-3B-2512"),
    "Ministral-3-8B-Instruct-2512": _fp8("Ministral-3-8B-2512"),
    "Ministral-3-14B-Instruct-2512": _fp8("Ministral-3-14B-2512"),
    "Mistral-Large-3-675B-2512": LLAMA["Mistral-Large-3-675B"],
    "Mistral-Large-3-675B-Base-2512": changed(LLAMA["Mistral-Large-3-675B"], quantization_config=None),
    "goliath-120b": row("llama", 8192, 28672, 137, 64, 8, 32000, **_4K),
    "llama-160m": row("llama", 768, 3072, 12, 12, 12, 32000, **_2K),
    "llama-68m": row("llama", 768, 3072, 2, 12, 12, 32000, **_2K),
    "Chinese-Alpaca-2-13b": changed(LLAMA["Llama-2-13b"], vocab_size=55296),
    "OpenHathi-7B": changed(LLAMA_2_7B, vocab_size=48064),
    "Breeze-7B": changed(MISTRAL_7B_2, vocab_size=61952),
    "RakutenAI-7B": changed(MISTRAL_7B_2, vocab_size=48000),
    "Lucie-7B": row("llama", 4096, 12288, 32, 32, 8, 65024, **_32K),
    "CroissantLLM": row("llama", 2048, 5504, 24, 16, 16, 32000, **_2K),
    "reka-flash-3": row("llama", 6144, 19648, 44, 64, 8, 100352, head_dim=96, **_32K),
    "solar-pro-preview": row("solar", 5120, 17920, 64, 40, 10, 32128, **_4K),
    "HyperCLOVAX-SEED-Text-1.5B": row("llama", 2048, 7168, 24, 16, 8, 110592, head_dim=128, **_TIED | _128K),
    "A.X-4.0-Light": changed(QWEN["Qwen2.5-7B"], vocab_size=102400, max_position_embeddings=16384),
    "A.X-4.0": changed(QWEN["Qwen2.5-72B"], vocab_size=102400),
    "gte-Qwen2-1.5B": changed(QWEN["Qwen2-1.5B"], vocab_size=151646, tie_word_embeddings=False, **_128K),
    "internlm-20b": row("llama", 5120, 13824, 60, 40, 40, 103168, **_4K),
    "Baichuan-13B": changed(OTHER["Baichuan2-13B"], vocab_size=64000),
    "OLMo-1B-0724": changed(OTHER["OLMo-1B"], tie_word_embeddings=False, **_4K),
    "stablelm-tuned-alpha-7b": row("gpt_neox", 6144, 24576, 16, 48, 48, 50432, **_4K),
    "opt-175b": row("opt", 12288, 49152, 96, 96, 96, 50272, **_TIED | _2K),
    "distilgpt2": changed(OTHER["gpt2"], num_hidden_layers=6),
    "bge-large-zh-v1.5": row("bert", 1024, 4096, 24, 16, 16, 21128, max_position_embeddings=512, **_TIED),
    "bge-base-zh-v1.5": row("bert", 768, 3072, 12, 12, 12, 21128, max_position_embeddings=512, **_TIED),
    "all-MiniLM-L12-v2": row("bert", 384, 1536, 12, 12, 12, 30522, max_position_embeddings=512, **_TIED),
    "gemma-4-12B": row(
        "gemma4_unified_text", 3840, 15360, 48, 16, 8, 262144, head_dim=256, global_head_dim=512, sliding_window=1024,
        layer_types=(["sliding_attention"] * 5 + ["full_attention"]) * 8, num_global_key_value_heads=1,
        attention_k_eq_v=True, hidden_size_per_layer_input=0, max_position_embeddings=262144, **_TIED,
    ),
    "MiniCPM3-4B": row("minicpm3", 2560, 6400, 62, 40, 40, 73448, q_lora_rank=768, kv_lora_rank=256,
                       qk_nope_head_dim=64, qk_rope_head_dim=32, v_head_dim=64, **_TIED | _32K),
    "granite-4.0-350m": row("granite", 1024, 2048, 28, 16, 4, 100352, **_TIED | _32K),
    "granite-4.0-1b": row("granite", 2048, 4096, 40, 16, 4, 100352, **_TIED | _128K),
    "granite-4.0-h-1b": _GRANITE_H,
    "granite-3.0-1b-a400m": changed(HYBRID["granite-3.1-1b-a400m"], **_4K),
    "granite-3.0-3b-a800m": changed(HYBRID["granite-3.1-3b-a800m"], **_4K),
    "PowerLM-3b": row("granite", 2304, 9216, 40, 36, 36, 49152, **_TIED | _4K),
    "PowerMoE-3b": changed(HYBRID["granite-3.1-3b-a800m"], vocab_size=49152, **_4K),
    "Phi-mini-MoE": _small_phi_moe(960, 32, 8),
    "Phi-tiny-MoE": _small_phi_moe(448, 16, 4),
    "Ling-lite": _LING_LITE,
    "Ling-lite-1.5": _LING_LITE,
    "Trinity-Nano": _trinity(1024, 3072, 56, 8, 2, 128, 8, 256, 2, 2048),
    "Trinity-Mini": _trinity(2048, 6144, 32, 32, 4, 128, 8, 1024, 2, 2048),
    "K-EXAONE-236B-A23B": row(
        "exaone_moe", 6144, 18432, 48, 64, 8, 153600, head_dim=128, num_experts=128, num_experts_per_tok=8,
        moe_intermediate_size=2048, num_shared_experts=1, first_k_dense_replace=1, sliding_window=128,
        sliding_window_pattern="LLLG", max_position_embeddings=262144,
    ),
    "Falcon-H1-1.5B-Deep": row(
        "falcon_h1", 1280, 3072, 66, 6, 2, 65537, head_dim=128, mamba_d_ssm=1536, mamba_n_heads=24, mamba_d_head=64,
        mamba_d_state=256, mamba_n_groups=1, mamba_d_conv=4, mamba_rms_norm=False, **_128K,
    ),
    "Trinity-Large": _trinity(3072, 12288, 60, 48, 8, 256, 4, 3072, 6, 4096),
    "Hunyuan-0.5B": row("hunyuan_v1_dense", 1024, 3584, 24, 16, 8, 120818, head_dim=128, **_TIED | {
        "max_position_embeddings": 262144}),
    "falcon-rw-1b": row("falcon", 2048, 8192, 24, 32, 32, 50304, multi_query=False, parallel_attn=False, bias=True,
                        **_TIED | _2K),
    "InternVL3_5-GPT-OSS-20B-A4B": {
        "model_type": "internvl_chat", "llm_config": changed(OTHER["gpt-oss-20b"], quantization_config=None),
        "vision_config": _INTERN, "downsample_ratio": 0.5},
    "NVIDIA-Nemotron-Nano-12B-v2-VL": HYBRID["NVIDIA-Nemotron-Nano-12B-v2"],
    "Llama-3.1-Nemotron-Nano-VL-8B-V1": LLAMA["Llama-3.1-8B"],
    "glm-4v-9b": changed(DEEPSEEK["glm-4-9b"], max_position_embeddings=8192),
    "MiniCPM-V-2": FURTHER["MiniCPM-2B"],
    "blip2-opt-2.7b": OTHER["opt-2.7b"],
    "deepseek-vl2-tiny": row(
        "deepseek", 1280, 6848, 12, 10, 10, 129280, n_routed_experts=64, num_experts_per_tok=6, n_shared_experts=2,
        moe_intermediate_size=896, first_k_dense_replace=1, **_4K,
    ),
    "deepseek-vl2-small": _vl2(2048, 10944, 27, 16, 64, 1408),
    "deepseek-vl2": _vl2(2560, 12288, 30, 32, 72, 1536, vocab_size=129280),
    "InternVL2-4B": {"model_type": "internvl_chat", "llm_config": changed(OTHER["Phi-3-mini-128k"], vocab_size=32020),
                     "vision_config": _INTERN, "downsample_ratio": 0.5},
    "llava-next-72b": seeing("llava_next", changed(QWEN["Qwen1.5-72B"], vocab_size=152064), _CLIP),
    "llama3-llava-next-8b": seeing("llava_next", changed(LLAMA_3_8B, vocab_size=128320), _CLIP),
    "llava-onevision-qwen2-0.5b": QWEN["Qwen2-0.5B"],
    "llava-onevision-qwen2-7b": QWEN["Qwen2-7B"],
    "llava-onevision-qwen2-72b": QWEN["Qwen2-72B"],
    "paligemma-3b": changed(OTHER["gemma-2b"], vocab_size=257216),
    "paligemma2-3b": changed(OTHER["gemma-2-2b"], vocab_size=257216),
    "granite-vision-3.3-2b": HYBRID["granite-3.1-2b"],
    "LFM2-VL-450M": HYBRID["LFM2-350M"],
    "LFM2-VL-1.6B": HYBRID["LFM2-1.2B"],
    "Ovis1.6-Gemma2-9B": OTHER["gemma-2-9b"],
    "Ovis2-34B": QWEN["Qwen2.5-32B"],
    "Molmo-72B": QWEN["Qwen2-72B"],
    "PaddleOCR-VL": OTHER["ERNIE-4.5-0.3B"],
}  # fmt: skip

# Parameters as published, where the tower stands in no config that is read here
TOTALS: dict[str, int] = {
    "NVIDIA-Nemotron-Nano-12B-v2-VL": 13_180_000_000,
    "Llama-3.1-Nemotron-Nano-VL-8B-V1": 8_720_000_000,
    "glm-4v-9b": 13_906_000_000,
    "MiniCPM-V-2": 3_434_000_000,
    "blip2-opt-2.7b": 3_745_000_000,
    "deepseek-vl2-tiny": 3_371_000_000,
    "deepseek-vl2-small": 16_150_000_000,
    "deepseek-vl2": 27_480_000_000,
    "llava-onevision-qwen2-0.5b": 894_000_000,
    "llava-onevision-qwen2-7b": 8_030_000_000,
    "llava-onevision-qwen2-72b": 73_180_000_000,
    "paligemma-3b": 2_923_000_000,
    "paligemma2-3b": 3_032_000_000,
    "granite-vision-3.3-2b": 2_975_000_000,
    "LFM2-VL-450M": 450_800_000,
    "LFM2-VL-1.6B": 1_584_000_000,
    "Ovis1.6-Gemma2-9B": 10_200_000_000,
    "Ovis2-34B": 34_900_000_000,
    "Molmo-72B": 73_300_000_000,
    "PaddleOCR-VL": 958_600_000,
}
