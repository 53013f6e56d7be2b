"""The memory ledger of a start as a page shows it: predicted beside measured, with the error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from controlplane.console import memory_parts
from controlplane.console.memory import Part
from controlplane.console.memory_parts import Stack
from controlplane.deployments.models import LedgerRow, Replica
from controlplane.fleet.selectors import CardShares

_COMPARED = ("weights_bytes", "kv_cache_bytes", "kv_cache_tokens")
LARGE_ERROR = 0.08  # from which a difference is pointed out


@dataclass(frozen=True, slots=True)
class Line:
    """One sum: `form` is gib or tokens. `error` is measured / predicted - 1."""

    label: str
    form: str
    predicted: float | None
    measured: float | None
    error: float | None
    source: str = ""  # where the measured value is from, in words

    @property
    def is_large(self) -> bool:
        return self.error is not None and abs(self.error) > LARGE_ERROR


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Log and metrics do not agree: `form` as of a line; `counts` is the word for the one that was taken."""

    label: str
    form: str
    log: int
    metrics: int
    counts: str


@dataclass(frozen=True, slots=True)
class LedgerView:
    """One start. `stack` None where nothing was predicted."""

    row: LedgerRow
    lines: tuple[Line, ...]
    stack: Stack | None
    observations: int
    correction: str
    contradictions: tuple[Contradiction, ...] = ()


def of_row(row: LedgerRow | None) -> LedgerView | None:
    """The ledger of a start; None = it was never placed."""
    if row is None:
        return None
    sources = row.measured.get("sources") or {}
    lines = tuple(
        Line(label, form, row.predicted.get(name), row.measured.get(name), row.error.get(name), source(sources, name))
        for name, (label, form) in _names().items()
        if name in _COMPARED and (row.predicted.get(name) is not None or row.measured.get(name) is not None)
    )
    found = tuple(
        Contradiction(*_names()[one["name"]], one["log"], one["metrics"], source(sources, one["name"]))
        for one in row.measured.get("contradictions") or ()
        if one.get("name") in _names()
    )
    return LedgerView(
        row,
        lines,
        _stack(row.predicted),
        row.correction.get("observations") or 0,
        row.correction.get("sentence") or "",
        found,
    )


def source(sources: Mapping[str, str], name: str) -> str:
    """Returns in words where a measured value is from; the empty text where nobody knows."""
    words = {"log": _("log"), "metrics": _("metrics"), "both": _("log and metrics")}
    return words.get(sources.get(name, ""), "")


def _names() -> dict[str, tuple[str, str]]:
    return {
        "weights_bytes": (_("Weights"), "gib"),
        "kv_cache_bytes": (_("KV cache"), "gib"),
        "kv_cache_tokens": (_("KV cache"), "tokens"),
        "block_tokens": (_("KV block"), "tokens"),
    }


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
        if one.not_back_since:
            name = _("%(name)s (not back)") % {"name": name}
        elif one.releasing:
            name = _("%(name)s (ends)") % {"name": name}
        size = total if one.reserved_bytes is None else one.reserved_bytes
        sizes.append((f"holder-{number % 4}", name, size))
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
