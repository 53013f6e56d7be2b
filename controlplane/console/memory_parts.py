"""Parts of a ledger as a stack: names and colours of what holds a card's memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.utils.translation import gettext as _

from controlplane.console.memory import Part

# the domain's name of a part -> the style's, in the order of the stack
KINDS = {
    "weights": "weights",
    "adapters": "adapters",
    "kv_cache": "kv",
    "activation": "activation",
    "graphs": "graphs",
    "non_torch": "nontorch",
    "foreign": "foreign",
    "reserve": "reserve",
    "unused": "free",
}


@dataclass(frozen=True, slots=True)
class Stack:
    """One card. `end` is where the card ends, as a share of the stack's length: below 1 where it is overfull.

    `budget` is what the engine asks for, as a share; None where it does not ask by a share.
    """

    parts: tuple[Part, ...]
    total_bytes: int
    end: float = 1.0
    budget: float | None = None


def label(name: str) -> str:
    """The word for a part of the ledger."""
    words = {
        "weights": _("Weights"),
        "adapters": _("Adapters"),
        "kv_cache": _("KV cache"),
        "activation": _("Activations"),
        "graphs": _("CUDA graphs"),
        "non_torch": _("Outside torch"),
        "foreign": _("Foreign processes"),
        "reserve": _("To stay free"),
        "unused": _("Free"),
    }
    return words.get(name, name)


def stack(
    sizes: Iterable[tuple[str, int]],
    total_bytes: int | None,
    requested_bytes: int | None = None,
    scale_bytes: int = 0,
) -> Stack:
    """Returns the stack of (name of the domain, bytes). Where they are more than the card, it ends before they do.

    `scale_bytes`: what the whole length stands for at least, for several stacks that are compared.
    """
    known = {name: size for name, size in sizes if size > 0 and name in KINDS}
    length = max(total_bytes or 0, sum(known.values()), scale_bytes)
    parts: list[Part] = []
    at = 0
    for name, kind in KINDS.items():
        if name in known:
            parts.append(Part(kind, label(name), known[name], at / length, known[name] / length))
            at += known[name]
    end = (total_bytes / length) if total_bytes and length else 1.0
    budget = requested_bytes / length if requested_bytes and length else None
    return Stack(tuple(parts), total_bytes or length, end, budget)
