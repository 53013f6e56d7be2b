"""Qwen 1.5 to 3.8, with coders, vision, omni and mixtures, and what is distilled into them."""

# ruff: noqa: PLR0917 - a line of the table gives widths in the order in which papers do
from __future__ import annotations

from controlplane.domain.specs.known.row import Config, changed, row, seeing

_TIED = {"tie_word_embeddings": True}


def _two(hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int = 151936, **more: object) -> Config:
    return row("qwen2", hidden, inner, layers, heads, kv, vocab, **{"max_position_embeddings": 32768, **more})


def _three(hidden: int, inner: int, layers: int, heads: int, kv: int, **more: object) -> Config:
    return row("qwen3", hidden, inner, layers, heads, kv, 151936,
               **{"head_dim": 128, "max_position_embeddings": 40960, **more})  # fmt: skip


def _three_moe(hidden: int, layers: int, heads: int, kv: int, experts: int, width: int, **more: object) -> Config:
    return row("qwen3_moe", hidden, 6144, layers, heads, kv, 151936,
               **{"head_dim": 128, "num_experts": experts, "num_experts_per_tok": 8, "moe_intermediate_size": width,
                  "max_position_embeddings": 40960, **more})  # fmt: skip


_TOWER_2 = {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "patch_size": 14}
_TOWER_25 = {"depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "patch_size": 14}
_TOWER_3 = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304, "patch_size": 16,
            "num_position_embeddings": 2304, "deepstack_visual_indexes": [8, 16, 24]}  # fmt: skip
_TOWER_3_SMALL = {**_TOWER_3, "depth": 24, "hidden_size": 1024, "intermediate_size": 4096}
_TOWER_35 = {key: value for key, value in _TOWER_3.items() if key != "deepstack_visual_indexes"}
_AUDIO = {"model_type": "qwen2_5_omni_audio_encoder", "d_model": 1280, "encoder_layers": 32, "encoder_ffn_dim": 5120,
          "num_mel_bins": 128}  # fmt: skip

_05, _15 = _two(896, 4864, 24, 14, 2, **_TIED), _two(1536, 8960, 28, 12, 2, **_TIED)
_3, _7 = _two(2048, 11008, 36, 16, 2, **_TIED), _two(3584, 18944, 28, 28, 4, 152064)
_14, _32 = _two(5120, 13824, 48, 40, 8, 152064), _two(5120, 27648, 64, 40, 8, 152064)
_72 = _two(8192, 29568, 80, 64, 8, 152064)
_Q4, _Q8 = _three(2560, 9728, 36, 32, 8, **_TIED), _three(4096, 12288, 36, 32, 8)
_Q14, _Q32 = _three(5120, 17408, 40, 40, 8), _three(5120, 25600, 64, 64, 8)
_30B, _235B = _three_moe(2048, 48, 32, 4, 128, 768), _three_moe(4096, 94, 64, 4, 128, 1536)
_128K = {"max_position_embeddings": 128000}
_256K = {"max_position_embeddings": 262144}


def _gdn(hidden: int, inner: int, layers: int, heads: int, kv: int, value_heads: int, **more: object) -> Config:
    return row("qwen3_5_text", hidden, inner, layers, heads, kv, 248320,
               **{"head_dim": 256, "linear_num_key_heads": 16, "linear_num_value_heads": value_heads,
                  "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
                  "mtp_num_hidden_layers": 1, **_256K, **more})  # fmt: skip


def _gdn_moe(hidden: int, layers: int, heads: int, value_heads: int, experts: int, active: int, width: int) -> Config:
    text = changed(_gdn(hidden, width, layers, heads, 2, value_heads), model_type="qwen3_5_moe_text",
    num_experts=experts,
                   num_experts_per_tok=active, moe_intermediate_size=width,
                   shared_expert_intermediate_size=width)  # fmt: skip
    return seeing("qwen3_5_moe", text, _TOWER_35)


_NEXT = row(
    "qwen3_next", 2048, 5120, 48, 16, 2, 151936, head_dim=256, linear_num_key_heads=16, linear_num_value_heads=32,
    linear_key_head_dim=128, linear_value_head_dim=128, linear_conv_kernel_dim=4, num_experts=512,
    num_experts_per_tok=10, moe_intermediate_size=512, shared_expert_intermediate_size=512, **_256K,
)  # fmt: skip
_35_27B = seeing("qwen3_5", _gdn(5120, 17408, 64, 24, 4, 48), _TOWER_35)
_35_35B = _gdn_moe(2048, 40, 16, 32, 256, 8, 512)


def _vl3(text: Config, tower: Config, **more: object) -> Config:
    kind = "qwen3_vl_moe" if "num_experts" in text else "qwen3_vl"
    return seeing(kind, changed(text, model_type=f"{kind}_text", **_256K, **more), tower)


MODELS: dict[str, Config] = {
    "Qwen1.5-0.5B": _two(1024, 2816, 24, 16, 16, **_TIED),
    "Qwen1.5-1.8B": _two(2048, 5504, 24, 16, 16),
    "Qwen1.5-4B": _two(2560, 6912, 40, 20, 20),
    "Qwen1.5-7B": _two(4096, 11008, 32, 32, 32),
    "Qwen1.5-14B": _two(5120, 13696, 40, 40, 40, 152064),
    "Qwen1.5-32B": _two(5120, 27392, 64, 40, 8, 152064),
    "Qwen1.5-72B": _two(8192, 24576, 80, 64, 64, 152064),
    "Qwen1.5-110B": _two(8192, 49152, 80, 64, 8, 152064),
    "Qwen1.5-MoE-A2.7B": row(
        "qwen2_moe", 2048, 5632, 24, 16, 16, 151936, num_experts=60, num_experts_per_tok=4, moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632, max_position_embeddings=8192,
    ),
    "Qwen2-0.5B": _05,
    "Qwen2-1.5B": _15,
    "Qwen2-7B": _7,
    "Qwen2-72B": _72,
    "Qwen2-57B-A14B": row(
        "qwen2_moe", 3584, 18944, 28, 28, 4, 151936, num_experts=64, num_experts_per_tok=8, moe_intermediate_size=2560,
        shared_expert_intermediate_size=20480, max_position_embeddings=32768,
    ),
    "Qwen2.5-0.5B": _05,
    "Qwen2.5-1.5B": _15,
    "Qwen2.5-3B": _3,
    "Qwen2.5-7B": _7,
    "Qwen2.5-14B": _14,
    "Qwen2.5-32B": _32,
    "Qwen2.5-72B": _72,
    **{f"Qwen2.5-Coder-{size}": config for size, config in
       (("0.5B", _05), ("1.5B", _15), ("3B", _3), ("7B", _7), ("14B", _14), ("32B", _32))},
    **{f"Qwen2.5-Math-{size}": changed(config, max_position_embeddings=4096) for size, config in
       (("1.5B", _15), ("7B", _7), ("72B", _72))},
    "Kimi-Dev-72B": changed(_72, max_position_embeddings=131072),
    "QwQ-32B": changed(_32, max_position_embeddings=40960),
    "QwQ-32B-Preview": _32,
    "QVQ-72B": seeing("qwen2_vl", changed(_72, model_type="qwen2_vl_text"), _TOWER_2),
    "DeepSeek-R1-Distill-Qwen-1.5B": changed(_15, tie_word_embeddings=False, max_position_embeddings=131072),
    "DeepSeek-R1-Distill-Qwen-7B": changed(_7, max_position_embeddings=131072),
    "DeepSeek-R1-Distill-Qwen-14B": changed(_14, max_position_embeddings=131072),
    "DeepSeek-R1-Distill-Qwen-32B": changed(_32, max_position_embeddings=131072),
    "DeepSeek-R1-0528-Qwen3-8B": changed(_Q8, max_position_embeddings=131072),
    "Qwen2-VL-2B": seeing("qwen2_vl", changed(_15, model_type="qwen2_vl_text"), _TOWER_2),
    "Qwen2-VL-7B": seeing("qwen2_vl", changed(_7, model_type="qwen2_vl_text"), _TOWER_2),
    "Qwen2-VL-72B": seeing("qwen2_vl", changed(_72, model_type="qwen2_vl_text"), _TOWER_2),
    "Qwen2.5-VL-3B": seeing("qwen2_5_vl", changed(_3, model_type="qwen2_5_vl_text", **_128K), _TOWER_25),
    "Qwen2.5-VL-7B": seeing("qwen2_5_vl", changed(_7, model_type="qwen2_5_vl_text", **_128K), _TOWER_25),
    "Qwen2.5-VL-32B": seeing("qwen2_5_vl", changed(_32, model_type="qwen2_5_vl_text", **_128K),
                             changed(_TOWER_25, intermediate_size=3456)),
    "Qwen2.5-VL-72B": seeing("qwen2_5_vl", changed(_72, model_type="qwen2_5_vl_text", **_128K),
                             changed(_TOWER_25, intermediate_size=3456)),
    "Qwen2.5-Omni-3B": {**seeing("qwen2_5_omni_thinker", changed(_3, model_type="qwen2_5_omni_text",
        tie_word_embeddings=False),
                                 _TOWER_25), "audio_config": _AUDIO},
    "Qwen2.5-Omni-7B": {**seeing("qwen2_5_omni_thinker", changed(_7, model_type="qwen2_5_omni_text"), _TOWER_25),
                        "audio_config": _AUDIO},
    "Qwen2-Audio-7B": {"model_type": "qwen2_audio", "text_config": _two(4096, 11008, 32, 32, 32, 156032),
                       "audio_config": _AUDIO},
    "Qwen3-0.6B": _three(1024, 3072, 28, 16, 8, **_TIED),
    "Qwen3-1.7B": _three(2048, 6144, 28, 16, 8, **_TIED),
    "Qwen3-4B": _Q4,
    "Qwen3-4B-2507": changed(_Q4, **_256K),
    "Qwen3-8B": _Q8,
    "Qwen3-14B": _Q14,
    "Qwen3-32B": _Q32,
    "Qwen3-30B-A3B": _30B,
    "Qwen3-30B-A3B-2507": changed(_30B, **_256K),
    "Qwen3-235B-A22B": _235B,
    "Qwen3-235B-A22B-2507": changed(_235B, **_256K),
    "Qwen3-Coder-30B-A3B": changed(_30B, **_256K),
    "Qwen3-Coder-480B-A35B": _three_moe(6144, 62, 96, 8, 160, 2560, **_256K),
    "Qwen3-Embedding-0.6B": _three(1024, 3072, 28, 16, 8, vocab_size=151669, **_TIED),
    "Qwen3-Embedding-4B": changed(_Q4, vocab_size=151665),
    "Qwen3-Embedding-8B": changed(_Q8, vocab_size=151665, **_TIED),
    "Qwen3-VL-2B": _vl3(_three(2048, 6144, 28, 16, 8, **_TIED), _TOWER_3_SMALL),
    "Qwen3-VL-4B": _vl3(_Q4, _TOWER_3_SMALL),
    "Qwen3-VL-8B": _vl3(_Q8, _TOWER_3),
    "Qwen3-VL-32B": _vl3(_Q32, _TOWER_3),
    "Qwen3-VL-30B-A3B": _vl3(_30B, _TOWER_3),
    "Qwen3-VL-235B-A22B": _vl3(_235B, _TOWER_3),
    "Qwen3-Next-80B-A3B": _NEXT,
    "Qwen3-Coder-Next": _NEXT,
    "Qwen3.5-0.8B": seeing("qwen3_5", _gdn(1024, 3584, 24, 8, 2, 16, **_TIED),
                           {**_TOWER_35, "depth": 12, "hidden_size": 768, "intermediate_size": 3072}),
    "Qwen3.5-2B": seeing("qwen3_5", _gdn(2048, 6144, 24, 8, 2, 16, **_TIED),
                         {**_TOWER_35, "depth": 24, "hidden_size": 1024, "intermediate_size": 4096}),
    "Qwen3.5-4B": seeing("qwen3_5", _gdn(2560, 9216, 32, 16, 4, 32, **_TIED),
                         {**_TOWER_35, "depth": 24, "hidden_size": 1024, "intermediate_size": 4096}),
    "Qwen3.5-9B": seeing("qwen3_5", _gdn(4096, 12288, 32, 16, 4, 32), _TOWER_35),
    **{f"Qwen{version}-27B": _35_27B for version in ("3.5", "3.6", "3.8")},
    **{f"Qwen{version}-35B-A3B": _35_35B for version in ("3.5", "3.6", "3.8")},
    "Qwen3.5-122B-A10B": _gdn_moe(3072, 48, 32, 64, 256, 8, 1024),
    "Qwen3.5-397B-A17B": _gdn_moe(4096, 60, 32, 64, 512, 10, 1024),
    "MiMo-7B": row("mimo", 4096, 11008, 36, 32, 8, 151680, num_nextn_predict_layers=1, max_position_embeddings=32768),
    "CosyVoice2-0.5B": _05,
}  # fmt: skip
