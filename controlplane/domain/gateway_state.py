"""What a gateway process tells of itself once a second: queues, who waits, what was let in and refused, seats, slices.

Missing is None, never 0. Fields that a newer gateway adds are ignored, those that an older one lacks are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from controlplane.domain.degradation import Step

MOST_WAITING = 50  # lines of who waits that are told; the longest waits first

# what a refusal is called in a chart -> its codes; every other code is "other"
REASONS: Mapping[str, frozenset[str]] = {
    "room": frozenset({"queue_full", "queue_bytes"}),
    "wait": frozenset({"too_slow", "expired"}),
    "quota": frozenset({"quota", "rate_limit_exceeded", "insufficient_quota", "quota_exceeded"}),
    "shed": frozenset({"shed"}),
}
OTHER = "other"
T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class TierState:
    """One tier's queue. `oldest_wait_s` None = nobody waits; `wait_limit_s` is how long a request may wait now."""

    name: str
    waiting: int = 0
    waiting_bytes: int = 0
    queue_most: int | None = None
    queue_most_bytes: int | None = None
    oldest_wait_s: float | None = None
    wait_limit_s: float | None = None
    admitted: int = 0  # since the process started
    admitted_per_s: float | None = None  # over the last ten seconds


@dataclass(frozen=True, slots=True)
class WaitingState:
    """The waiting requests of a tenant in a tier. `tokens` are estimates: prompts and allowed output."""

    tenant: str
    tier: str
    requests: int
    tokens: int
    oldest_wait_s: float


@dataclass(frozen=True, slots=True)
class RefusedState:
    """Requests that were refused for one reason, since the process started and over the last ten seconds."""

    tier: str
    why: str
    requests: int
    per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica as admission sees it. `capacity_tokens` None = its engine has not told."""

    id: str
    running: int
    seats: int
    reserved_tokens: int
    capacity_tokens: int | None = None
    leaving: bool = False
    resting: bool = False  # nothing new goes there for a while


@dataclass(frozen=True, slots=True)
class LadderState:
    """Where a deployment stands on its ladder: the first `level` steps are climbed. `saturation` 1.0 = one of its
    limits is reached; None = not known."""

    level: int = 0
    saturation: float | None = None
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class DeploymentState:
    """One deployment in one gateway process, or in all of them together."""

    name: str
    tiers: tuple[TierState, ...] = ()
    waiting: tuple[WaitingState, ...] = ()
    refused: tuple[RefusedState, ...] = ()
    replicas: tuple[ReplicaState, ...] = ()
    ladder: LadderState | None = None

    @property
    def requests_waiting(self) -> int:
        return sum(tier.waiting for tier in self.tiers)

    @property
    def running(self) -> int:
        return sum(one.running for one in self.replicas)

    @property
    def seats(self) -> int:
        return sum(one.seats for one in self.replicas if not one.leaving)

    @property
    def reserved_tokens(self) -> int:
        return sum(one.reserved_tokens for one in self.replicas)

    @property
    def capacity_tokens(self) -> int | None:
        """The sum over the replicas that serve; None where one does not tell."""
        found = [one.capacity_tokens for one in self.replicas if not one.leaving]
        known = [one for one in found if one is not None]
        return sum(known) if known and len(known) == len(found) else None

    @property
    def admitted_per_s(self) -> float | None:
        return _sum(tier.admitted_per_s for tier in self.tiers)

    @property
    def refused_per_s(self) -> float | None:
        """0 where nothing was ever refused: that is known as well as what was admitted."""
        return _sum(one.per_s for one in self.refused) if self.refused else _nothing(self.admitted_per_s)

    @property
    def wait_ratio(self) -> float | None:
        """The longest wait over its limit, the highest of all tiers; None where nobody waits."""
        found = [
            tier.oldest_wait_s / tier.wait_limit_s
            for tier in self.tiers
            if tier.oldest_wait_s is not None and tier.wait_limit_s
        ]
        return max(found, default=None)


@dataclass(frozen=True, slots=True)
class LeaseState:
    """What a gateway holds of one limit. `stock` may be used without asking, `reserved` is promised to running
    requests, `left` is what is left with Valkey as far as the gateway has heard; money in millionths."""

    quota: str
    tenant: str
    measure: str
    limit: int
    stock: int
    reserved: int
    left: int | None = None
    deployment: str = ""
    key_id: str = ""


@dataclass(frozen=True, slots=True)
class QuotaRefusedState:
    """Requests that a limit of a quota had no room for, since the process started."""

    tenant: str
    quota: str
    measure: str
    requests: int


@dataclass(frozen=True, slots=True)
class GatewayState:
    """One gateway process. `deployments` are those that it decides for; `cut_off_s` is for how long Valkey has not
    answered it about quotas (None = it answers)."""

    id: str
    started_at: float
    version: str = ""
    address: str = ""
    pid: int | None = None
    deployments: tuple[DeploymentState, ...] = ()
    leases: tuple[LeaseState, ...] = ()
    cut_off_s: float | None = None
    owns: tuple[str, ...] | None = None  # None = it shares none: each process decides for all
    quotas_refused: tuple[QuotaRefusedState, ...] = ()
    leases_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Heard:
    """A gateway's last word and how old it is."""

    state: GatewayState
    age_s: float
    is_fresh: bool = field(default=True)


def reason(code: str) -> str:
    """Returns what a refusal's code is called in a chart."""
    return next((name for name, codes in REASONS.items() if code in codes), OTHER)


def deployments(heard: Iterable[Heard]) -> dict[str, DeploymentState]:
    """Returns each deployment as all gateways together have it: of those that are heard, and of silent ones only what
    nobody else tells."""
    told: dict[str, list[DeploymentState]] = {}
    for one in sorted(heard, key=lambda one: not one.is_fresh):
        for state in one.state.deployments:
            if one.is_fresh or state.name not in told:
                told.setdefault(state.name, []).append(state)
    return {name: merged(states) for name, states in sorted(told.items())}


def merged(states: Sequence[DeploymentState]) -> DeploymentState:
    """Returns one deployment that several processes decide for, each for its own requests."""
    if len(states) == 1:
        return states[0]
    waiting = sorted(
        _by(states, lambda one: one.waiting, lambda one: (one.tenant, one.tier), _waiting_sum),
        key=lambda one: -one.oldest_wait_s,
    )
    ladders = [state.ladder for state in states if state.ladder is not None]
    return DeploymentState(
        states[0].name,
        tiers=_by(states, lambda one: one.tiers, lambda one: one.name, _tier_sum),
        waiting=tuple(waiting[:MOST_WAITING]),
        refused=_by(states, lambda one: one.refused, lambda one: (one.tier, one.why), _refused_sum),
        replicas=_by(states, lambda one: one.replicas, lambda one: one.id, _replica_sum),
        ladder=max(ladders, key=lambda one: (one.level, one.saturation or 0.0), default=None),
    )


def _by(
    states: Sequence[DeploymentState],
    parts: Callable[[DeploymentState], Iterable[T]],
    key: Callable[[T], K],
    add: Callable[[T, T], T],
) -> tuple[T, ...]:
    found: dict[K, T] = {}
    for state in states:
        for part in parts(state):
            name = key(part)
            found[name] = add(found[name], part) if name in found else part
    return tuple(found.values())


def _tier_sum(one: TierState, other: TierState) -> TierState:
    return replace(
        one,
        waiting=one.waiting + other.waiting,
        waiting_bytes=one.waiting_bytes + other.waiting_bytes,
        oldest_wait_s=_most(one.oldest_wait_s, other.oldest_wait_s),
        admitted=one.admitted + other.admitted,
        admitted_per_s=_sum((one.admitted_per_s, other.admitted_per_s)),
    )


def _waiting_sum(one: WaitingState, other: WaitingState) -> WaitingState:
    return replace(
        one,
        requests=one.requests + other.requests,
        tokens=one.tokens + other.tokens,
        oldest_wait_s=max(one.oldest_wait_s, other.oldest_wait_s),
    )


def _refused_sum(one: RefusedState, other: RefusedState) -> RefusedState:
    return replace(one, requests=one.requests + other.requests, per_s=_sum((one.per_s, other.per_s)))


def _replica_sum(one: ReplicaState, other: ReplicaState) -> ReplicaState:
    return replace(
        one,
        running=one.running + other.running,
        seats=max(one.seats, other.seats),
        reserved_tokens=one.reserved_tokens + other.reserved_tokens,
        leaving=one.leaving and other.leaving,
        resting=one.resting or other.resting,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _nothing(known: float | None) -> float | None:
    return None if known is None else 0.0


def _most(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
