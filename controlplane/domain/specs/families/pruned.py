"""Models made smaller layer by layer (Nemotron Super and Ultra by neural architecture search): `block_configs`."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.domain.specs.families import attention, feed_forward
from controlplane.domain.specs.families.block import NO_MIXER, Block, FeedForward, Mixer
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import LARGEST_LAYERS, Fields


def blocks(fields: Fields, shape: Shape) -> tuple[Block, ...]:
    """A block a layer: its attention may be missing or have its own number of KV heads, its feed-forward its own width.
    Raises RefusedError naming `block_configs`."""
    listed = fields.values.get("block_configs")
    right = f"a list of {shape.layers} objects with attention and ffn"
    if not isinstance(listed, list | tuple) or len(listed) != shape.layers or len(listed) > LARGEST_LAYERS:
        raise fields.refuse("block_configs", listed, right)
    found = []
    for layer, item in enumerate(listed):
        if not isinstance(item, Mapping):
            raise fields.refuse("block_configs", item, right)
        found.append(_block(fields, shape, Fields(item, where=f"block_configs.{layer}.", code=fields.code)))
    return tuple(found)


def _block(fields: Fields, shape: Shape, config: Fields) -> Block:
    attends, feeds = config.part("attention"), config.part("ffn")
    mixer, feed, norms = _mixer(fields, shape, attends), FeedForward(), 0
    if attends and not attends.flag("no_op", False):
        norms += shape.norm
    if feeds and not feeds.flag("no_op", False):
        feed, norms = _feed(fields, shape, feeds), norms + shape.norm
    return Block(mixer, feed, norms)


def _mixer(fields: Fields, shape: Shape, config: Fields | None) -> Mixer:
    if config is None or config.flag("no_op", False):
        return NO_MIXER
    if config.flag("replace_with_linear", False):
        return Mixer(NO_MIXER.caches, projections=shape.hidden * shape.hidden)
    per_group = config.need("n_heads_in_group")
    if shape.heads % per_group:
        raise config.refuse("n_heads_in_group", per_group, f"a divisor of num_attention_heads ({shape.heads})")
    return attention.heads(fields, shape, kv_heads=shape.heads // per_group)


def _feed(fields: Fields, shape: Shape, config: Fields) -> FeedForward:
    if config.flag("replace_with_linear", False):
        return FeedForward(dense=shape.hidden * shape.hidden)
    width = config.number("intermediate_size")
    if width is None:
        ratio = config.ratio("ffn_mult")
        if ratio is None:
            raise config.missing("ffn_mult", "the width of the feed-forward over the hidden width")
        width = 256 * -(-int(2 * ratio * shape.hidden / 3) // 256)
    return feed_forward.dense(fields, shape, width)
