"""More models of families that the other tables have: widths from their config.json, held to the published totals."""

# ruff: noqa: PLR0917 - a line of the table gives widths in the order in which papers do
from __future__ import annotations

from controlplane.domain.specs.known.llama import MODELS as LLAMA
from controlplane.domain.specs.known.other import MODELS as OTHER
from controlplane.domain.specs.known.qwen import MODELS as QWEN
from controlplane.domain.specs.known.row import Config, changed, row

_TIED = {"tie_word_embeddings": True}
_4K, _8K, _32K = ({"max_position_embeddings": 1024 * kilo} for kilo in (4, 8, 32))
_128K = {"max_position_embeddings": 131072}
_INTERN = {"model_type": "intern_vit_6b", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24,
           "patch_size": 14, "image_size": 448}  # fmt: skip
_INTERN_LARGE = {**_INTERN, "hidden_size": 3200, "intermediate_size": 12800, "num_hidden_layers": 45}


def _seen(text: Config, vision: Config = _INTERN, **more: object) -> Config:
    return {"model_type": "internvl_chat", "llm_config": changed(text, **more), "vision_config": vision,
            "downsample_ratio": 0.5}  # fmt: skip


def _ling(hidden: int, inner: int, layers: int, heads: int, kv: int, width: int, dense: int, positions: int) -> Config:
    return row("bailing_moe_v2", hidden, inner, layers, heads, kv, 157184, head_dim=128, num_experts=256,
               num_experts_per_tok=8, moe_intermediate_size=width, num_shared_experts=1, first_k_dense_replace=dense,
               use_qk_norm=True, max_position_embeddings=positions)  # fmt: skip


def _bigcode(hidden: int, layers: int, heads: int) -> Config:
    return row("gpt_bigcode", hidden, 4 * hidden, layers, heads, 1, 49152, **_TIED | _8K)


def _bert(model_type: str, hidden: int, layers: int, heads: int, vocab: int, positions: int) -> Config:
    return row(model_type, hidden, 4 * hidden, layers, heads, heads, vocab, max_position_embeddings=positions, **_TIED)


def _states_alone(model_type: str, inner: int, vocab: int, **more: object) -> Config:
    return {"model_type": model_type, "hidden_size": 4096, "intermediate_size": inner, "num_hidden_layers": 64,
            "vocab_size": vocab, "conv_kernel": 4, "expand": 2, "tie_word_embeddings": False, **more}  # fmt: skip


def _nemotron_h(inner: int, mamba: int, feeds: int, attention: int) -> Config:
    """By numbers of layers of each kind: their order is not known, and only pipelines would notice it."""
    pairs = min(mamba, feeds)
    pattern = "M-" * pairs + "M" * (mamba - pairs) + "-" * (feeds - pairs) + "*" * attention
    return row("nemotron_h", 8192, inner, len(pattern), 64, 8, 131072, head_dim=128, hybrid_override_pattern=pattern,
               mamba_num_heads=256, mamba_head_dim=64, ssm_state_size=256, n_groups=8, **_8K)  # fmt: skip


MODELS: dict[str, Config] = {
    "Qwen-7B": row("qwen", 4096, 11008, 32, 32, 32, 151936, **_8K),
    "Qwen-14B": row("qwen", 5120, 13696, 40, 40, 40, 152064, **_8K),
    "Qwen-72B": row("qwen", 8192, 24576, 80, 64, 64, 152064, **_32K),
    "CodeQwen1.5-7B": row("qwen2", 4096, 13440, 32, 32, 4, 92416, max_position_embeddings=65536),
    "Voxtral-Mini-3B-2507": row("mistral", 3072, 8192, 30, 32, 8, 131072, head_dim=128, **_128K),
    "Voxtral-Small-24B-2507": LLAMA["Mistral-Small-3.1-24B-2503"]["text_config"],  # type: ignore[dict-item]
    "Phi-3-small-8k": row("phi3small", 4096, 14336, 32, 32, 8, 100352, **_TIED | _8K),
    "Phi-3-small-128k": row("phi3small", 4096, 14336, 32, 32, 8, 100352, **_TIED | _128K),
    "Llama-3.1-Minitron-4B-Width": row("llama", 3072, 9216, 32, 32, 8, 128256, head_dim=128, **_128K),
    "Llama-3.1-Minitron-4B-Depth": row("llama", 4096, 14336, 16, 32, 8, 128256, **_128K),
    "granite-3b-code": row("llama", 2560, 10240, 32, 32, 32, 49152, attention_bias=True, mlp_bias=True, **_TIED,
                           max_position_embeddings=2048),
    "granite-8b-code": row("llama", 4096, 14336, 36, 32, 8, 49152, attention_bias=True, mlp_bias=True, **_TIED | _4K),
    "falcon-11B": row("falcon", 4096, 16384, 60, 32, 8, 65024, new_decoder_architecture=True, bias=False,
                      num_ln_in_parallel_attn=1, **_8K),
    "Yi-Coder-9B": changed(LLAMA["Yi-9B"], **_128K),
    "Yi-Coder-1.5B": row("llama", 2048, 5504, 24, 16, 16, 64000, **_128K),
    "Baichuan-7B": row("baichuan", 4096, 11008, 32, 32, 32, 64000, **_4K),
    "internlm-7b": row("internlm", 4096, 11008, 32, 32, 32, 103168, bias=True, max_position_embeddings=2048),
    "InternVL2-1B": _seen(QWEN["Qwen2.5-0.5B"], vocab_size=151655, tie_word_embeddings=False),
    "InternVL2-2B": _seen(OTHER["internlm2_5-1_8b"], vocab_size=92553),
    "InternVL2_5-2B": _seen(OTHER["internlm2_5-1_8b"], vocab_size=92553),
    "InternVL2-26B": _seen(OTHER["internlm2-20b"], _INTERN_LARGE, vocab_size=92553),
    "InternVL2_5-26B": _seen(OTHER["internlm2_5-20b"], _INTERN_LARGE, vocab_size=92553),
    "InternVL2-40B": _seen(LLAMA["Yi-34B"], _INTERN_LARGE, vocab_size=64007, **_8K),
    "InternVL2-Llama3-76B": _seen(LLAMA["Meta-Llama-3-70B"], _INTERN_LARGE, vocab_size=128265),
    "InternVL2_5-4B": _seen(QWEN["Qwen2.5-3B"], vocab_size=151674, tie_word_embeddings=False),
    "InternVL3-9B": _seen(OTHER["internlm3-8b"]),
    "InternVL3_5-241B-A28B": _seen(QWEN["Qwen3-235B-A22B"], _INTERN_LARGE),
    "Intern-S1": _seen(QWEN["Qwen3-235B-A22B"], _INTERN_LARGE, vocab_size=153216, max_position_embeddings=65536),
    "Intern-S1-mini": _seen(QWEN["Qwen3-8B"], vocab_size=153216, max_position_embeddings=65536),
    "MiniCPM-2B": row("minicpm", 2304, 5760, 40, 36, 36, 122753, **_TIED | _4K),
    "MiniCPM4-0.5B": row("minicpm", 1024, 4096, 24, 16, 2, 73448, **_TIED | _32K),
    "MiniCPM4-8B": row("minicpm", 4096, 16384, 32, 32, 2, 73448, **_32K),
    "MiniCPM4.1-8B": row("minicpm", 4096, 16384, 32, 32, 2, 73448, max_position_embeddings=65536),
    "MiniCPM-V-4_5": changed(QWEN["Qwen3-8B"], vocab_size=151748),
    "MiniCPM-o-2_6": changed(QWEN["Qwen2.5-7B"], vocab_size=151700, **_32K),
    "MiniCPM-Llama3-V-2_5": changed(LLAMA["Meta-Llama-3-8B"], vocab_size=128256),
    "Ling-mini-2.0": _ling(2048, 5120, 20, 16, 4, 512, 1, 32768),
    "Ling-flash-2.0": _ling(4096, 9216, 32, 32, 4, 1024, 1, 32768),
    "Ling-1T": _ling(8192, 18432, 80, 64, 8, 2048, 4, 32768),
    "Hunyuan-1.8B": row("hunyuan_v1_dense", 2048, 6144, 32, 16, 4, 120818, head_dim=128, **_TIED | {
        "max_position_embeddings": 262144}),
    "dots.ocr": changed(QWEN["Qwen2.5-1.5B"], tie_word_embeddings=False, **_128K),
    "EXAONE-3.0-7.8B": changed(OTHER["EXAONE-3.5-7.8B"], **_4K),
    "SmolVLM": row("llama", 2048, 8192, 24, 32, 32, 49155, max_position_embeddings=16384),
    "Idefics3-8B-Llama3": changed(LLAMA["Llama-3.1-8B"], vocab_size=128259),
    "llava-v1.6-34b": changed(LLAMA["Yi-34B"], vocab_size=64064),
    "Ovis2-8B": QWEN["Qwen2.5-7B"],
    "Ovis2.5-9B": QWEN["Qwen3-8B"],
    "Keye-VL-8B": QWEN["Qwen3-8B"],
    "pythia-70m": row("gpt_neox", 512, 2048, 6, 8, 8, 50304, max_position_embeddings=2048),
    "pythia-160m": row("gpt_neox", 768, 3072, 12, 12, 12, 50304, max_position_embeddings=2048),
    "bloom-1b1": row("bloom", 1536, 6144, 24, 16, 16, 250880, max_position_embeddings=2048, **_TIED),
    "bloom-1b7": row("bloom", 2048, 8192, 24, 16, 16, 250880, max_position_embeddings=2048, **_TIED),
    "bloom-3b": row("bloom", 2560, 10240, 30, 32, 32, 250880, max_position_embeddings=2048, **_TIED),
    "starcoderbase-1b": _bigcode(2048, 24, 16),
    "starcoderbase-3b": _bigcode(2816, 36, 22),
    "starcoderbase-7b": _bigcode(4096, 42, 32),
    "open_llama_3b": row("llama", 3200, 8640, 26, 32, 32, 32000, max_position_embeddings=2048),
    "EuroLLM-1.7B": row("llama", 2048, 5632, 24, 16, 8, 128000, **_4K),
    "EuroLLM-9B": row("llama", 4096, 12288, 42, 32, 8, 128000, **_4K),
    "salamandra-2b": row("llama", 2048, 5440, 24, 16, 16, 256000, **_8K),
    "salamandra-7b": row("llama", 4096, 11008, 32, 32, 8, 256000, **_8K),
    "Teuken-7B": row("llama", 4096, 13440, 32, 32, 2, 250680, **_TIED | _4K),
    "Bielik-11B": row("mistral", 4096, 14336, 50, 32, 8, 32128, **_32K),
    "calm3-22b": row("llama", 6144, 16384, 48, 48, 48, 65024, max_position_embeddings=16384),
    "llm-jp-3-13b": row("llama", 5120, 13824, 40, 40, 40, 99584, **_4K),
    "YandexGPT-5-Lite-8B": row("llama", 4096, 14336, 32, 32, 8, 129024, **_32K),
    "ALLaM-7B": changed(LLAMA["Llama-2-7b"], vocab_size=64000),
    "h2o-danube3-4b": row("llama", 3840, 10240, 24, 32, 8, 32000, head_dim=120, **_8K),
    "grok-1": row("mixtral", 6144, 32768, 64, 48, 8, 131072, head_dim=128, num_local_experts=8, num_experts_per_tok=2,
                  **_TIED | _8K),
    "Nemotron-H-47B": _nemotron_h(30720, 44, 49, 5),
    "Nemotron-H-56B": _nemotron_h(32768, 54, 54, 10),
    "LFM2-8B-A1B": row("lfm2_moe", 2048, 7168, 24, 32, 8, 65536, full_attn_idxs=[2, 6, 10, 14, 18, 21], num_experts=32,
                       num_experts_per_tok=4, moe_intermediate_size=1792, num_dense_layers=2, conv_L_cache=3,
                       use_expert_bias=True, max_position_embeddings=128000, **_TIED),
    "falcon-mamba-7b": _states_alone("falcon_mamba", 8192, 65024, state_size=16, time_step_rank=256),
    "Mamba-Codestral-7B-v0.1": _states_alone("mamba2", 0, 32768, num_heads=128, head_dim=64, state_size=128,
                                             n_groups=8),
    "Seed-Coder-8B": row("llama", 4096, 14336, 32, 32, 8, 155136, **_32K),
    "Orion-14B": row("orion", 5120, 15360, 40, 40, 40, 84608, **_4K),
    "Poro-34B": row("bloom", 7168, 28672, 54, 56, 56, 128128, max_position_embeddings=2048, **_TIED),
    "Cerebras-GPT-13B": row("gpt2", 5120, 20480, 40, 40, 40, 50257, max_position_embeddings=2048, **_TIED),
    "japanese-gpt-neox-3.6b": row("gpt_neox", 2816, 11264, 36, 22, 22, 32000, max_position_embeddings=2048),
    "SmolVLM-256M": changed(LLAMA["SmolLM2-135M"], vocab_size=49280),
    "SmolVLM-500M": changed(LLAMA["SmolLM2-360M"], vocab_size=49280),
    "Molmo-7B-D": changed(QWEN["Qwen2.5-7B"], **_4K),
    "R-4B": QWEN["Qwen3-4B"],
    "aya-vision-8b": changed(OTHER["c4ai-command-r7b-12-2024"], max_position_embeddings=16384),
    "aya-vision-32b": changed(OTHER["aya-expanse-32b"], max_position_embeddings=16384),
    "roberta-base": _bert("roberta", 768, 12, 12, 50265, 514),
    "roberta-large": _bert("roberta", 1024, 24, 16, 50265, 514),
    "xlm-roberta-base": _bert("xlm-roberta", 768, 12, 12, 250002, 514),
    "xlm-roberta-large": _bert("xlm-roberta", 1024, 24, 16, 250002, 514),
    "multilingual-e5-small": row("bert", 384, 1536, 12, 12, 12, 250037, max_position_embeddings=512, **_TIED),
}  # fmt: skip

# Parameters as published, where the tower stands in no config that is read here: what the text model lacks is the tower
TOTALS: dict[str, int] = {
    "Voxtral-Mini-3B-2507": 4_676_000_000,
    "Voxtral-Small-24B-2507": 24_261_000_000,
    "MiniCPM-V-4_5": 8_695_895_280,
    "MiniCPM-o-2_6": 8_674_000_000,
    "MiniCPM-Llama3-V-2_5": 8_537_000_000,
    "dots.ocr": 3_039_179_264,
    "SmolVLM": 2_246_272_880,
    "Idefics3-8B-Llama3": 8_462_000_000,
    "llava-v1.6-34b": 34_750_000_000,
    "Ovis2-8B": 8_935_000_000,
    "Ovis2.5-9B": 9_175_000_000,
    "Keye-VL-8B": 8_696_000_000,
    "SmolVLM-256M": 256_484_928,
    "SmolVLM-500M": 507_482_304,
    "Molmo-7B-D": 8_021_000_000,
    "R-4B": 4_821_000_000,
    "aya-vision-8b": 8_630_000_000,
    "aya-vision-32b": 33_100_000_000,
}
