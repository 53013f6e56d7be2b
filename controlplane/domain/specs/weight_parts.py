"""Bytes of a model's weights by part: the parts are split over accelerators by different rules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WeightParts:
    """Bytes over the whole model, before any split. `replicated` is a share of `rest`: norms, routers, MLA
    down-projections, which every tensor-parallel rank holds whole. `draft` is loaded only when speculation uses it."""

    routed_experts_bytes: int = 0
    embedding_bytes: int = 0  # input embedding and output head, tied counted once
    tower_bytes: int = 0
    rest_bytes: int = 0
    replicated_bytes: int = 0
    draft_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Without the draft layers."""
        return self.routed_experts_bytes + self.embedding_bytes + self.tower_bytes + self.rest_bytes
