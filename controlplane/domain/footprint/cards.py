"""The accelerator of a set-up: how much memory its driver reports.

A figure that was measured goes first, then the table of accelerators, then a size that stands in the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import accelerator_rows, accelerators
from controlplane.domain.specs.accelerator import AcceleratorFacts

GIB = 2**30
# what drivers report of a nominal size, where only the size is known: cards of that size in the table of accelerators
_MOST_OF_NAMED = 6.0  # times its memory: no card of that name comes near
_MOST_CHIPS, _MOST_CHIPS_DESKTOP = 1.5, 4.1  # times its memory, in names: workshops put more chips on GeForce boards
_LITTLE_OF_NAMED = 0.75  # a slice of it, or another card
_MUCH_OF_NAMED = 1.5  # times its memory: there are cards with twice the usual chips, and it is said
_REPORTED_GIB = {16: 15.6, 24: 23.6, 32: 31.36, 40: 39.5, 48: 44.4, 64: 63.6, 80: 79.2, 96: 94.97, 128: 119.7}
_USUAL_SHARE = 0.975  # of nominal, where the size is none of these (median of the table's cards)
_SIZE = re.compile(r"(\d{1,4}(?:\.\d{1,2})?)\s*(?:g\.)?\s*gi?b", re.IGNORECASE)
_NO_NAMES = ("", "unknown", "n/a", "na", "none", "null", "not stated", "unnamed")
_UNIFIED = ("gb10", "spark", "jetson", "orin", "thor", "strix", "gh200", "m1", "m2", "m3", "m4")
_GEFORCE = re.compile(r"RTX-\d{4}(?!.*Ada)")
_SEVERAL = re.compile(r"\s*(?:/|\+|,|\bor\b)\s*")


@dataclass(frozen=True, slots=True)
class Card:
    """`total_bytes` is what the driver reports, None where nothing says it. `unified`: memory of the whole system."""

    name: str
    total_bytes: int | None
    facts: AcceleratorFacts | None = None
    unified: bool = False
    assumption: str = ""

    @property
    def is_cpu(self) -> bool:
        """Whether it is a group of CPU cores, by its name: their memory is the machine's."""
        return "cpu" in self.name.lower().replace("-", " ").split()

    @property
    def is_desktop(self) -> bool | None:
        """Whether it is a GeForce card, None where it is not known."""
        return None if self.facts is None else _GEFORCE.match(self.facts.name) is not None

    @property
    def linked(self) -> bool:
        """Whether several of them talk over a fabric of their own; of an unknown card its size says it."""
        if self.facts is not None:
            return self.facts.link_bytes_per_s is not None and self.facts.memory_bytes > 32 * GIB
        return self.total_bytes is not None and self.total_bytes > 60 * GIB


def resolve(name: str | None, total_gib: float | None, *, needed: bool = True) -> Card:
    """The card called `name` with `total_gib` of memory, each of them None where it is not known.

    Raises RefusedError naming `gpu` when a name says nothing and its memory is needed.
    """
    text = (name or "").strip()
    if text.lower().strip("?.()[] ") in _NO_NAMES:
        text = ""
    facts = _find(text)
    unified = any(word in text.lower() for word in _UNIFIED)
    if total_gib is not None:
        if facts is not None and total_gib * GIB > _MOST_OF_NAMED * facts.memory_bytes:
            right = f"about {accelerator_rows.usable_bytes(facts) / GIB:.1f}, as {facts.name} reports, or another gpu"
            shown = f"A card of {total_gib:g} GiB is no {facts.name}."
            raise RefusedError("accelerator", shown, hint=right, fields={"gpu_memory_total_gib": right})
        said = _unknown(text) if text and facts is None else ""
        if facts is not None and total_gib * GIB > _MUCH_OF_NAMED * facts.memory_bytes:
            said = f"gpu_memory_total_gib is {total_gib:g}, more than {facts.name} has; it was taken as given."
        if facts is not None and total_gib * GIB < _LITTLE_OF_NAMED * facts.memory_bytes:
            said = f"gpu_memory_total_gib is {total_gib:g}, a part of what {facts.name} has; it was taken as given."
        return Card(text, round(total_gib * GIB), facts, unified, said)
    if not text:
        return Card(text, None)
    if facts is not None:
        total = accelerator_rows.usable_bytes(facts)
        reason = f"gpu_memory_total_gib is not given; {total / GIB:.2f} GiB was taken, as {facts.name} reports."
        return Card(text, total, facts, unified, reason)
    sizes = [float(size) for size in _SIZE.findall(text)]
    if sizes and 1 <= min(sizes) <= 1024:
        size = min(sizes)
        _check_size(text, size)
        reported = _REPORTED_GIB.get(int(size), size * _USUAL_SHARE)
        reason = f"gpu_memory_total_gib is not given; {reported:.2f} GiB was taken for a card of {size:g} GB."
        return Card(text, round(reported * GIB), None, unified, reason)
    if not needed:
        return Card(text, None, None, unified, f"{text} is not a card that is known here; nothing was taken from it.")
    right = 'a name such as "H100 80GB" or "RTX 4090", or gpu_memory_total_gib: what the driver reports'
    names = " or ".join(accelerators.like(text))
    meant = f"{names}, if one of them is meant; {right}" if names else right
    raise RefusedError(
        "accelerator", f'"{text[:60]}" is not a card that is known here.', hint=meant, fields={"gpu": meant}
    )


def _check_size(text: str, size_gb: float) -> None:
    """Refuses a memory that no card of the model has that `text` names; boards with more chips than usual exist."""
    named = accelerators.of_model(re.sub(r"\(.*?\)", " ", text))
    if not named:
        return
    largest = max(named, key=lambda card: card.memory_bytes)
    most = _MOST_CHIPS_DESKTOP if _GEFORCE.match(largest.name) else _MOST_CHIPS
    if size_gb * GIB <= most * largest.memory_bytes:
        return
    right = f"{' or '.join(dict.fromkeys(card.name for card in named))}; how many cards there are is num_gpus"
    said = f'"{text[:60]}" says {size_gb:g} GB, which no such card has.'
    raise RefusedError("accelerator", said, hint=right, fields={"gpu": right})


def _unknown(text: str) -> str:
    return f"{text[:60]} is no single card known here: number formats were not checked, links guessed by its size."


def _find(text: str) -> AcceleratorFacts | None:
    """The card; of several that are named ("A10G/L4", "5070 Ti + 5090") the one with the least memory."""
    if not text:
        return None
    clean = re.sub(r"\(.*?\)", " ", text).replace("?", " ").strip()
    whole = accelerators.find(text) or accelerators.find(clean)
    if whole is not None:
        return whole
    found = [facts for part in _SEVERAL.split(clean) if part and (facts := accelerators.find(part)) is not None]
    return min(found, key=accelerator_rows.usable_bytes) if found else None
