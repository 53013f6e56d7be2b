"""On which node, and on which of its accelerators, a replica goes.

Nodes are filtered first, and each one that drops out keeps the reason; those that remain are scored. Accelerators are
exclusive: who holds one holds it alone until its node has seen the process group gone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Slot:
    """One accelerator as placement sees it. `holder` is the replica that has it, `unusable` says why it can't be had
    (cordoned, split into slices), the empty text when it can."""

    uuid: str
    kind: str  # gpu | cpu | simulated
    name: str = ""
    index: int = 0
    holder: str | None = None
    unusable: str = ""
    foreign: bool = False  # a process that is not ours is on it


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


@dataclass(frozen=True, slots=True)
class Need:
    """What a replica asks for."""

    engine: str
    pool: str
    accelerators: int


@dataclass(frozen=True, slots=True)
class Placement:
    """The node and accelerators chosen for a replica, and why there."""

    node: str
    uuids: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No node can take the replica; `reasons` maps each node to what is missing there."""

    reasons: Mapping[str, str]

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


def place(
    need: Need, sites: Collection[Site], siblings: Mapping[str, int], ignore_holders: Collection[str] = ()
) -> Placement | NoRoom:
    """Returns where a replica goes, or why nowhere.

    `siblings` maps a node to the replicas of the same deployment on it (fewer is better); accelerators held by one of
    `ignore_holders` count as free, to ask what would be if they ended.
    """
    reasons: dict[str, str] = {}
    best: tuple[tuple[float, ...], Placement] | None = None
    for site in sorted(sites, key=lambda one: one.name):
        reason = why_not(need, site)
        chosen = _choose(need, site, ignore_holders) if not reason else ()
        if not reason and not chosen:
            reason = _missing(need, site, ignore_holders)
        if reason:
            reasons[site.name] = reason
            continue
        left = len(_free(need, site, ignore_holders)) - len(chosen)
        foreign = sum(slot.foreign for slot in chosen)
        count = siblings.get(site.name, 0)
        score = (foreign, count, left)  # first nobody's way, then spread the deployment, then fill what is begun
        if best is None or score < best[0]:
            best = (score, Placement(site.name, tuple(slot.uuid for slot in chosen), _why(count, left, foreign)))
    return best[1] if best else NoRoom(reasons)


def _why(siblings: int, left: int, foreign: int) -> str:
    other = f" Processes that are not ours are on {foreign} of them; no other place was free." if foreign else ""
    free = f"{left} accelerator{'s stay' if left != 1 else ' stays'} free there."
    if not siblings:
        return f"No replica of the deployment was there yet; {free}{other}"
    return f"{siblings} replica{'s' if siblings != 1 else ''} of the deployment there already; {free}{other}"


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
    return ""


def _fitting(need: Need, site: Site) -> list[Slot]:
    simulated = need.engine == "simulated"
    return [slot for slot in site.slots if (slot.kind == "simulated") == simulated]


def _free(need: Need, site: Site, ignore_holders: Collection[str]) -> list[Slot]:
    return [
        slot
        for slot in _fitting(need, site)
        if not slot.unusable and (slot.holder is None or slot.holder in ignore_holders)
    ]


def _choose(need: Need, site: Site, ignore_holders: Collection[str]) -> tuple[Slot, ...]:
    """Accelerators of one make, from the smallest group that suffices, those without foreign processes first."""
    groups: dict[tuple[str, str], list[Slot]] = {}
    for slot in _free(need, site, ignore_holders):
        groups.setdefault((slot.kind, slot.name), []).append(slot)
    enough = [group for group in groups.values() if len(group) >= need.accelerators]
    if not enough:
        return ()
    group = min(enough, key=lambda one: (sum(slot.foreign for slot in one), len(one)))
    return tuple(sorted(group, key=lambda slot: (slot.foreign, slot.index, slot.uuid))[: need.accelerators])


def _missing(need: Need, site: Site, ignore_holders: Collection[str]) -> str:
    fitting = _fitting(need, site)
    if not fitting:
        what = "simulated accelerators" if need.engine == "simulated" else "accelerators but simulated ones"
        return "has no accelerators" if not site.slots else f"has no {what}"
    free = _free(need, site, ignore_holders)
    taken = sum(slot.holder is not None and slot.holder not in ignore_holders for slot in fitting)
    unusable = sorted({slot.unusable for slot in fitting if slot.unusable})
    parts = [f"{taken} taken"] if taken else []
    parts += unusable
    told = f" ({', '.join(parts)})" if parts else ""
    makes = " of one make" if len(free) >= need.accelerators else ""
    count = len(free)
    have = f"{count} free accelerators" if count > 1 else "1 free accelerator" if count else "no free accelerator"
    return f"has {have} of {len(fitting)}{told}, and a replica needs {need.accelerators}{makes}"
