"""DeepSeek, Kimi, GLM and others with latent attention or many small experts."""

# ruff: noqa: PLR0917 - a line of the table gives widths in the order in which papers do
from __future__ import annotations

from controlplane.domain.specs.known.row import Config, changed, row, seeing

_MLA = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128}
_BLOCK_FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
_INT4_EXPERTS = {
    "quant_method": "compressed-tensors", "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
}  # fmt: skip
_INDEXER = {"index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048}


def _latent(model_type: str, hidden: int, inner: int, layers: int, heads: int, vocab: int, experts: int, active: int,
            width: int, shared: int, dense: int, **more: object) -> Config:  # fmt: skip
    return row(model_type, hidden, inner, layers, heads, heads, vocab,
               **{**_MLA, "n_routed_experts": experts, "num_experts_per_tok": active, "moe_intermediate_size": width,
                  "n_shared_experts": shared, "first_k_dense_replace": dense, **more})  # fmt: skip


_V2 = _latent("deepseek_v2", 5120, 12288, 60, 128, 102400, 160, 6, 1536, 2, 1, q_lora_rank=1536,
              max_position_embeddings=163840)  # fmt: skip
_V2_LITE = _latent("deepseek_v2", 2048, 10944, 27, 16, 102400, 64, 6, 1408, 2, 1, max_position_embeddings=163840)
_V3 = _latent("deepseek_v3", 7168, 18432, 61, 128, 129280, 256, 8, 2048, 1, 3, q_lora_rank=1536,
              num_nextn_predict_layers=1, max_position_embeddings=163840, quantization_config=_BLOCK_FP8)  # fmt: skip
_V32 = changed(_V3, model_type="deepseek_v32", **_INDEXER)
_K2 = _latent("kimi_k2", 7168, 18432, 61, 64, 163840, 384, 8, 2048, 1, 1, q_lora_rank=1536,
              max_position_embeddings=131072, quantization_config=_BLOCK_FP8)  # fmt: skip
_K2_THINKING = changed(_K2, quantization_config=_INT4_EXPERTS, max_position_embeddings=262144)
_MOON_TOWER = {"model_type": "moonvit", "vt_hidden_size": 1152, "vt_intermediate_size": 4304,
"vt_num_hidden_layers": 27,
               "patch_size": 14, "init_pos_emb_height": 64, "init_pos_emb_width": 64, "merge_kernel_size": [2,
               2]}  # fmt: skip
_MOONLIGHT = _latent("deepseek_v3", 2048, 11264, 27, 16, 163840, 64, 6, 1408, 2, 1, max_position_embeddings=131072)
_KIMI_LINEAR = _latent(
    "kimi_linear", 2304, 9216, 27, 32, 163840, 256, 8, 1024, 1, 1, max_position_embeddings=1048576,
    linear_attn_config={
        "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4, "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 25, 26],
    },
)  # fmt: skip
_K3 = _latent(
    "kimi_linear", 7168, 33792, 93, 96, 163840, 896, 16, 3072, 2, 1, q_lora_rank=1536, mla_use_output_gate=True,
    routed_expert_hidden_size=3584, max_position_embeddings=1048576, quantization_config={"quant_method": "mxfp4"},
    linear_attn_config={
        "num_heads": 96, "head_dim": 128, "short_conv_kernel_size": 4, "use_full_rank_gate": True,
        "kda_layers": [layer for layer in range(1, 93) if layer % 4],
    },
)  # fmt: skip
_K3_TOWER = {"model_type": "kimi_k3_vision", "vt_hidden_size": 1024, "vt_intermediate_size": 4096,
             "vt_num_hidden_layers": 27, "patch_size": 14, "init_pos_emb_height": 64,
             "init_pos_emb_width": 64}  # fmt: skip
_K25 = seeing("kimi_k25", changed(_K2_THINKING), _MOON_TOWER)


def _glm_moe(hidden: int, inner: int, layers: int, experts: int, width: int, dense: int, **more: object) -> Config:
    return row("glm4_moe", hidden, inner, layers, 96, 8, 151552,
               **{"head_dim": 128, "attention_bias": True, "n_routed_experts": experts, "num_experts_per_tok": 8,
                  "n_shared_experts": 1, "moe_intermediate_size": width, "first_k_dense_replace": dense,
                  "num_nextn_predict_layers": 1, "max_position_embeddings": 131072, **more})  # fmt: skip


_GLM_45 = _glm_moe(5120, 12288, 92, 160, 1536, 3, use_qk_norm=True)
_GLM_AIR = _glm_moe(4096, 10944, 46, 128, 1408, 1)
_GLM_46 = changed(_GLM_45, max_position_embeddings=202752)
_GLM_TOWER = {"model_type": "glm4v_moe", "hidden_size": 1536, "intermediate_size": 10944, "out_hidden_size": 4096,
              "depth": 24, "patch_size": 14, "image_size": 336, "spatial_merge_size": 2}  # fmt: skip
_GLM_45V = seeing("glm4v_moe", changed(_GLM_AIR, model_type="glm4v_moe_text", num_nextn_predict_layers=0), _GLM_TOWER)
_GLM_5 = _latent(
    "glm_moe_dsa", 6144, 12288, 78, 64, 154880, 256, 8, 2048, 1, 3, q_lora_rank=2048, qk_nope_head_dim=192,
    v_head_dim=256, index_head_dim=128, index_n_heads=32, index_topk=2048, num_nextn_predict_layers=1,
    max_position_embeddings=202752,
)  # fmt: skip
_GLM_4_9B = row("glm4", 4096, 13696, 40, 32, 2, 151552, head_dim=128, max_position_embeddings=32768)
_GLM_4_32B = row("glm4", 6144, 23040, 61, 48, 2, 151552, head_dim=128, max_position_embeddings=32768)

MODELS: dict[str, Config] = {
    "DeepSeek-V2": _V2,
    "DeepSeek-V2.5": _V2,
    "DeepSeek-Coder-V2": _V2,
    "DeepSeek-V2-Lite": _V2_LITE,
    "DeepSeek-Coder-V2-Lite": _V2_LITE,
    "DeepSeek-V3": _V3,
    "DeepSeek-V3-0324": _V3,
    "DeepSeek-V3.1": _V3,
    "DeepSeek-V3.1-Terminus": _V3,
    "DeepSeek-R1": _V3,
    "DeepSeek-R1-0528": _V3,
    "DeepSeek-R1-Zero": _V3,
    "DeepSeek-V3.2": _V32,
    "DeepSeek-V3.2-Exp": _V32,
    "DeepSeek-V3.2-Speciale": _V32,
    "deepseek-llm-7b": row("llama", 4096, 11008, 30, 32, 32, 102400, max_position_embeddings=4096),
    "deepseek-llm-67b": row("llama", 8192, 22016, 95, 64, 8, 102400, max_position_embeddings=4096),
    "deepseek-coder-1.3b": row("llama", 2048, 5504, 24, 16, 16, 32256, max_position_embeddings=16384),
    "deepseek-coder-6.7b": row("llama", 4096, 11008, 32, 32, 32, 32256, max_position_embeddings=16384),
    "deepseek-coder-33b": row("llama", 7168, 19200, 62, 56, 8, 32256, max_position_embeddings=16384),
    "deepseek-moe-16b": row(
        "deepseek", 2048, 10944, 28, 16, 16, 102400, n_routed_experts=64, num_experts_per_tok=6, n_shared_experts=2,
        moe_intermediate_size=1408, first_k_dense_replace=1, max_position_embeddings=4096,
    ),
    "Kimi-K2": _K2,
    "Kimi-K2-0905": changed(_K2, max_position_embeddings=262144),
    "Kimi-K2-Thinking": _K2_THINKING,
    "Kimi-K2.5": _K25,
    "Kimi-K2.6": _K25,
    "Kimi-K3": seeing("kimi_k3", _K3, _K3_TOWER),
    "Kimi-Linear-48B-A3B": _KIMI_LINEAR,
    "Moonlight-16B-A3B": changed(_MOONLIGHT, max_position_embeddings=8192),
    "Kimi-VL-A3B": seeing("kimi_vl", _MOONLIGHT, {**_MOON_TOWER, "hidden_size": 1152, "intermediate_size": 4304,
                                                  "num_hidden_layers": 27}),
    "glm-4-9b": row("chatglm", 4096, 13696, 40, 32, 2, 151552, multi_query_attention=True, multi_query_group_num=2,
                    add_qkv_bias=True, max_position_embeddings=131072),
    "chatglm3-6b": row("chatglm", 4096, 13696, 28, 32, 2, 65024, multi_query_attention=True, multi_query_group_num=2,
                       add_qkv_bias=True, max_position_embeddings=8192),
    "GLM-4-9B-0414": _GLM_4_9B,
    "GLM-Z1-9B-0414": _GLM_4_9B,
    "GLM-4-32B-0414": _GLM_4_32B,
    "GLM-Z1-32B-0414": _GLM_4_32B,
    "GLM-4.1V-9B": seeing("glm4v", changed(_GLM_4_9B, model_type="glm4v_text", max_position_embeddings=65536),
                          changed(_GLM_TOWER, intermediate_size=13696)),
    "GLM-4.6V-Flash": seeing("glm4v", changed(_GLM_4_9B, model_type="glm4v_text", max_position_embeddings=131072),
                             changed(_GLM_TOWER, intermediate_size=13696)),
    "GLM-4.5": _GLM_45,
    "GLM-4.6": _GLM_46,
    "GLM-4.7": _GLM_46,
    "GLM-4.5-Air": _GLM_AIR,
    "GLM-4.5V": _GLM_45V,
    "GLM-4.6V": _GLM_45V,
    "GLM-4.7-Flash": _latent(
        "glm4_moe_lite", 2048, 10240, 47, 20, 154880, 64, 4, 1536, 1, 1, q_lora_rank=768, qk_nope_head_dim=192,
        v_head_dim=256, num_nextn_predict_layers=1, max_position_embeddings=202752,
    ),
    **dict.fromkeys(("GLM-5", "GLM-5.1"), _GLM_5),
    "GLM-5.2": changed(_GLM_5, index_topk_freq=4, index_skip_topk_offset=3, max_position_embeddings=1048576),
    "dots.llm1": row(
        "dots1", 4096, 10944, 62, 32, 32, 152064, head_dim=128, n_routed_experts=128, num_experts_per_tok=6,
        n_shared_experts=2, moe_intermediate_size=1408, first_k_dense_replace=1, max_position_embeddings=32768,
    ),
    "LongCat-Flash": row(
        "longcat_flash", 6144, 12288, 28, 64, 64, 131072, **_MLA, q_lora_rank=1536, n_routed_experts=512, moe_topk=12,
        zero_expert_num=256, expert_ffn_hidden_size=2048, max_position_embeddings=131072,
    ),
    "MiMo-V2-Flash": row(
        "mimo_v2_flash", 4096, 16384, 48, 64, 4, 152576, head_dim=192, v_head_dim=128, swa_num_attention_heads=64,
        swa_num_key_value_heads=8, swa_head_dim=192, swa_v_head_dim=128, add_swa_attention_sink_bias=True,
        hybrid_layer_pattern=[0] + [1, 1, 1, 1, 0] + [1, 1, 1, 1, 1, 0] * 7, sliding_window=128, n_routed_experts=256,
        num_experts_per_tok=8, moe_intermediate_size=2048, first_k_dense_replace=1, max_position_embeddings=262144,
        quantization_config=_BLOCK_FP8,
    ),
}  # fmt: skip
