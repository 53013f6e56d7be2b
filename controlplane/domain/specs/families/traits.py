"""What a model type does that its config.json doesn't say: biases, norms, kind of feed-forward, ties.

Each line is read off the published modelling code of the family; tests compare the sums with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QkNorm = Literal["none", "head", "full", "heads"]  # one norm a head width, over all heads' width, one for every head


@dataclass(frozen=True, slots=True)
class Traits:
    """None = the config's own `attention_bias` or `mlp_bias` decides, false where it is missing."""

    qkv_bias: bool | None = None
    output_bias: bool | None = None  # of the projection after attention; None = as attention_bias
    qk_norm: QkNorm = "none"
    gated: bool = True  # three matrices a feed-forward, two otherwise
    mlp_bias: bool | None = None
    norms: int = 2  # a layer
    norm_bias: bool = False
    norm_weight: bool = True
    tied: bool = False  # where tie_word_embeddings is missing
    head_bias: bool = False
    sinks: bool = False  # one learned number a head
    output_gate: bool = False  # the query projection is twice as wide
    shared_gate: bool = False  # a gate before the shared expert
    router_correction: bool = False  # a bias a routed expert
    expert_bias: bool = False
    router_bias: bool = False
    learned_positions: int | None = None  # rows beyond max_position_embeddings; None = rotary or relative positions
    embedding_norm: bool = False
    final_norm: bool = True
    known: bool = True


LLAMA = Traits()
_LAYER_NORM_ALL_BIASED = Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norm_bias=True)
_QWEN3 = Traits(qk_norm="head")
_QWEN3_NEXT = Traits(qk_norm="head", output_gate=True, shared_gate=True)
_DEEPSEEK_V3 = Traits(router_correction=True)

TRAITS: dict[str, Traits] = {
    **dict.fromkeys(
        (
            "llama", "mistral", "ministral", "ministral3", "mixtral", "yi", "aquila", "internlm2", "internlm3",
            "smollm3",
            "baichuan", "granite", "granitemoe", "granitemoeshared", "granitemoehybrid", "bamba", "jamba", "falcon_h1",
            "phi3", "phi3small", "phi4mm", "mllama_text_model", "deepseek", "deepseek_v2", "llama4", "llama4_text",
            "olmo",
            "exaone", "decilm", "deci", "solar", "xverse", "telechat", "orion", "mistral4",
            "granite_swa",
            "minicpm", "minicpm3", "nemotron-nas", "hunyuan", "vaultgemma", "helium", "teleflm", "mamba", "mamba2",
            "falcon_mamba",
            "pixtral", "zamba2", "youtu", "phi4_multimodal", "kimi_vl",
        ),
        LLAMA,
    ),
    "internlm": Traits(qkv_bias=True, output_bias=True),
    "qwen": Traits(qkv_bias=True, output_bias=False),
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "mimo",
                     "qwen2_audio"), Traits(qkv_bias=True, output_bias=False)),
    "qwen2_moe": Traits(qkv_bias=True, output_bias=False, shared_gate=True),
    **dict.fromkeys(("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_vl", "qwen3_vl_moe", "dots1",
                     "qwen3_omni_moe_text", "qwen3_asr", "lfm2", "lfm2_moe"), _QWEN3),
    "lfm2_moe": Traits(qk_norm="head", router_correction=True),
    "afmoe": Traits(qk_norm="head", norms=4, output_gate=True, router_correction=True),
    "longcat_flash": Traits(norms=4, router_correction=True),
    "dots1": Traits(qk_norm="head", router_correction=True),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"), _QWEN3_NEXT),
    **dict.fromkeys(("deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_linear", "glm4_moe_lite", "glm_moe_dsa"),
    _DEEPSEEK_V3),
    "glm": Traits(output_bias=False),
    "glm4": Traits(norms=4, output_bias=False),
    "glm4v_text": Traits(norms=4, qkv_bias=True, output_bias=False),
    "chatglm": Traits(output_bias=False),
    "glm4_moe": Traits(router_correction=True, output_bias=False),
    "glm4v_moe_text": Traits(router_correction=True, output_bias=False),
    "gpt_oss": Traits(qkv_bias=True, output_bias=True, sinks=True, expert_bias=True, router_bias=True),
    "gemma": Traits(tied=True),
    "gemma2": Traits(tied=True, norms=4),
    "gemma3_text": Traits(tied=True, norms=4, qk_norm="head"),
    "gemma3": Traits(tied=True, norms=4, qk_norm="head"),
    "gemma4_text": Traits(tied=True, norms=4, qk_norm="head"),
    "gemma4": Traits(tied=True, norms=4, qk_norm="head"),
    "gemma4_unified_text": Traits(tied=True, norms=4, qk_norm="head"),
    "phi": Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norms=1, norm_bias=True, head_bias=True),
    "phimoe": Traits(norm_bias=True, head_bias=True),
    "nemotron": Traits(gated=False, norm_bias=True),
    "nemotron_h": Traits(gated=False, norms=1, router_correction=True),
    "arcee": Traits(gated=False),
    "apertus": Traits(gated=False, qk_norm="head"),
    "falcon": Traits(gated=False, norm_bias=True, tied=True),
    "refinedweb": Traits(gated=False, norm_bias=True, tied=True),
    "minimax": LLAMA,
    "minimax_text_01": LLAMA,
    "minimax_m1": LLAMA,
    "minimax_m2": Traits(qk_norm="full", router_correction=True),
    "cohere": Traits(tied=True, norms=1),
    "cohere2": Traits(tied=True, norms=1),
    "olmo2": Traits(qk_norm="full"),
    "olmo3": Traits(qk_norm="full"),
    "olmoe": Traits(qk_norm="full"),
    "flex_olmo": Traits(qk_norm="full"),
    "stablelm": Traits(norm_bias=True, output_bias=False),
    "starcoder2": Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norm_bias=True, tied=True),
    "gpt2": Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norm_bias=True, tied=True,
        learned_positions=0),
    "gpt_bigcode": Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norm_bias=True, tied=True,
                          learned_positions=0),
    "opt": Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norm_bias=True, tied=True,
        learned_positions=2),
    "gpt_neox": _LAYER_NORM_ALL_BIASED,
    "gptj": Traits(qkv_bias=False, output_bias=False, gated=False, mlp_bias=True, norms=1, norm_bias=True,
        head_bias=True),
    "bloom": Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norm_bias=True, tied=True,
        embedding_norm=True),
    "mpt": Traits(qkv_bias=False, output_bias=False, gated=False, mlp_bias=False, tied=True),
    "hunyuan_v1_dense": Traits(qk_norm="head"),
    "hunyuan_v1_moe": Traits(qk_norm="head"),
    "ernie4_5": Traits(tied=True),
    "ernie4_5_moe": Traits(tied=True, router_correction=True),
    "ernie4_5_vl_moe_text": Traits(tied=True, router_correction=True),
    "seed_oss": Traits(),
    "exaone4": Traits(qk_norm="head"),
    "exaone_moe": Traits(qk_norm="head", router_correction=True),
    "dbrx": Traits(qkv_bias=False, output_bias=False),
    "bailing_moe": Traits(),
    "bailing_moe_v2": Traits(qk_norm="head", router_correction=True),
    "step3p5": Traits(qk_norm="head", router_correction=True),
    "mimo_v2_flash": Traits(router_correction=True),
    "gemma3n_text": Traits(tied=True, norms=4, qk_norm="head"),
    "gemma3n": Traits(tied=True, norms=4, qk_norm="head"),
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "camembert"),
        Traits(qkv_bias=True, output_bias=True, gated=False, mlp_bias=True, norm_bias=True, tied=True,
               learned_positions=2, embedding_norm=True, final_norm=False),
    ),
    "hy_v3": Traits(qk_norm="head", router_correction=True),
    "mellum": Traits(qk_norm="head"),
    "solar_open": Traits(router_correction=True),
    "minimax_m3_vl_text": Traits(qk_norm="head", router_correction=True),
    "nanochat": Traits(gated=False, norm_weight=False, tied=False),
}  # fmt: skip

UNKNOWN = Traits(known=False)
