"""From what is wished and what is there to what is done next. One deployment at a time, all of it pure.

Guarantees
    Never more running replicas than wanted plus `SURGE`. A ready replica of the current revision is ended only when
    more are running than wanted. What still serves is not ended before its successor is ready, unless only its own
    accelerators could carry the successor; then a decision says so. Once nothing changes outside, repeated calls
    come to rest with no action.
Does not do
    Restarts: the node does them by itself. Clocks and ids: `now` and ids come from the caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from controlplane.domain import placement
from controlplane.domain.lifecycle import Goal, State
from controlplane.domain.model_files import FilesOnNode
from controlplane.domain.placement import Asked, Make, Need, NoRoom, Placement, Site
from controlplane.domain.placement_scores import Strategy
from controlplane.domain.reconcile_actions import Action, Create, Drop, Hold, Place, Remove, Stop, Wait

__all__ = [
    "Action", "Create", "Drop", "Hold", "Member", "Place", "Remove", "Stop", "Wait", "Wanted", "is_routed", "reconcile",
    "take",
]  # fmt: skip

SURGE = 1
REPLACE_LOST_AFTER_S = 60.0  # a node that is back sooner keeps its replicas without a replacement
ROUTE_LOST_FOR_S = 600.0  # an engine outlives its node worker; the gateway finds out by itself when it does not
_AT_REST: frozenset[State] = frozenset({"ready", "pending", "failed"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one deployment is wished to be. `replicas` is 0 for a stopped or drained one."""

    name: str
    engine: str
    managed: bool  # False: an external endpoint, that is never started, stopped or placed
    pool: str
    replicas: int
    revision: int  # the id of the current revision
    accelerators: int = 1
    drain_timeout_s: float = 60.0
    frozen: bool = False
    all_frozen: bool = False  # not by its own switch but by the one for everything
    leaving: bool = False  # removed once nothing of it lives
    tensor_parallel: int = 1
    asked: Mapping[Make, Asked] = field(default_factory=dict)  # what a replica takes of each make of accelerator
    labels: Mapping[str, str] = field(default_factory=dict)  # that its nodes have to carry
    strategy: Strategy = "spread"
    files: Mapping[str, FilesOnNode] = field(default_factory=dict)  # node -> what there is of the model

    @property
    def need(self) -> Need:
        """What one replica asks for."""
        return Need(
            engine=self.engine,
            pool=self.pool,
            accelerators=self.accelerators,
            tensor_parallel=self.tensor_parallel,
            asked=self.asked,
            labels=self.labels,
            strategy=self.strategy,
            files=self.files,
        )


@dataclass(frozen=True, slots=True)
class Member:
    """One living replica. `waiting_why` is what its last placement failed for; `gone` names an accelerator of its own
    that its node does not see any more."""

    id: str
    revision: int
    state: State
    goal: Goal
    created_at: float
    node: str | None = None
    waiting_why: str = ""
    gone: str = ""


def is_routed(state: str, goal: str, lost_for_s: float | None) -> bool:
    """Returns whether a replica may get requests: ready, to go on, and its node not silent for too long."""
    return state == "ready" and goal == "run" and (lost_for_s is None or lost_for_s < ROUTE_LOST_FOR_S)


def reconcile(wanted: Wanted, members: Sequence[Member], sites: Mapping[str, Site]) -> list[Action]:
    """Returns what to do for one deployment; `sites` maps node name to node, with the holders of its accelerators."""
    if not wanted.managed:
        return _external(wanted, members)
    actions: list[Action] = [Drop(one.id) for one in members if one.goal == "stop" and one.node is None]
    running = [one for one in members if one.goal == "run"]
    if wanted.replicas == 0:
        actions += [_end(one, wanted, "asked", "The deployment is to run no replica.") for one in running]
    else:
        actions += _towards(wanted, running, sites)
        if not wanted.frozen and not any(isinstance(action, Stop) for action in actions):
            actions += _drain_first(wanted, members, sites)
    stopped = {action.replica_id for action in actions if isinstance(action, Stop | Drop)}
    actions += _placements(wanted, [one for one in members if one.id not in stopped], sites)
    if wanted.leaving and not members:
        actions.append(Remove())
    return actions


def _external(wanted: Wanted, members: Sequence[Member]) -> list[Action]:
    """An endpoint is one member that its probe moves; it neither drains nor needs a place."""
    if wanted.replicas == 0:
        return [Drop(one.id) for one in members] or ([Remove()] if wanted.leaving else [])
    current = [one for one in members if one.revision == wanted.revision and one.goal == "run"]
    actions: list[Action] = [Drop(one.id) for one in members if one not in current[:1]]
    why = "The endpoint is asked whether it answers; requests go there once it does."
    return actions if current else [*actions, Create(why, rule="endpoint")]


def _towards(wanted: Wanted, running: Sequence[Member], sites: Mapping[str, Site]) -> list[Action]:
    """Numbers first: what is too much or outdated ends, what is missing is made."""
    known = [one for one in running if not _unknown(one, sites)]
    outdated = {one.id: why for one in known if (why := _outdated(one, wanted, sites))}
    actions: list[Action] = []
    if not wanted.frozen:
        useless = [one for one in known if one.id in outdated and one.state != "ready"]
        for one in useless:
            actions.append(_end(one, wanted, "rollout", f"{outdated[one.id]} It was not ready, so it ends at once."))
        known = [one for one in known if one not in useless]
    surge = SURGE if any(one.id in outdated for one in known) and not wanted.frozen else 0
    for one in _surplus(known, outdated, wanted.replicas + surge):
        actions.append(_end(one, wanted, "scale", _counted(len(known), wanted.replicas)))
        known = [other for other in known if other is not one]
    if wanted.frozen:
        return actions + _held(wanted, known, outdated)
    replaced = _replaced(known, outdated, wanted)
    actions += [_end(one, wanted, "rollout", f"{outdated[one.id]} Its successor is ready.") for one in replaced]
    known = [one for one in known if one not in replaced]
    return actions + _missing(wanted, known, outdated)


def _unknown(one: Member, sites: Mapping[str, Site]) -> bool:
    site = sites.get(one.node) if one.node else None
    return site is not None and site.lost_for_s is not None and site.lost_for_s >= REPLACE_LOST_AFTER_S


def _outdated(one: Member, wanted: Wanted, sites: Mapping[str, Site]) -> str:
    """Why a replica has to make room for another one; the empty text when it may stay."""
    if one.revision != wanted.revision:
        return "There is a newer revision."
    site = sites.get(one.node) if one.node else None
    if site is None:
        return ""
    if site.pool != wanted.pool:
        return f"Node {site.name} belongs to pool {site.pool}, the deployment to {wanted.pool}."
    if one.gone and one.state == "failed":  # one that still serves may know better than the driver
        return f"Node {site.name} does not see its accelerator {one.gone} any more."
    return f"Node {site.name} is being emptied." if site.draining else ""


def _surplus(known: Sequence[Member], outdated: Mapping[str, str], most: int) -> list[Member]:
    """Who ends when there are too many: those not ready first, then outdated ones, then the youngest."""
    order = sorted(known, key=lambda one: (one.state == "ready", one.id not in outdated, -one.created_at, one.id))
    return order[: max(0, len(known) - most)]


def _replaced(known: Sequence[Member], outdated: Mapping[str, str], wanted: Wanted) -> list[Member]:
    """Outdated replicas that are not needed any more, because enough are ready without them; oldest first."""
    ready = sum(one.state == "ready" for one in known)
    old = sorted((one for one in known if one.id in outdated), key=lambda one: (one.created_at, one.id))
    return old[: max(0, ready - wanted.replicas)]


def _missing(wanted: Wanted, known: Sequence[Member], outdated: Mapping[str, str]) -> list[Action]:
    old = sum(one.id in outdated for one in known)
    missing = wanted.replicas - (len(known) - old)
    room = wanted.replicas + (SURGE if old else 0) - len(known)
    why = _counted(len(known), wanted.replicas)
    if old:
        why = f"{old} of {len(known)} to be replaced: {next(iter(outdated.values()))}"
    return [Create(why, "rollout" if old else "replicas")] * max(0, min(missing, room))


def _drain_first(wanted: Wanted, members: Sequence[Member], sites: Mapping[str, Site]) -> list[Action]:
    """Ends one outdated replica before its successor is ready, where only that makes room for it.

    Not while another replica of the deployment is on its way up or down: that may make room as well.
    """
    known = [one for one in members if not _unknown(one, sites)]
    outdated = {one.id: why for one in known if one.goal == "run" and (why := _outdated(one, wanted, sites))}
    waiting = [one for one in known if one.state == "pending" and one.waiting_why and one.id not in outdated]
    moving = [one for one in known if one.goal == "stop" or (one.id not in outdated and one.state not in _AT_REST)]
    need = wanted.need
    if not outdated or not waiting or moving or isinstance(placement.place(need, sites.values(), {}), Placement):
        return []
    leaving = {owner for site in sites.values() for slot in site.slots for owner in slot.memory.leaving}
    if leaving and isinstance(placement.place(need, sites.values(), {}, leaving), Placement):
        return []  # room is on its way back already
    old = sorted((one for one in known if one.id in outdated), key=lambda one: (one.created_at, one.id))
    for one in old:
        own = [sites[one.node]] if one.node is not None and one.node in sites else []  # elsewhere nothing changes
        if isinstance(placement.place(need, own, {}, {one.id}), Placement):
            why = f"{outdated[one.id]} No accelerators are free for its successor, so it ends first."
            return [_end(one, wanted, "drain_first", why)]
    return [Hold("rollout", f"{outdated[old[0].id]} Its successor has no place: {waiting[0].waiting_why}")]


def _held(wanted: Wanted, known: Sequence[Member], outdated: Mapping[str, str]) -> list[Action]:
    missing = wanted.replicas - len(known)
    if missing <= 0 and not outdated:
        return []
    what = "missing" if missing > 0 else "to be replaced"
    count = missing if missing > 0 else len(outdated)
    frozen = "everything is frozen" if wanted.all_frozen else "the deployment is frozen"
    text = f"{count} replica{'s are' if count != 1 else ' is'} {what}, but {frozen}: nothing is changed."
    return [Hold("frozen", text)]


def _counted(run: int, wanted: int) -> str:
    if not run:
        return f"No replica runs, {wanted} {'are' if wanted != 1 else 'is'} wanted."
    return f"{run} replica{'s run' if run != 1 else ' runs'}, {wanted} {'are' if wanted != 1 else 'is'} wanted."


def _end(one: Member, wanted: Wanted, rule: str, why: str) -> Stop | Drop:
    return Drop(one.id) if one.node is None else Stop(one.id, wanted.drain_timeout_s, rule, why)


def _placements(wanted: Wanted, members: Sequence[Member], sites: Mapping[str, Site]) -> list[Action]:
    """Places what is pending, oldest first; each placement takes its accelerators from the next one's choice."""
    actions: list[Action] = []
    left = dict(sites)
    siblings: dict[str, int] = {}
    for one in members:
        if one.node is not None:
            siblings[one.node] = siblings.get(one.node, 0) + 1
    pending = [one for one in members if one.state == "pending" and one.goal == "run"]
    looks = placement.Looks()
    none: NoRoom | None = None
    if wanted.frozen:
        frozen = "Everything is frozen" if wanted.all_frozen else "The deployment is frozen"
        return [Wait(one.id, f"{frozen}, so it is not placed.", "frozen") for one in pending]
    need = wanted.need
    for one in sorted(pending, key=lambda other: (other.created_at, other.id)):
        # where there is no room for one, there is none for the others of the same need
        found = none or placement.place(need, left.values(), siblings, looks=looks)
        if isinstance(found, NoRoom):
            none = found
            actions.append(Wait(one.id, found.sentence(), rejected=found.rejected))
            continue
        actions.append(Place(one.id, found))
        siblings[found.node] = siblings.get(found.node, 0) + 1
        left[found.node] = take(left[found.node], found.uuids, one.id, found.memory_bytes)
    return actions


def take(site: Site, uuids: Sequence[str], owner: str, memory_bytes: int | None = None) -> Site:
    """Returns the node with so much of these accelerators, or the whole of them (None), held by a replica."""
    slots = tuple(slot.with_claim(owner, memory_bytes) if slot.uuid in uuids else slot for slot in site.slots)
    return replace(site, slots=slots)
