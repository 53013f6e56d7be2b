"""What is neither weights nor cache nor activations: memory outside torch, collectives, CUDA graphs, LoRA buffers.

These figures are learned: medians by class of public start-up logs. Each says from how many.
"""

from __future__ import annotations

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.specs.model import ModelFacts

GIB = 2**30
_SINGLE_GIB = 0.07  # median of 13 start-ups of 0.7 and later on one card: 0.01 to 0.16
_SINGLE_OLD_DESKTOP_GIB = 0.35  # median of 3 start-ups of 0.6 on one GeForce card: 0.28 to 0.35
_SINGLE_OLD_GIB = 0.11  # median of 3 start-ups of 0.6 on one card of a data centre: 0.10 to 0.12
_LINKED_GIB = 1.6  # cards with a fabric of their own, where buffers count: 0.95 to 1.84, and once 7.16, in 5 start-ups
_BUS_GIB = 0.25  # cards on PCIe, or where buffers do not count: 0.2 to 0.32 in 3 start-ups
_GRAPH_BASE_GIB = 0.16  # of a model without layers; with the next line within 0.2 GiB of 9 of 13 start-ups
_GRAPH_GIB_A_LAYER_AND_SIZE = 0.00022
_GRAPH_SPLIT = 1.5  # graphs with experts and with drafts are each so much larger
_GRAPH_RANKS = 1.15  # and with collectives: 1.15 of what one card takes in 1 start-up, less in another one
_ADAPTER_RANK = 16


def non_torch_bytes(
    rules: EngineRules,
    tensor_parallel: int,
    pipeline_parallel: int = 1,
    *,
    linked: bool = True,
    desktop: bool | None = None,
) -> int:
    """Memory of the engine outside torch's pool: libraries' workspaces, and buffers of collectives where charged.

    `linked`: the cards have a fabric of their own (NVLink and the like), so collectives keep large buffers. `desktop`:
    GeForce cards, None = not known.
    """
    ranks = tensor_parallel * pipeline_parallel
    if ranks <= 1:
        return round((_SINGLE_GIB if rules.version >= (0, 7, 0) else _single_old_gib(desktop)) * GIB)
    if not linked or not rules.charges_collectives:
        return round(_BUS_GIB * GIB)
    return round(_LINKED_GIB * GIB)


def _single_old_gib(desktop: bool | None) -> float:
    if desktop is None:
        return (_SINGLE_OLD_DESKTOP_GIB + _SINGLE_OLD_GIB) / 2
    return _SINGLE_OLD_DESKTOP_GIB if desktop else _SINGLE_OLD_GIB


def graph_bytes(
    facts: ModelFacts, rules: EngineRules, *, tensor_parallel: int, sequences: int, eager: bool, speculative: bool
) -> int:
    """CUDA graphs: one for each batch size, each with every layer's launches; none when run eagerly."""
    if eager:
        return 0
    sizes = graph_sizes(sequences)
    layers = facts.num_hidden_layers
    gib = _GRAPH_BASE_GIB + sizes * layers * _GRAPH_GIB_A_LAYER_AND_SIZE
    gib *= _GRAPH_RANKS if tensor_parallel > 1 else 1.0
    for larger in (facts.experts is not None, speculative):
        gib *= _GRAPH_SPLIT if larger else 1.0
    return round(gib * GIB)


def graph_sizes(sequences: int) -> int:
    """Batch sizes that graphs are captured for: 1, 2, 4, 8 … 248 in steps of 8, 256 … 512 in steps of 16."""
    largest = min(2 * sequences, 512)
    every = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    return sum(1 for size in every if size <= largest) or 1


def adapter_bytes(facts: ModelFacts, *, adapters: int, rank: int = _ADAPTER_RANK, element_bytes: int = 2) -> int:
    """LoRA buffers: for each adapter slot, two thin matrices beside every projection of attention and MLP."""
    attention = (facts.num_attention_heads + 2 * facts.num_key_value_heads) * facts.head_dim
    widths = (
        facts.hidden_size * 4 + attention + facts.num_attention_heads * facts.head_dim + 3 * facts.intermediate_size
    )
    inputs = 2 * facts.hidden_size
    return adapters * rank * (widths + inputs) * facts.num_hidden_layers * element_bytes
