"""What fills an accelerator's memory, as far as it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of the stack. `start` and `share` are parts of the whole (0..1)."""

    kind: str
    label: str
    size_bytes: int
    start: float
    share: float


def parts(observed: Mapping[str, Any], replicas: Sequence[tuple[Mapping[str, Any], float | None]]) -> list[Part]:
    """Returns the stack of one accelerator: weights, KV in use, KV reserved, other, foreign, free.

    `replicas` are (facts, KV usage 0..1) of those that hold the accelerator. Empty when the total is unknown. What the
    replicas say they hold is cut to what the hardware says is used, because the hardware is right.
    """
    total = observed.get("memory_total_bytes")
    used = observed.get("memory_used_bytes")
    if not total:
        return []
    foreign = sum(process.get("used_bytes") or 0 for process in observed.get("foreign_processes", ()))
    weights = sum(facts.get("weights_bytes") or 0 for facts, _usage in replicas)
    kv = sum(facts.get("kv_cache_bytes") or 0 for facts, _usage in replicas)
    kv_used = sum(int((facts.get("kv_cache_bytes") or 0) * (usage or 0)) for facts, usage in replicas)
    left = total if used is None else min(total, used)
    sizes: list[tuple[str, str, int]] = []
    for kind, label, size in (
        ("foreign", _("Foreign processes"), foreign),
        ("weights", _("Weights"), weights),
        ("kv", _("KV in use"), kv_used),
        ("reserved", _("KV reserved"), kv - kv_used),
    ):
        fits = max(0, min(size, left))
        left -= fits
        sizes.append((kind, label, fits))
    if used is not None:
        sizes.append(("used", _rest_label(replicas), left))
        sizes.append(("free", _("Free"), total - min(total, used)))
    return _stacked(sizes, total)


def _rest_label(replicas: Sequence[tuple[Mapping[str, Any], float | None]]) -> str:
    """What an engine holds beside weights and cache; while it has not told those two, it is not told apart."""
    if not replicas:
        return _("Other")
    told = all(facts.get("weights_bytes") and facts.get("kv_cache_bytes") for facts, _usage in replicas)
    return _("Activations and graphs") if told else _("Engine, not told apart")


def joined(stacks: Sequence[Sequence[Part]]) -> list[Part]:
    """Returns the stack of several accelerators as one: of a node, for its line in a list."""
    sizes: dict[str, tuple[str, int]] = {}
    for part in (part for stack in stacks for part in stack):
        label, size = sizes.get(part.kind, (part.label, 0))
        if part.kind == "used" and part.label != label:
            label = _("Engines and other")
        sizes[part.kind] = (label, size + part.size_bytes)
    total = sum(size for _label, size in sizes.values())
    return _stacked([(kind, label, size) for kind, (label, size) in sizes.items()], total) if total else []


def used_bytes(stack: Sequence[Part]) -> int:
    """Returns what is taken, by whomever."""
    return sum(part.size_bytes for part in stack if part.kind != "free")


def total_bytes(stack: Sequence[Part]) -> int:
    """Returns the whole."""
    return sum(part.size_bytes for part in stack)


_ORDER = ("weights", "kv", "reserved", "used", "foreign", "free")


def _stacked(sizes: Sequence[tuple[str, str, int]], total: int) -> list[Part]:
    found: list[Part] = []
    start = 0.0
    for kind, label, size in sorted(sizes, key=lambda item: _ORDER.index(item[0])):
        if size > 0:
            found.append(Part(kind, label, size, start, size / total))
            start += size / total
    return found
