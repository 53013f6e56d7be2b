"""Memory of every rank of one copy that differs from the others: the stages of its pipeline.

Ranks of one stage hold the same: tensor parallelism and experts are dealt out evenly. Stages differ in their layers,
and in what lies at the ends: the embedding on the first, the head, the sampler and draft layers on the last; where
embedding and head are one tensor, each end holds it. Which layers a stage has and how heavy they are is worked out in
`footprint.stage_layers`. The cache has as many blocks on each rank as on the fullest one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from controlplane.domain.footprint import stage_layers
from controlplane.domain.footprint.weights import WeightShare
from controlplane.domain.ledger import budget as budgeting
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


def of(ledger: Ledger, ranks: int) -> tuple[Stage, ...]:
    """The stages of a copy with `ranks` cards a stage, neighbours that are alike as one. One stage: as the ledger."""
    shares = budgeting.stage_shares(ledger.setup)
    last = len(shares) - 1
    kinds = [(share, stage == 0) for stage, share in enumerate(shares)]
    found = []
    at = 0
    for (share, is_first), alike in groupby(range(len(kinds)), key=kinds.__getitem__):
        members = list(alike)
        found.append(
            Stage(
                first=members[0] + 1,
                last=members[-1] + 1,
                first_layer=at + 1,
                last_layer=at + share.layers * len(members),
                layers=share.layers,
                cards=ranks,
                embedding=is_first,
                head=share.last,
                parts=_parts(ledger, share) if last else ledger.budget.parts,
                total_bytes=ledger.budget.total_bytes,
                fullest=False,
            )
        )
        at += share.layers * len(members)
    return _with_fullest(found)


def _with_fullest(stages: list[Stage]) -> tuple[Stage, ...]:
    most = max(stage.held_bytes for stage in stages)
    return tuple(replace(stage, fullest=stage.held_bytes == most) for stage in stages)


def _parts(ledger: Ledger, held: WeightShare) -> tuple[Part, ...]:
    budget, setup = ledger.budget, ledger.setup
    sizes = {part.name: part.size_bytes for part in budget.parts}
    sizes["weights"] = round(held.on_accelerator_bytes * ledger.correction.weights_ratio)
    sizes["activation"] = _peak(ledger, held)
    if "kv_cache" in sizes:
        most = max(stage_layers.dealt(max(1, setup.model.num_hidden_layers), setup.pipeline_parallel))
        blocks = ledger.layout.pool_blocks(budget.available_bytes or 0)
        sizes["kv_cache"] = round(blocks * ledger.layout.bytes_per_block * held.layers / most)
    held_bytes = sum(size for name, size in sizes.items() if name != "unused")
    sizes["unused"] = max(0, (budget.total_bytes or 0) - held_bytes)
    return tuple(Part(name, size) for name, size in sizes.items() if size)


def _peak(ledger: Ledger, held: WeightShare) -> int:
    """The activation peak: sampling happens on the last stage alone."""
    found = ledger.budget.activation
    peak = found.peak_bytes if held.last else found.without_sampling_bytes
    return max(0, peak + ledger.correction.other_bytes)
