"""What a gateway process tells of itself once a second: queues, who waits, what was let in and refused, seats, slices.

Missing is None, never 0. Fields that a newer gateway adds are ignored, those that an older one lacks are empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.domain.degradation import Step

MOST_WAITING = 50  # lines of who waits that are told; the longest waits first

# what a refusal is called in a chart -> its codes; every other code is "other"
REASONS: Mapping[str, frozenset[str]] = {
    "room": frozenset({"queue_full", "queue_bytes", "engine_full"}),
    "wait": frozenset({"too_slow", "expired"}),
    "quota": frozenset({"quota", "rate_limit_exceeded", "insufficient_quota", "quota_exceeded"}),
    "shed": frozenset({"shed"}),
}
OTHER = "other"


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
    """A replica as admission sees it. `capacity_tokens` None = its engine has not told. `kv_usage` is the part of its
    cache that its engine says is in use, `preempted` how many requests it threw out since the gateway looks."""

    id: str
    running: int
    seats: int
    reserved_tokens: int
    capacity_tokens: int | None = None
    leaving: bool = False
    resting: bool = False  # nothing new goes there for a while
    kv_usage: float | None = None
    preempted: int | None = None


@dataclass(frozen=True, slots=True)
class TierLevel:
    """Where one tier stands on its deployment's ladder."""

    tier: str
    level: int
    saturation: float


@dataclass(frozen=True, slots=True)
class LadderState:
    """Where a deployment stands on its ladder: its lowest tier has climbed the first `level` steps. `saturation`, the
    highest of the tiers: 1.0 = one of the limits is reached; None = not known."""

    level: int = 0
    saturation: float | None = None
    steps: tuple[Step, ...] = ()
    tiers: tuple[TierLevel, ...] = ()

    def done_to(self, number: int) -> tuple[str, ...]:
        """Returns the tiers to which step `number` (from 1) is done now."""
        if not 1 <= number <= len(self.steps):
            return ()
        step = self.steps[number - 1]
        return tuple(one.tier for one in self.tiers if one.level >= number and step.concerns(one.tier))


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
        """Requests that wait, in all tiers."""
        return sum(tier.waiting for tier in self.tiers)

    @property
    def running(self) -> int:
        """Requests that hold a seat, in all replicas."""
        return sum(one.running for one in self.replicas)

    @property
    def seats(self) -> int:
        """Seats of the replicas that take new requests."""
        return sum(one.seats for one in self.replicas if not one.leaving)

    @property
    def reserved_tokens(self) -> int:
        """KV tokens that are reserved, in all replicas."""
        return sum(one.reserved_tokens for one in self.replicas)

    @property
    def capacity_tokens(self) -> int | None:
        """The sum over the replicas that serve; None where one does not tell."""
        found = [one.capacity_tokens for one in self.replicas if not one.leaving]
        known = [one for one in found if one is not None]
        return sum(known) if known and len(known) == len(found) else None

    @property
    def admitted_per_s(self) -> float | None:
        """Requests a second that got a seat; None while it is not known."""
        return sum_of_known(tier.admitted_per_s for tier in self.tiers)

    @property
    def refused_per_s(self) -> float | None:
        """0 where nothing was ever refused: that is known as well as what was admitted."""
        return sum_of_known(one.per_s for one in self.refused) if self.refused else _nothing(self.admitted_per_s)

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
    """Requests that a limit of a quota had no room for, since the process started and over the last ten seconds."""

    tenant: str
    quota: str
    measure: str
    requests: int
    per_s: float | None = None


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


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Returns the sum of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _nothing(known: float | None) -> float | None:
    return None if known is None else 0.0
