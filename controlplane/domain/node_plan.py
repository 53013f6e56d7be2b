"""What a node's supervisor does about the difference between the desired document and the replicas it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.domain.desired import NodeDesired, ReplicaDesired
from controlplane.domain.lifecycle import Reason, State
from controlplane.domain.lifecycle_events import GoalSet
from controlplane.domain.replica_state import ExitPhase

DROPPED = Reason("dropped", "The control plane no longer lists this replica.")
CLOSING = Reason("closing", "Headworks is being shut down on this node.")


@dataclass(frozen=True, slots=True)
class Add:
    """A replica that the node does not know yet; a machine is made for it with the wish's goal."""

    wish: ReplicaDesired


@dataclass(frozen=True, slots=True)
class Steer:
    """A replica that is known: its newest wish (None = no longer listed) and the event for its machine."""

    replica_id: str
    wish: ReplicaDesired | None
    event: GoalSet


@dataclass(frozen=True, slots=True)
class Forget:
    """A replica that has ended and that the control plane no longer lists: its record may go."""

    replica_id: str


Step = Add | Steer | Forget


def is_newer(candidate: NodeDesired, current: NodeDesired | None) -> bool:
    """Returns whether `candidate` replaces `current`.

    After a crash Valkey may hold an older document than the one carried out; taking it would stop engines that are
    wanted. A restored database may count versions from a lower number, but publishes later.
    """
    if current is None:
        return True
    return candidate.version > current.version or candidate.published_at > current.published_at


def plan(desired: NodeDesired | None, known: Mapping[str, State], closing_drain_s: float | None = None) -> list[Step]:
    """Returns what to do, in a stable order; `known` maps replica id to the state of its machine.

    Without a document nothing is touched: a node that can't hear the control plane goes on serving. While the node
    is being closed (`closing_drain_s` is the drain limit in seconds) everything is stopped and nothing is added.
    """
    if closing_drain_s is not None:
        stop = GoalSet("stop", closing_drain_s, CLOSING)
        return [Steer(one, None, stop) for one, state in sorted(known.items()) if state != "stopped"]
    if desired is None:
        return []
    steps: list[Step] = []
    for wish in desired.replicas:
        if wish.replica_id in known:
            steps.append(Steer(wish.replica_id, wish, GoalSet(wish.goal, wish.drain_timeout_s, cause=wish.cause)))
        else:
            steps.append(Add(wish))
    wanted = {wish.replica_id for wish in desired.replicas}
    for replica_id in sorted(known.keys() - wanted):
        if known[replica_id] == "stopped":
            steps.append(Forget(replica_id))
        else:
            steps.append(Steer(replica_id, None, GoalSet("stop", reason=DROPPED)))
    return steps


@dataclass(frozen=True, slots=True)
class Occupant:
    """A replica as the order of starts sees it; `accelerators` are uuids."""

    replica_id: str
    state: State
    since: float
    has_process: bool
    exit_phase: ExitPhase
    accelerators: tuple[str, ...]


def may_start(occupants: Iterable[Occupant]) -> frozenset[str]:
    """Returns the ids of the placed replicas that may be launched now.

    On one accelerator engines start one after another, since each measures the free memory while it starts; and none
    starts while another engine there is being ended, whose memory is about to come free. Who waited longest is first.
    """
    everyone = sorted(occupants, key=lambda one: (one.since, one.replica_id))
    busy = {uuid for one in everyone if _is_in_the_way(one) for uuid in one.accelerators}
    allowed: set[str] = set()
    for one in everyone:
        if one.state == "placed" and busy.isdisjoint(one.accelerators):
            allowed.add(one.replica_id)
            busy.update(one.accelerators)
    return frozenset(allowed)


def _is_in_the_way(one: Occupant) -> bool:
    if one.state in ("starting", "warming"):
        return True
    return one.state in ("draining", "failed") and one.has_process and one.exit_phase != "wait"
