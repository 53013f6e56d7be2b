"""On which node, and on which of its accelerators, a replica goes.

Candidates are filtered first, and each one that drops out, node or single card, keeps the reason; those that remain are
scored. Nothing that runs is ever moved by it: what is held stays held.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.domain import placement_cards, placement_scores, rejections
from controlplane.domain.model_files import FilesOnNode
from controlplane.domain.placement_cards import Asked, Choice, Make, Slot
from controlplane.domain.placement_scores import Strategy
from controlplane.domain.rejections import CardGroups, CardReasons, Rejected, by_reason
from controlplane.domain.topology import Topology

__all__ = ["Asked", "Looks", "Make", "Need", "NoRoom", "Placement", "Rejected", "Site", "Slot", "place", "why_not"]


@dataclass(frozen=True, slots=True)
class Site:
    """One node as placement sees it. `engines` maps an engine to its version, None = looked for and not found."""

    name: str
    pool: str
    lost_for_s: float | None = None  # None = it reports
    cordoned: bool = False
    cordon_reason: str = ""
    draining: bool = False
    engines: Mapping[str, str | None] = field(default_factory=dict)
    slots: tuple[Slot, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    topology: Topology | None = None  # of its cards by index; None = not told
    card_price_per_hour: float | None = None  # of one card; None = the typical rent of its make


@dataclass(frozen=True, slots=True)
class Need:
    """What a replica asks for. `asked` says what it takes of each make of accelerator; of a make that is not in it, it
    takes whole accelerators."""

    engine: str
    pool: str
    accelerators: int
    tensor_parallel: int = 1  # so many cards work on each layer together and want to be joined by NVLink
    asked: Mapping[Make, Asked] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    strategy: Strategy = "spread"
    files: Mapping[str, FilesOnNode] = field(default_factory=dict)  # node -> what there is of the model, where known


@dataclass(frozen=True, slots=True)
class Placement:
    """The node and accelerators chosen for a replica, why there, and what was passed over.

    `memory_bytes` is reserved on each accelerator; None = whole accelerators.
    """

    node: str
    uuids: tuple[str, ...]
    why: str
    memory_bytes: int | None = None
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No node can take the replica; `reasons` maps each node to what is missing there."""

    reasons: Mapping[str, str]
    rejected: tuple[Rejected, ...] = ()

    def sentence(self, most: int = 5) -> str:
        """Returns the reasons as one sentence; equal ones are told once, with how many nodes they hold for."""
        if not self.reasons:
            return "No node has reported yet."
        nodes_by_reason: dict[str, list[str]] = {}
        for node, reason in sorted(self.reasons.items()):
            nodes_by_reason.setdefault(reason, []).append(node)
        told = [
            f"{nodes[0]}: {reason}" if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more: each {reason}"
            for reason, nodes in list(nodes_by_reason.items())[:most]
        ]
        left = len(nodes_by_reason) - len(told)
        return "No node can take it. " + "; ".join(told) + (f"; and {left} more reasons." if left else ".")


@dataclass(frozen=True, slots=True)
class Look:
    """What was found out about one node for one need, siblings aside. `reason` is why it can't take the replica."""

    site: Site
    reason: str
    cards: CardGroups = ()
    spare: CardGroups = ()  # that could be had, and are not needed
    choice: Choice | None = None
    score: placement_scores.Score = placement_scores.NOTHING

    def with_siblings(self, siblings: int) -> Look:
        """The same with so many replicas of the deployment on the node."""
        return replace(self, score=replace(self.score, siblings=siblings)) if siblings else self


class Looks:
    """What was found out about each node for one need, kept from one placement to the next. One owner."""

    __slots__ = ("_looks", "cards")

    def __init__(self) -> None:
        self._looks: dict[str, Look] = {}
        self.cards = CardReasons()

    def at(self, need: Need, sites: Collection[Site], ignore_holders: Collection[str]) -> list[Look]:
        """Returns the looks by name; a node that is the same object as before is not looked at again."""
        looks = [self._at(need, site, ignore_holders) for site in sorted(sites, key=lambda one: one.name)]
        if len(looks) < len(self._looks):
            for name in self._looks.keys() - {look.site.name for look in looks}:
                del self._looks[name]
                self.cards.put(name, ())
        return looks

    def _at(self, need: Need, site: Site, ignore_holders: Collection[str]) -> Look:
        look = self._looks.get(site.name)
        if look is None or look.site is not site:
            look = self._looks[site.name] = _look(need, site, ignore_holders)
            self.cards.put(site.name, look.cards)
        return look


def place(
    need: Need,
    sites: Collection[Site],
    siblings: Mapping[str, int],
    ignore_holders: Collection[str] = (),
    looks: Looks | None = None,
) -> Placement | NoRoom:
    """Returns where a replica goes, or why nowhere.

    `siblings` maps a node to the replicas of the same deployment on it; what is held by one of `ignore_holders` counts
    as free, to ask what would be if they ended. `looks` is kept from one call to the next of the same need.
    """
    known = looks or Looks()
    found = known.at(need, sites, ignore_holders)
    fitting = [look.with_siblings(siblings.get(look.site.name, 0)) for look in found if not look.reason]
    reasons = {look.site.name: look.reason for look in found if look.reason}
    if not fitting:
        return NoRoom(reasons, (*rejections.of_nodes(reasons.items()), *known.cards.rejected()))
    best, others = _best(fitting, need.strategy)
    assert best.choice is not None
    why = placement_scores.why(best.score, len(best.choice.slots))
    uuids = tuple(slot.uuid for slot in best.choice.slots)
    rejected = (
        *rejections.of_nodes([*reasons.items(), *others]),
        *rejections.of_node(best.site.name, best.spare),
        *known.cards.rejected(),
    )
    return Placement(best.site.name, uuids, why, best.choice.asked.size_bytes, rejected)


def _best(fitting: Sequence[Look], strategy: Strategy) -> tuple[Look, list[tuple[str, str]]]:
    """The best node, and of the others that would do, by name, what decided."""
    ordered = [(look.score.order(strategy), look) for look in fitting]
    first, best = min(ordered, key=lambda one: (one[0], one[1].site.name))
    told: dict[str, str] = {}  # what decided -> why
    others: list[tuple[str, str]] = []
    for order, look in ordered:
        if look is not best:
            decided = placement_scores.deciding(first, order, strategy)
            if decided not in told:
                told[decided] = placement_scores.why_better(decided, best.site.name)
            others.append((look.site.name, told[decided]))
    return best, others


def _look(need: Need, site: Site, ignore_holders: Collection[str]) -> Look:
    reason = why_not(need, site)
    if reason:
        return Look(site, reason)
    found = placement_cards.choose(_wish(need, site), _with_ends(site.slots, ignore_holders), site.topology)
    index = {slot.uuid: slot.index for slot in site.slots}
    cards = by_reason((index[uuid], why) for uuid, why in found.rejected)
    if found.choice is None:
        return Look(site, found.reason, cards)
    spare = by_reason((index[uuid], why) for uuid, why in found.spare)
    return Look(site, "", cards, spare, found.choice, _score(need, site, found.choice))


def why_not(need: Need, site: Site) -> str:
    """Returns why a node can't take a replica however free its accelerators are; the empty text when it could."""
    if site.pool != need.pool:
        return f"belongs to pool {site.pool}, not {need.pool}"
    if site.lost_for_s is not None:
        return "is lost (it does not report)"
    if site.draining:
        return "is being emptied"
    if site.cordoned:
        return f"is cordoned ({site.cordon_reason})" if site.cordon_reason else "is cordoned"
    if need.engine != "simulated" and site.engines.get(need.engine) is None:
        return f"has no engine {need.engine} installed"
    missing = [f"{name}={value}" for name, value in sorted(need.labels.items()) if site.labels.get(name) != value]
    if missing:
        return f"has no label {missing[0]}"
    files = need.files.get(site.name)
    return "" if files is None else files.refusal


def make_of(slot: Slot, engine_version: str | None) -> Make:
    """Returns what the ledger of an engine on this accelerator depends on."""
    return Make(slot.kind, slot.name, slot.memory.total_bytes, engine_version or "")


def _wish(need: Need, site: Site) -> placement_cards.Wish:
    version = site.engines.get(need.engine)
    makes = {make_of(slot, version) for slot in site.slots}
    asked = {(make.kind, make.name, make.total_bytes): need.asked.get(make, placement_cards.WHOLE) for make in makes}
    return placement_cards.Wish(
        simulated=need.engine == "simulated",
        accelerators=need.accelerators,
        tensor_parallel=need.tensor_parallel,
        asked=asked,
        strategy=need.strategy,
    )


def _with_ends(slots: tuple[Slot, ...], owners: Collection[str]) -> tuple[Slot, ...]:
    return tuple(slot.without(owners) for slot in slots) if owners else slots


def _score(need: Need, site: Site, choice: Choice) -> placement_scores.Score:
    return placement_scores.Score(
        foreign=sum(slot.foreign for slot in choice.slots),
        emulated=choice.asked.support == "emulated",
        apart=not choice.linked,
        files=_files(need, site),
        shared=sum(bool(slot.memory.claims) for slot in choice.slots),
        price=choice.asked.price_per_hour if site.card_price_per_hour is None else site.card_price_per_hour,
        left=choice.left,
        left_bytes=choice.left_bytes,
    )


def _files(need: Need, site: Site) -> placement_scores.Files:
    files = need.files.get(site.name)
    if files is None or files.state == "unknown":
        return "unknown"
    return "there" if files.state == "present" else "missing"
