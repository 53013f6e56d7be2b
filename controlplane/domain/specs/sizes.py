"""How large a number of a model can be, by the name of its field: far beyond every published one, so that nothing that
may be real is refused.

Largest published, as far as known: widths of 20480, heads of 576, 160 heads, feed-forwards of 81920 and of 8 times the
width, 2048 experts, latents of 1536; the narrowest feed-forward of an expert is a tenth of the width. Models made for
tests are small, and stay allowed.
"""

from __future__ import annotations

SMALLEST_WIDTH = 8
_HEAD_WIDTH = 4096
_HEADS = 8192
_WIDTH = 2**18
_FEED_FORWARD = 2**21
_LATENT = 2**16
_EXPERTS = 2**14
_FEW = 1024  # a step of a convolution, the side of a patch, experts that all tokens go through
_OTHERS = 10_000_000  # a vocabulary, a state
_WIDTHS = frozenset(("n_embd", "d_model", "dim", "word_embed_proj_dim", "projector_output_dim", "output_proj_dims"))
_HEAD_WIDTHS = frozenset(("kv_channels", "mamba_d_head"))
_HEAD_NAMES = frozenset(("n_head", "n_head_kv", "multi_query_group_num", "num_attention_groups"))
_KERNELS = ("kernel_size", "kernel_dim", "conv_kernel", "d_conv", "patch_size")
_NARROWEST = 64  # parts of the width
_WIDEST, _WIDE = 32, 8192  # times the width; so wide may be any, as in models for tests


def most(name: str) -> int:
    """The largest whole number that a field of that name can be."""
    if "head_dim" in name or name in _HEAD_WIDTHS or name.endswith(("d_state", "state_size")):
        return _HEAD_WIDTH
    if name.endswith("_heads") or name in _HEAD_NAMES:
        return _HEADS
    if "intermediate_size" in name or "ffn" in name or name in ("n_inner", "hidden_dim"):
        return _FEED_FORWARD
    if name.endswith("hidden_size") or name in _WIDTHS:
        return _WIDTH
    if name.endswith("_rank"):
        return _LATENT
    if "shared_expert" in name or name.endswith("n_groups") or any(kernel in name for kernel in _KERNELS):
        return _FEW
    return _EXPERTS if "experts" in name else _OTHERS


def feed_forward(hidden_size: int) -> tuple[int, int]:
    """The least and the largest width of a feed-forward that there is at all, of a model or of an expert."""
    return max(1, hidden_size // _NARROWEST), max(_WIDEST * hidden_size, _WIDE)
