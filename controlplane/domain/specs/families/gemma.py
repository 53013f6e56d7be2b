"""Gemma 3n and Gemma 4: embeddings a layer, layers that share another one's cache, two sorts of heads."""

from __future__ import annotations

from controlplane.domain.specs.families import attention, feed_forward, patterns
from controlplane.domain.specs.families.block import Block, FeedForward, Mixer
from controlplane.domain.specs.families.patterns import Kind
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import Fields
from controlplane.domain.specs.model import Layers

MODEL_TYPES = ("gemma4", "gemma4_text", "gemma4_unified_text", "gemma3n", "gemma3n_text")


def blocks(fields: Fields, shape: Shape) -> tuple[tuple[Block, ...], int, int, int]:
    """The blocks; matrices, fine and looked-up parameters outside of them."""
    kinds = patterns.mixers(fields, shape)
    shared = fields.number("num_kv_shared_layers", least=0, most=shape.layers) or 0
    first_shared = shape.layers - shared
    small = fields.number("hidden_size_per_layer_input", least=0) or 0
    older = shape.model_type.startswith("gemma3n")
    widths = fields.numbers("intermediate_size") if isinstance(fields.values.get("intermediate_size"), list) else None
    found = []
    for layer, kind in enumerate(kinds):
        shares = layer >= first_shared > 0
        mixer = _mixer(fields, shape, kind, shares)
        double = shares and fields.flag("use_double_wide_mlp", False)
        width = widths[layer] if widths and layer < len(widths) else shape.intermediate * (2 if double else 1)
        feed = _feed_forward(fields, shape, width)
        norms = 4 * shape.hidden
        if small:
            feed = FeedForward(feed.dense + 2 * shape.hidden * small, feed.routed, feed.active_routed, feed.fine)
            norms += shape.hidden
        if older:
            feed, norms = _altup(fields, shape, feed, norms)
        found.append(Block(mixer, feed, norms))
    extra, fine, lookup = 0, 0, 0
    if small:
        extra, fine = shape.hidden * shape.layers * small, small
        lookup = (fields.number("vocab_size_per_layer_input") or shape.vocab) * shape.layers * small
    if older:
        copies = (fields.number("altup_num_inputs") or 4) - 1
        extra += 2 * copies * shape.hidden * shape.hidden
    return tuple(found), extra, fine, lookup


def _mixer(fields: Fields, shape: Shape, kind: Kind, shares: bool) -> Mixer:
    """Full layers may have heads of their own and use their keys as values; a sharing layer has no keys at all."""
    full = kind.name == "full"
    head_dim, kv_heads = _full_heads(fields, shape) if full else (shape.head_dim, shape.kv_heads)
    if shares:
        projections = 2 * shape.hidden * shape.heads * head_dim
        if shape.model_type.startswith("gemma3n"):  # its files hold keys and values that are never used
            projections += 2 * shape.hidden * kv_heads * head_dim
            return Mixer((Layers("none", 1),), projections, 2 * head_dim)
        return Mixer((Layers("none", 1),), projections, head_dim)
    same = full and fields.flag("attention_k_eq_v", False)
    if full:
        return attention.heads(fields, shape, head_dim=head_dim, kv_heads=kv_heads, keys_are_values=same)
    return attention.heads(fields, shape, kind="sliding", window_tokens=kind.window_tokens)


def _full_heads(fields: Fields, shape: Shape) -> tuple[int, int]:
    """Width and number of KV heads in full layers; newer files write them layer by layer in `per_layer_config`."""
    usual = 512 if shape.model_type.startswith("gemma4") else shape.head_dim
    head_dim, kv_heads = fields.number("global_head_dim"), fields.number("num_global_key_value_heads")
    listed = fields.part("per_layer_config")
    for key in list(listed.values)[:1] if listed is not None else []:
        one = listed.part(key) if listed is not None else None
        if one is not None:
            head_dim, kv_heads = head_dim or one.number("head_dim"), kv_heads or one.number("num_key_value_heads")
    return head_dim or usual, kv_heads or shape.kv_heads


def _feed_forward(fields: Fields, shape: Shape, width: int) -> FeedForward:
    dense = feed_forward.dense(fields, shape, width)
    if not fields.flag("enable_moe_block", False):
        return dense
    count, active, expert_width = feed_forward.routed_experts(fields, shape)
    one = 3 * shape.hidden * expert_width
    fine = shape.hidden * count + shape.hidden + count + 3 * shape.hidden  # router, its scales, three norms
    return FeedForward(dense.dense, count * one, active * one, fine)


def _altup(fields: Fields, shape: Shape, feed: FeedForward, norms: int) -> tuple[FeedForward, int]:
    """Gemma 3n's alternating updates and its low-rank residual (LAuReL)."""
    inputs, rank = fields.number("altup_num_inputs") or 4, fields.number("laurel_rank") or 64
    altup = inputs * inputs + inputs * inputs * inputs + inputs * shape.hidden + shape.hidden  # coefficients, router
    dense = feed.dense + 2 * shape.hidden * rank
    return FeedForward(dense, feed.routed, feed.active_routed, feed.fine + altup + shape.hidden), norms + shape.hidden
