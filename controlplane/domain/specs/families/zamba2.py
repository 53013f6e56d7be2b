"""Zamba2: Mamba 2 in every layer, and before some of them a transformer block that all those layers share.

Read off vLLM's own code (0.32): a shared block's matrices are there once, each layer that runs it has a cache, adapters
and a projection of its own. The block sees the layer's state beside the embedding: twice the width.
"""

from __future__ import annotations

from controlplane.domain.specs.families import recurrent
from controlplane.domain.specs.families.block import Block, FeedForward, Mixer
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import LARGEST_LAYERS, Fields
from controlplane.domain.specs.model import Layers

MODEL_TYPE = "zamba2"
_KINDS = {"mamba": False, "linear_attention": False, "mamba2": False, "hybrid": True}
_RANK = 128  # of adapters, where config.json doesn't say


def blocks(fields: Fields, shape: Shape) -> tuple[Block, ...]:
    """A block a layer; what is shared stands in the layer that runs it first. Raises RefusedError naming the field."""
    runs = _runs_shared(fields, shape.layers)
    state, shared_blocks, found, run = recurrent.mamba2(fields, shape), fields.number("num_mem_blocks") or 1, [], 0
    for is_hybrid in runs:
        if not is_hybrid:
            found.append(Block(state, norms=shape.norm))
            continue
        found.append(_hybrid(fields, shape, state, brings_block=run < shared_blocks))
        run += 1
    return tuple(found)


def _runs_shared(fields: Fields, layers: int) -> list[bool]:
    """For each layer, whether it runs a shared block."""
    for name in ("layers_block_type", "layer_types"):
        kinds = fields.texts(name)
        if kinds:
            unknown = next((kind for kind in kinds if kind not in _KINDS), None)
            if unknown is not None or len(kinds) != layers:
                shown = kinds if unknown is None else unknown
                raise fields.refuse(name, shown, f"a list of {layers} texts, mamba or hybrid")
            return [_KINDS[kind] for kind in kinds]
    chosen = fields.numbers("hybrid_layer_ids", most=LARGEST_LAYERS)
    if not chosen or max(chosen) >= layers:
        right = f"the numbers of the layers, from 0 to {layers - 1}, that run a shared block"
        raise fields.refuse("hybrid_layer_ids", fields.values.get("hybrid_layer_ids"), right)
    return [layer in set(chosen) for layer in range(layers)]


def _hybrid(fields: Fields, shape: Shape, state: Mixer, *, brings_block: bool) -> Block:
    hidden, feed, rank = shape.hidden, shape.intermediate or 4 * shape.hidden, fields.number("adapter_rank") or _RANK
    if not shape.heads or 2 * hidden % shape.heads:
        raise fields.refuse("num_attention_heads", shape.heads, f"a divisor of {2 * hidden}, twice the hidden_size")
    cache = Layers("full", 1, kv_heads=shape.heads, head_dim=2 * hidden // shape.heads)
    projections = state.projections + hidden * hidden
    if fields.flag("use_shared_attention_adapter", False):
        projections += 3 * rank * 4 * hidden
    adapter, dense, norms = rank * (hidden + 2 * feed), 0, shape.norm
    if brings_block:
        projections += 3 * (2 * hidden) ** 2 + 2 * hidden * hidden
        dense, norms = 3 * hidden * feed, norms + 3 * hidden
    whole = hidden * hidden
    return Block(
        Mixer((*state.caches, cache), projections, state.fine, whole), FeedForward(dense=dense + adapter), norms=norms
    )
