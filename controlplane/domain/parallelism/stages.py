"""Memory of every rank of one copy that differs from the others: the stages of its pipeline.

Ranks of one stage hold the same: tensor parallelism and experts are dealt out evenly. Stages differ in their layers,
and in what lies at the ends: the embedding on the first, the head, the sampler and draft layers on the last; where
embedding and head are one tensor, each end holds it. Layers go to stages as vLLM deals them out
(`get_pp_indices`): evenly, what is left over one each to the stages before the last one, from behind. Layers of one
model are taken to be equally heavy. The cache has as many blocks on each rank as on the fullest one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from controlplane.domain.ledger.budget import Part
from controlplane.domain.ledger.result import Ledger


@dataclass(frozen=True, slots=True)
class Stage:
    """Stages from `first` to `last` (from 1) that are alike; layers from 1, of all of them, `layers` of each.

    `cards` of each stage. `parts` are of one card and add up to it, as those of a ledger do.
    """

    first: int
    last: int
    first_layer: int
    last_layer: int
    layers: int
    cards: int
    embedding: bool
    head: bool
    parts: tuple[Part, ...]
    total_bytes: int | None
    fullest: bool

    @property
    def held_bytes(self) -> int:
        """What is taken of a card."""
        return sum(part.size_bytes for part in self.parts if part.name not in ("unused", "reserve"))


def dealt(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage."""
    each, rest = divmod(layers, stages)
    return tuple(each + (1 if stages - 1 - rest <= stage < stages - 1 else 0) for stage in range(stages))


def of(ledger: Ledger, ranks: int) -> tuple[Stage, ...]:
    """The stages of a copy with `ranks` cards a stage, neighbours that are alike as one. One stage: as the ledger."""
    setup = ledger.setup
    counts = dealt(max(1, setup.model.num_hidden_layers), setup.pipeline_parallel)
    last = len(counts) - 1
    kinds = [(count, stage == 0, stage == last) for stage, count in enumerate(counts)]
    found = []
    at = 0
    for kind, alike in groupby(range(len(kinds)), key=kinds.__getitem__):
        members = list(alike)
        count, is_first, is_last = kind
        found.append(
            Stage(
                first=members[0] + 1,
                last=members[-1] + 1,
                first_layer=at + 1,
                last_layer=at + count * len(members),
                layers=count,
                cards=ranks,
                embedding=is_first,
                head=is_last,
                parts=_parts(ledger, count, is_first, is_last) if last else ledger.budget.parts,
                total_bytes=ledger.budget.total_bytes,
                fullest=False,
            )
        )
        at += count * len(members)
    return _with_fullest(found)


def _with_fullest(stages: list[Stage]) -> tuple[Stage, ...]:
    most = max(stage.held_bytes for stage in stages)
    return tuple(replace(stage, fullest=stage.held_bytes == most) for stage in stages)


def _parts(ledger: Ledger, layers: int, is_first: bool, is_last: bool) -> tuple[Part, ...]:
    budget = ledger.budget
    sizes = {part.name: part.size_bytes for part in budget.parts}
    share = layers / budget.weights.layers
    sizes["weights"] = _weights(ledger, layers, is_first, is_last)
    sizes["activation"] = min(budget.activation_bytes, _peak(ledger, is_last))
    if "kv_cache" in sizes:
        blocks = ledger.layout.pool_blocks(budget.available_bytes or 0)
        sizes["kv_cache"] = round(blocks * ledger.layout.bytes_per_block * share)
    held_bytes = sum(size for name, size in sizes.items() if name != "unused")
    sizes["unused"] = max(0, (budget.total_bytes or 0) - held_bytes)
    return tuple(Part(name, size) for name, size in sizes.items() if size)


def _weights(ledger: Ledger, layers: int, is_first: bool, is_last: bool) -> int:
    """What the stage loads, with what was learned from measured starts."""
    whole = ledger.budget.weights
    movable = (whole.experts_bytes + whole.rest_bytes) * layers / whole.layers
    found = movable - min(movable, whole.offloaded_bytes) + whole.rotary_bytes + whole.tower_bytes
    if is_first or is_last:
        found += whole.embedding_bytes
    if is_last:
        found += whole.draft_bytes
    return round(found * ledger.correction.weights_ratio)


def _peak(ledger: Ledger, is_last: bool) -> int:
    """The activation peak: sampling happens on the last stage alone."""
    found = ledger.budget.activation
    peak = found.peak_bytes if is_last else max(found.forward_bytes, found.encoder_bytes)
    return max(0, peak + ledger.correction.other_bytes)
