"""On which node, and on which of its accelerators, a replica goes.

Candidates are filtered first, and each one that drops out, node or single card, keeps the reason; those that remain are
scored. Nothing that runs is ever moved by it: what is held stays held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from controlplane.domain import placement_cards, placement_scores
from controlplane.domain.model_files import FilesOnNode
from controlplane.domain.placement_cards import Asked, Choice, Make, Slot
from controlplane.domain.placement_scores import Strategy
from controlplane.domain.topology import Topology

MOST_REJECTED = 64  # nodes, and as many cards, that keep their reason; the others are counted by it
MOST_REASONS = 16  # by which the others are counted; the rarer ones are told together

__all__ = ["Asked", "Make", "Need", "NoRoom", "Placement", "Rejected", "Site", "Slot", "place", "why_not"]


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
class Rejected:
    """A node, or one card of it (`card` is its uuid), that was not taken, and why.

    `more` > 0: so many more nodes or cards (`of`) that are not named, for this reason.
    """

    node: str
    card: str
    reason: str
    more: int = 0
    of: Literal["", "nodes", "cards"] = ""


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
    cards: tuple[Rejected, ...] = ()
    counts: tuple[tuple[str, int], ...] = ()  # reason -> cards, made once: a round asks it for each replica again
    spare: tuple[Rejected, ...] = ()  # that could be had, and are not needed
    choice: Choice | None = None
    score: placement_scores.Score = placement_scores.NOTHING

    def with_siblings(self, siblings: int) -> Look:
        """The same with so many replicas of the deployment on the node."""
        return replace(self, score=replace(self.score, siblings=siblings)) if siblings else self


def place(
    need: Need,
    sites: Collection[Site],
    siblings: Mapping[str, int],
    ignore_holders: Collection[str] = (),
    looks: dict[str, Look] | None = None,
) -> Placement | NoRoom:
    """Returns where a replica goes, or why nowhere.

    `siblings` maps a node to the replicas of the same deployment on it; what is held by one of `ignore_holders` counts
    as free, to ask what would be if they ended. `looks` is kept from one call to the next of the same need: a node that
    is the same object as before is not looked at again.
    """
    known = looks if looks is not None else {}
    reasons: dict[str, str] = {}
    cards: list[Rejected] = []
    more: Counter[str] = Counter()  # reason -> cards that are not named
    fitting: list[Look] = []
    for site in sorted(sites, key=lambda one: one.name):
        look = known.get(site.name)
        if look is None or look.site is not site:
            look = known[site.name] = _look(need, site, ignore_holders)
        if len(cards) < MOST_REJECTED:
            cards += look.cards
        else:
            for card_reason, count in look.counts:
                more[card_reason] += count
        if look.reason:
            reasons[site.name] = look.reason
        else:
            fitting.append(look.with_siblings(siblings.get(site.name, 0)))
    if not fitting:
        return NoRoom(reasons, (*_nodes(reasons, [], None, need.strategy), *_cards(cards, more)))
    best = min(fitting, key=lambda one: (one.score.order(need.strategy), one.site.name))
    assert best.choice is not None
    why = placement_scores.why(best.score, len(best.choice.slots))
    uuids = tuple(slot.uuid for slot in best.choice.slots)
    cards = [*best.spare, *cards]  # of the chosen node first
    rejected = (*_nodes(reasons, fitting, best, need.strategy), *_cards(cards, more))
    return Placement(best.site.name, uuids, why, best.choice.asked.size_bytes, rejected)


def _nodes(
    reasons: Mapping[str, str], fitting: Sequence[Look], best: Look | None, strategy: Strategy
) -> list[Rejected]:
    """Why nodes were not taken: those that can't be first, then those that are not as good as the best."""
    named = [Rejected(node, "", reason) for node, reason in list(reasons.items())[:MOST_REJECTED]]
    more = Counter(list(reasons.values())[MOST_REJECTED:])
    if best is not None:
        others = [one for one in fitting if one is not best]
        room = MOST_REJECTED - len(named)
        for other in others[:room]:
            why = placement_scores.why_better(best.score, other.score, best.site.name, strategy)
            named.append(Rejected(other.site.name, "", why))
        if len(others) > room:  # in a large fleet it would take long to say of each what decided
            more[later(best.site.name)] = len(others) - room
    return [*named, *_more(more, "nodes")]


def _cards(cards: Sequence[Rejected], more: Counter[str]) -> list[Rejected]:
    counted = more + Counter(one.reason for one in cards[MOST_REJECTED:])
    return [*cards[:MOST_REJECTED], *_more(counted, "cards")]


def later(best: str) -> str:
    """Returns why nodes that would do are not taken, of many at once."""
    return f"would do, and come after {best}"


def _more(counts: Counter[str], of: Literal["nodes", "cards"]) -> list[Rejected]:
    """Those that are not named, counted by reason."""
    told = counts.most_common(MOST_REASONS)
    rare = counts.total() - sum(count for _reason, count in told)
    found = [Rejected("", "", reason, count, of) for reason, count in told]
    return [*found, Rejected("", "", other_reasons(), rare, of)] if rare else found


def other_reasons() -> str:
    """Returns what is told of those whose reason only few share."""
    return "for other reasons, which differ from one to the next"


def _look(need: Need, site: Site, ignore_holders: Collection[str]) -> Look:
    reason = why_not(need, site)
    if reason:
        return Look(site, reason)
    found = placement_cards.choose(_wish(need, site), _with_ends(site.slots, ignore_holders), site.topology)
    cards = tuple(Rejected(site.name, uuid, why) for uuid, why in found.rejected)
    spare = tuple(Rejected(site.name, uuid, why) for uuid, why in found.spare)
    counts = tuple(Counter(one.reason for one in cards).items())
    if found.choice is None:
        return Look(site, found.reason, cards, counts)
    return Look(site, "", cards, counts, spare, found.choice, _score(need, site, found.choice))


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
