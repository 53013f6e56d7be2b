"""The memory ledger of a start as a page shows it: predicted beside measured, with the error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from controlplane.console import memory_parts
from controlplane.console.memory import Part
from controlplane.console.memory_parts import Stack
from controlplane.deployments.models import LedgerRow, Replica
from controlplane.fleet.selectors import CardShares

LARGE_ERROR = 0.08  # from which a difference is pointed out


@dataclass(frozen=True, slots=True)
class Line:
    """One sum: `form` is gib or tokens. `error` is measured / predicted - 1."""

    label: str
    form: str
    predicted: float | None
    measured: float | None
    error: float | None

    @property
    def is_large(self) -> bool:
        return self.error is not None and abs(self.error) > LARGE_ERROR


@dataclass(frozen=True, slots=True)
class LedgerView:
    """One start. `stack` None where nothing was predicted."""

    row: LedgerRow
    lines: tuple[Line, ...]
    stack: Stack | None
    observations: int
    correction: str


def of_row(row: LedgerRow | None) -> LedgerView | None:
    """The ledger of a start; None = it was never placed."""
    if row is None:
        return None
    names = (
        ("weights_bytes", _("Weights"), "gib"),
        ("kv_cache_bytes", _("KV cache"), "gib"),
        ("kv_cache_tokens", _("KV cache"), "tokens"),
    )
    lines = tuple(
        Line(label, form, row.predicted.get(name), row.measured.get(name), row.error.get(name))
        for name, label, form in names
        if row.predicted.get(name) is not None or row.measured.get(name) is not None
    )
    return LedgerView(
        row, lines, _stack(row.predicted), row.correction.get("observations") or 0, row.correction.get("sentence") or ""
    )


def _stack(predicted: dict[str, Any]) -> Stack | None:
    sizes = [(one["name"], one["bytes"]) for one in predicted.get("parts", ())]
    if not sizes:
        return None
    requested = None if predicted.get("capped") else predicted.get("requested_bytes")
    return memory_parts.stack(sizes, predicted.get("total_bytes"), requested)


def holders(shares: CardShares, replicas: dict[str, Replica]) -> list[Part]:
    """Who holds a card: each holder, foreign processes, what is free. Empty where its memory is not known."""
    total = shares.total_bytes
    if not total:
        return []
    sizes: list[tuple[str, str, int]] = []
    for number, one in enumerate(shares.holders):
        replica = replicas.get(one.owner_id)
        name = f"{replica.deployment.name} {replica.pk}" if replica else one.owner_id
        label = _("%(name)s (ends)") % {"name": name} if one.releasing else name
        size = total if one.reserved_bytes is None else one.reserved_bytes
        sizes.append((f"holder-{number % 4}", label, size))
    sizes.append(("foreign", _("Foreign processes"), shares.foreign_bytes or 0))
    sizes.append(("free", _("Free to be reserved"), shares.free_bytes or 0))
    return _stacked(sizes)


def _stacked(sizes: Sequence[tuple[str, str, int]]) -> list[Part]:
    length = sum(size for _kind, _label, size in sizes) or 1
    found: list[Part] = []
    at = 0
    for kind, label, size in sizes:
        if size > 0:
            found.append(Part(kind, label, size, at / length, size / length))
            at += size
    return found
