"""How large a number of a model can be, by the name of its field: far beyond every published one, so that nothing that
may be real is refused.

Largest published, as far as known: widths of 20480, heads of 576, 160 heads, feed-forwards of 81920, and the narrowest
feed-forward of an expert a tenth of the width. Models made for tests are small, and stay allowed.
"""

from __future__ import annotations

_HEAD_WIDTH = 4096
_HEADS = 8192
_WIDTH = 2**18
_FEED_FORWARD = 2**21
_OTHERS = 10_000_000  # a vocabulary, a latent, a state
_WIDTHS = frozenset(("hidden_size", "n_embd", "d_model", "dim", "word_embed_proj_dim"))
_HEAD_NAMES = frozenset(("n_head", "n_head_kv", "multi_query_group_num", "num_attention_groups"))
_NARROWEST = 64  # parts of the width


def most(name: str) -> int:
    """The largest whole number that a field of that name can be."""
    if "head_dim" in name or name == "kv_channels":
        return _HEAD_WIDTH
    if name.endswith("_heads") or name in _HEAD_NAMES:
        return _HEADS
    if name in _WIDTHS:
        return _WIDTH
    if "intermediate_size" in name or "ffn" in name or name in ("n_inner", "hidden_dim"):
        return _FEED_FORWARD
    return _OTHERS


def narrowest_feed_forward(hidden_size: int) -> int:
    """The least width of a feed-forward that there is at all, of a model or of an expert."""
    return max(1, hidden_size // _NARROWEST)
