"""Models with recurrent states: Nemotron, Granite 4, Falcon-H1, Jamba, MiniMax, LFM2, Bamba, Zamba2."""

# ruff: noqa: PLR0917 - a line of the table gives widths in the order in which papers do
from __future__ import annotations

from controlplane.domain.specs.known.row import Config, changed, row

_TIED, _128K = {"tie_word_embeddings": True}, {"max_position_embeddings": 131072}


def _nemotron_h(hidden: int, inner: int, heads: int, kv: int, pattern: str, mamba_heads: int, mamba_dim: int,
                **more: object) -> Config:  # fmt: skip
    return row("nemotron_h", hidden, inner, len(pattern), heads, kv, 131072,
               **{"head_dim": 128, "hybrid_override_pattern": pattern, "mamba_num_heads": mamba_heads,
                  "mamba_head_dim": mamba_dim, "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
                  "max_position_embeddings": 131072, **more})  # fmt: skip


def _granite_4(hidden: int, heads: int, kv: int, mamba_heads: int, experts: int, active: int, width: int,
               shared: int) -> Config:  # fmt: skip
    kinds = ["attention" if layer in (5, 15, 25, 35) else "mamba" for layer in range(40)]
    return row("granitemoehybrid", hidden, width, 40, heads, kv, 100352, layer_types=kinds, num_local_experts=experts,
               num_experts_per_tok=active, shared_intermediate_size=shared, mamba_n_heads=mamba_heads, mamba_d_head=64,
               mamba_d_state=128, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, **_TIED | _128K)  # fmt: skip


def _falcon_h1(hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int, head_dim: int, ssm: int,
               mamba_heads: int, state: int, groups: int, **more: object) -> Config:  # fmt: skip
    return row("falcon_h1", hidden, inner, layers, heads, kv, vocab, head_dim=head_dim, mamba_d_ssm=ssm,
               mamba_n_heads=mamba_heads, mamba_d_head=ssm // mamba_heads, mamba_d_state=state, mamba_n_groups=groups,
               mamba_d_conv=4, mamba_rms_norm=False, **{"max_position_embeddings": 262144, **more})  # fmt: skip


_NANO_9B = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
_NANO_12B = "M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M-"
_NANO_4B = "M-M-M-MM-M-M*-M-M*-M-M-M*-M-M-MM*-MMM-M-M-"
_H_8B = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
_NANO_30B = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
_SUPER = "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME"
_MINIMAX_01 = row(
    "minimax_text_01", 6144, 9216, 80, 64, 8, 200064, head_dim=128, num_local_experts=32, num_experts_per_tok=2,
    attn_type_list=[int(layer % 8 == 7) for layer in range(80)], max_position_embeddings=10240000,
)  # fmt: skip
_MINIMAX_M2 = row(
    "minimax_m2", 3072, 1536, 62, 48, 8, 200064, head_dim=128, num_local_experts=256, num_experts_per_tok=8,
    use_routing_bias=True, max_position_embeddings=196608,
)  # fmt: skip
_LFM2 = {"max_position_embeddings": 128000, "tie_word_embeddings": True, "conv_L_cache": 3}
_SMALL_LFM2 = [2, 5, 8, 10, 12, 14]
_JAMBA = {"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2, "expert_layer_offset": 1,
          "num_experts": 16, "num_experts_per_tok": 2, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2,
          "max_position_embeddings": 262144}  # fmt: skip


def _zamba_2(hidden: int, layers: int, hybrids: list[int], blocks: int, state: int, groups: int, heads: int,
             **more: object) -> Config:  # fmt: skip
    return row("zamba2", hidden, 4 * hidden, layers, 32, 32, 32000, mamba_d_state=state, mamba_ngroups=groups,
               n_mamba_heads=heads, hybrid_layer_ids=hybrids, num_mem_blocks=blocks, adapter_rank=128,
               max_position_embeddings=4096, **_TIED | more)  # fmt: skip


_STEP_FLASH = row(
    "step3p5", 4096, 11264, 45, 64, 8, 128896, head_dim=128, sliding_window=512, swa_num_attention_heads=96,
    layer_types=["sliding_attention" if layer % 4 else "full_attention" for layer in range(45)], num_experts=288,
    num_experts_per_tok=8, moe_intermediate_size=1280, n_shared_experts=1, first_k_dense_replace=3,
    use_head_wise_attn_gate=True, num_nextn_predict_layers=3, max_position_embeddings=262144,
)  # fmt: skip

MODELS: dict[str, Config] = {
    "Step-3.5-Flash": _STEP_FLASH,
    "Nemotron-H-8B": _nemotron_h(4096, 21504, 32, 8, _H_8B, 128, 64, max_position_embeddings=8192),
    "NVIDIA-Nemotron-Nano-9B-v2": _nemotron_h(4480, 15680, 40, 8, _NANO_9B, 128, 80),
    "NVIDIA-Nemotron-Nano-12B-v2": _nemotron_h(5120, 20480, 40, 8, _NANO_12B, 128, 80),
    "NVIDIA-Nemotron-3-Nano-4B": _nemotron_h(3136, 12544, 40, 8, _NANO_4B, 96, 80, max_position_embeddings=262144),
    "NVIDIA-Nemotron-3-Nano-30B-A3B": _nemotron_h(
        2688, 1856, 32, 2, _NANO_30B, 64, 64, n_routed_experts=128, num_experts_per_tok=6, moe_intermediate_size=1856,
        n_shared_experts=1, moe_shared_expert_intermediate_size=3712, max_position_embeddings=262144,
    ),
    "NVIDIA-Nemotron-3-Super-120B-A12B": _nemotron_h(
        4096, 2688, 32, 2, _SUPER, 128, 64, n_routed_experts=512, num_experts_per_tok=22, moe_intermediate_size=2688,
        moe_latent_size=1024, n_shared_experts=1, moe_shared_expert_intermediate_size=5376, num_nextn_predict_layers=1,
        max_position_embeddings=262144,
    ),
    "Nemotron-4-340B": row("nemotron", 18432, 73728, 96, 96, 8, 256000, max_position_embeddings=4096),
    "Nemotron-Mini-4B": row("nemotron", 3072, 9216, 32, 24, 8, 256000, head_dim=128, max_position_embeddings=4096),
    "Minitron-8B": row("nemotron", 4096, 16384, 32, 48, 8, 256000, head_dim=128, max_position_embeddings=4096),
    "Minitron-4B": row("nemotron", 3072, 9216, 32, 24, 8, 256000, head_dim=128, max_position_embeddings=4096),
    "Mistral-NeMo-Minitron-8B": row("mistral", 4096, 11520, 40, 32, 8, 131072, head_dim=128,
        max_position_embeddings=8192),
    "granite-4.0-h-small": _granite_4(4096, 32, 8, 128, 72, 10, 768, 1536),
    "granite-4.0-h-tiny": _granite_4(1536, 12, 4, 48, 64, 6, 512, 1024),
    "granite-4.0-h-micro": _granite_4(2048, 32, 8, 64, 0, 0, 8192, 8192),
    "granite-4.0-micro": row("granite", 2560, 8192, 40, 40, 8, 100352, head_dim=64, **_TIED | _128K),
    "granite-3.0-2b": row("granite", 2048, 8192, 40, 32, 8, 49155, max_position_embeddings=4096, **_TIED),
    "granite-3.0-8b": row("granite", 4096, 12800, 40, 32, 8, 49155, max_position_embeddings=4096, **_TIED),
    **{f"granite-{version}-2b": row("granite", 2048, 8192, 40, 32, 8, vocab, **_TIED | _128K)
       for version, vocab in (("3.1", 49155), ("3.2", 49155), ("3.3", 49159))},
    **{f"granite-{version}-8b": row("granite", 4096, 12800, 40, 32, 8, vocab, **_TIED | _128K)
       for version, vocab in (("3.1", 49155), ("3.2", 49155), ("3.3", 49159))},
    "granite-3.1-1b-a400m": row("granitemoe", 1024, 512, 24, 16, 8, 49155, num_local_experts=32, num_experts_per_tok=8,
                                **_TIED | _128K),
    "granite-3.1-3b-a800m": row("granitemoe", 1536, 512, 32, 24, 8, 49155, num_local_experts=40, num_experts_per_tok=8,
                                **_TIED | _128K),
    "Zamba2-1.2B": _zamba_2(2048, 38, list(range(5, 38, 6)), 1, 128, 1, 64, use_shared_attention_adapter=True),
    "Zamba2-2.7B": _zamba_2(2560, 54, [6, 12, 18, 24, 30, 36, 42, 47, 51], 2, 64, 1, 80),
    "Zamba2-7B": _zamba_2(3584, 81, [6, *range(11, 81, 6)], 2, 64, 2, 112),
    "Bamba-9B": row(
        "bamba", 4096, 14336, 32, 32, 8, 128256, attn_layer_indices=[9, 18, 27], mamba_n_heads=128, mamba_d_head=64,
        mamba_d_state=128, mamba_n_groups=1, mamba_d_conv=4, mamba_expand=2, max_position_embeddings=262144,
    ),
    "Falcon-H1-0.5B": _falcon_h1(1024, 2048, 36, 8, 2, 32784, 64, 1536, 24, 128, 1, max_position_embeddings=16384,
        **_TIED),
    "Falcon-H1-1.5B": _falcon_h1(2048, 4096, 24, 8, 2, 65537, 128, 3072, 48, 256, 1, max_position_embeddings=131072),
    "Falcon-H1-3B": _falcon_h1(2560, 10240, 32, 10, 2, 65537, 128, 4096, 32, 256, 1, max_position_embeddings=131072),
    "Falcon-H1-7B": _falcon_h1(3072, 12288, 44, 12, 2, 130048, 128, 3072, 24, 256, 1),
    "Falcon-H1-34B": _falcon_h1(5120, 21504, 72, 20, 4, 261120, 128, 4096, 32, 256, 2),
    "AI21-Jamba-Mini": row("jamba", 4096, 14336, 32, 32, 8, 65536, **_JAMBA),
    "AI21-Jamba-Large": row("jamba", 8192, 24576, 72, 64, 8, 65536, **_JAMBA),
    "Jamba-v0.1": row("jamba", 4096, 14336, 32, 32, 8, 65536, **_JAMBA),
    "MiniMax-Text-01": _MINIMAX_01,
    "MiniMax-M1": _MINIMAX_01,
    "MiniMax-M1-80k": _MINIMAX_01,
    **dict.fromkeys(
        ("MiniMax-M2", "MiniMax-M2.1", "MiniMax-M2.5", "MiniMax-M2.7"),
        changed(_MINIMAX_M2, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]}),
    ),
    "LFM2-350M": row("lfm2", 1024, 6656, 16, 16, 8, 65536, full_attn_idxs=_SMALL_LFM2, **_LFM2),
    "LFM2-700M": row("lfm2", 1536, 10240, 16, 24, 8, 65536, full_attn_idxs=_SMALL_LFM2, **_LFM2),
    "LFM2-1.2B": row("lfm2", 2048, 12288, 16, 32, 8, 65536, full_attn_idxs=_SMALL_LFM2, **_LFM2),
    "LFM2-2.6B": row("lfm2", 2048, 10752, 30, 32, 8, 65536, full_attn_idxs=[2, 5, 9, 13, 17, 21, 25, 28],
                     block_auto_adjust_ff_dim=False, **_LFM2),
}  # fmt: skip
