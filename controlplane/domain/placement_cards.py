"""Which accelerators of one node a replica takes, and why the others can't be had."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from controlplane.domain.card_memory import CardMemory, Claim
from controlplane.domain.topology import Topology

GIB = 2**30


class Make(NamedTuple):
    """What a ledger depends on besides the replica's own settings."""

    kind: str
    name: str
    total_bytes: int | None
    engine_version: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What a replica takes of each accelerator of one make. `size_bytes` None = all of it; `refusal` says why it can't
    run there at all."""

    size_bytes: int | None = None
    refusal: str = ""
    support: Literal["native", "emulated", "none", ""] = ""  # of its precision; "" = not known
    price_per_hour: float | None = None  # of one accelerator


WHOLE = Asked()
NOTHING_KNOWN = CardMemory(None)


@dataclass(frozen=True, slots=True)
class Slot:
    """One accelerator as placement sees it. `unusable` says why it can't be had (cordoned, split into slices), the
    empty text when it can; `memory` knows who holds what of it."""

    uuid: str
    kind: str  # gpu | cpu | simulated
    name: str = ""
    index: int = 0
    memory: CardMemory = NOTHING_KNOWN
    unusable: str = ""
    foreign: bool = False  # a process that is not ours is on it

    def without(self, owners: Collection[str]) -> Slot:
        """The accelerator as if these had ended."""
        return replace(self, memory=self.memory.without(owners))

    def with_claim(self, owner: str, size_bytes: int | None) -> Slot:
        """The accelerator with so much, or all of it (None), held by one more."""
        return replace(self, memory=self.memory.with_claim(Claim(owner, size_bytes)))


_Model = tuple[str, str, int | None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a replica asks of one node. `asked` is by kind, name and memory of the accelerators."""

    simulated: bool
    accelerators: int
    tensor_parallel: int = 1
    asked: Mapping[_Model, Asked] = field(default_factory=dict)
    strategy: str = "spread"

    def of(self, slot: Slot) -> Asked:
        """What is asked of accelerators like this one; the whole of it where nothing is known."""
        return self.asked.get((slot.kind, slot.name, slot.memory.total_bytes), WHOLE)


@dataclass(frozen=True, slots=True)
class Choice:
    """Accelerators of one make. `linked` = where cards work together, NVLink joins them or nothing is known of it;
    `left` accelerators of the node are still to be had, `left_bytes` stay free on the chosen ones."""

    slots: tuple[Slot, ...]
    asked: Asked
    linked: bool
    left: int
    left_bytes: int


@dataclass(frozen=True, slots=True)
class Found:
    """A choice, or None and the reason; in any case why single accelerators drop out, by uuid. `spare` could be had and
    are not needed."""

    choice: Choice | None
    reason: str
    rejected: tuple[tuple[str, str], ...] = ()
    spare: tuple[tuple[str, str], ...] = ()


def choose(wish: Wish, slots: Sequence[Slot], topology: Topology | None = None) -> Found:
    """Returns the accelerators that suit best: of one make, without foreign processes, joined where they work together;
    spread takes empty ones first, pack those with the least room."""
    fitting = [slot for slot in slots if (slot.kind == "simulated") == wish.simulated]
    if not fitting:
        what = "simulated accelerators" if wish.simulated else "accelerators but simulated ones"
        return Found(None, "has no accelerators" if not slots else f"has no {what}")
    reasons = {slot.uuid: why_not(wish, slot) for slot in fitting}
    free = [slot for slot in fitting if not reasons[slot.uuid]]
    groups: dict[_Model, list[Slot]] = {}
    for slot in free:
        groups.setdefault((slot.kind, slot.name, slot.memory.total_bytes), []).append(slot)
    enough = [group for group in groups.values() if len(group) >= wish.accelerators]
    for group in groups.values():
        if len(group) < wish.accelerators:
            reasons |= {slot.uuid: too_few(len(group), wish.accelerators) for slot in group}
    rejected = tuple((slot.uuid, reasons[slot.uuid]) for slot in fitting if reasons[slot.uuid])
    if not enough:
        return Found(None, _missing(wish, fitting, free), rejected)
    best = min((_of_group(wish, group, topology, len(free)) for group in enough), key=_order)
    left = [slot for group in enough for slot in group if slot not in best.slots]
    return Found(best, "", rejected, tuple((slot.uuid, why_spare(slot, best)) for slot in left))


def too_few(free: int, needed: int) -> str:
    """Returns why free accelerators of a make are no help."""
    if free == 1:
        return f"is the only free one of its make in the node, and a replica needs {needed}"
    return f"is one of {free} free ones of its make in the node, and a replica needs {needed}"


def why_spare(slot: Slot, best: Choice) -> str:
    """Returns why an accelerator that could be had was not taken."""
    chosen = best.slots[0]
    if slot.foreign and not any(one.foreign for one in best.slots):
        return "would do, but a process that is not ours is on it, and on the others is none"
    if (slot.kind, slot.name, slot.memory.total_bytes) != (chosen.kind, chosen.name, chosen.memory.total_bytes):
        return f"would do, but {chosen.name or 'another make'} of the node suits better"
    return "would do, and is not needed"


def why_not(wish: Wish, slot: Slot) -> str:
    """Returns why a replica can't have an accelerator, the empty text when it can."""
    if slot.unusable:
        return slot.unusable
    asked, memory = wish.of(slot), slot.memory
    if asked.refusal:
        return asked.refusal
    if memory.fits(asked.size_bytes):
        return ""
    if memory.without(memory.leaving).fits(asked.size_bytes):
        return "has memory of an engine that has ended, and it is not seen to be back yet"
    if memory.is_whole or asked.size_bytes is None:
        return "taken"
    held = f"{_gib(memory.reserved_bytes)} reserved, {_gib(memory.foreign_bytes)} used by others"
    return f"needs {_gib(asked.size_bytes)} GiB, {_gib(memory.free_bytes)} of {_gib(memory.total_bytes)} free ({held})"


def _of_group(wish: Wish, group: list[Slot], topology: Topology | None, free: int) -> Choice:
    asked = wish.of(group[0])
    ordered = sorted(group, key=lambda slot: (slot.foreign, *_room(wish, slot), slot.index, slot.uuid))
    slots, linked = _joined(wish, ordered, topology)
    left_bytes = (
        0 if asked.size_bytes is None else sum((one.memory.free_bytes or 0) - asked.size_bytes for one in slots)
    )
    return Choice(
        tuple(sorted(slots, key=lambda slot: (slot.index, slot.uuid))), asked, linked, free - len(slots), left_bytes
    )


def _room(wish: Wish, slot: Slot) -> tuple[int, int]:
    free = slot.memory.free_bytes or 0
    if wish.strategy == "pack":
        return (not slot.memory.claims, free)
    return (bool(slot.memory.claims), -free)


def _joined(wish: Wish, ordered: list[Slot], topology: Topology | None) -> tuple[list[Slot], bool]:
    """The first accelerators in this order; where some work together, from groups that NVLink joins."""
    ranks = wish.tensor_parallel
    if ranks < 2 or topology is None:
        return ordered[: wish.accelerators], True
    left, taken, linked = list(ordered), [], True
    for _ in range(max(1, wish.accelerators // ranks)):
        group = _group(left, topology, ranks)
        linked &= group is not None
        part = (group or left)[:ranks]
        taken += part
        left = [slot for slot in left if slot not in part]
    return taken, linked


def _group(slots: list[Slot], topology: Topology, ranks: int) -> list[Slot] | None:
    """The smallest group that is large enough, so that larger ones stay whole; in the order of `slots`."""
    groups = [[slot for slot in slots if slot.index in members] for members in topology.nvlink_groups()]
    enough = [group for group in groups if len(group) >= ranks]
    return min(enough, key=lambda group: (sum(slot.foreign for slot in group[:ranks]), len(group)), default=None)


def _order(choice: Choice) -> tuple[float, ...]:
    price = choice.asked.price_per_hour
    foreign = sum(slot.foreign for slot in choice.slots)
    emulated = choice.asked.support == "emulated"
    return (foreign, emulated, not choice.linked, float("inf") if price is None else price, choice.left_bytes)


def _missing(wish: Wish, fitting: list[Slot], free: list[Slot]) -> str:
    refusals = sorted({refusal for slot in fitting if (refusal := wish.of(slot).refusal)})
    if refusals and not free:
        refusals_told = refusals[0].removesuffix(".")
        return f"can't run it ({refusals_told})"
    taken = short = 0
    for slot in fitting:
        if not slot.unusable and not wish.of(slot).refusal and not slot.memory.fits(wish.of(slot).size_bytes):
            whole = slot.memory.is_whole or wish.of(slot).size_bytes is None
            taken, short = taken + whole, short + (not whole)
    parts = [f"{taken} taken"] if taken else []
    if short:
        needs = max(wish.of(slot).size_bytes or 0 for slot in fitting)
        most = max(slot.memory.free_bytes or 0 for slot in fitting if not slot.memory.is_whole)
        parts.append(f"{short} with less than {_gib(needs)} GiB free, {_gib(most)} at most")
    parts += sorted({slot.unusable for slot in fitting if slot.unusable}) + refusals
    told = f" ({', '.join(parts)})" if parts else ""
    count = len(free)
    makes = " of one make" if count >= wish.accelerators else ""
    have = f"{count} free accelerators" if count > 1 else "1 free accelerator" if count else "no free accelerator"
    return f"has {have} of {len(fitting)}{told}, and a replica needs {wish.accelerators}{makes}"


def _gib(size: int | None) -> str:
    return "?" if size is None else f"{size / GIB:.1f}"
