"""The routing snapshot that the controller publishes, which of two a gateway keeps, and the choice of a replica.

The gateway accepts `SNAPSHOT_SCHEMA` and the schema before it. Everything the gateway needs to serve is in here:
it has no database.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from controlplane.domain.admission.policy import TenantShare
from controlplane.domain.admission.tiers import Tier
from controlplane.domain.degradation import Ladder
from controlplane.domain.quotas.quota import Price, Quota
from controlplane.domain.sequence_kv import SequenceKv

SNAPSHOT_SCHEMA = 1
SNAPSHOT_MAX_AGE_S = 24 * 3600.0
SNAPSHOT_EVERY_S = 5.0
# A lower version is taken after all when ours has not been published again for this long: the controller's numbering
# has begun anew (a database was restored).
SNAPSHOT_FORGOTTEN_AFTER_S = 60.0

COOL_DOWN_FIRST_S = 1.0
COOL_DOWN_MOST_S = 30.0


@dataclass(frozen=True, slots=True)
class RoutedReplica:
    """A replica that is `ready`. `key` is sent to it as bearer token; `model` is the name the engine knows.

    `kv_capacity_tokens` is what its engine said of its KV cache, in tokens as all its layers keep them, `sequence_kv`
    what a sequence holds of it, `max_num_seqs` how many requests it runs at once, `max_model_len` how many tokens each
    may have, prompt and answer; None = not known. `takes_priority`: it orders what waits in it by each request's
    `priority`.
    """

    id: str
    url: str
    key: str
    model: str
    node: str = ""
    kv_capacity_tokens: int | None = None
    max_num_seqs: int | None = None
    engine_version: str = ""
    takes_priority: bool = False
    max_model_len: int | None = None
    sequence_kv: SequenceKv | None = None  # None = each token is held alike
    takes_salt: bool = False  # an endpoint of somebody else's of which is known that it is vLLM


@dataclass(frozen=True, slots=True)
class RoutedDeployment:
    """A deployment with its ready replicas (possibly none: then the gateway answers 503 `no_replica`).

    `tiers`: all of them, or none where they are as built in; `shares` by tenant's name.
    """

    id: str
    name: str
    engine: str
    simulated: bool
    replicas: tuple[RoutedReplica, ...] = ()
    stopped: bool = False  # nobody wants it to run: asking again does not help
    ttft_target_s: float | None = None
    tpot_target_s: float | None = None
    tiers: tuple[Tier, ...] = ()
    shares: Mapping[str, TenantShare] = field(default_factory=dict)
    ladder: Ladder | None = None
    price: Price | None = None
    frozen: bool = False  # nothing about it changes by itself
    ready_expected_at: float | None = None  # UTC seconds: of the first replica that starts, where none is ready

    def ready_in_s(self, now: float) -> int | None:
        """Returns in how many seconds a replica is expected; None where nobody knows, or it is late."""
        if self.ready_expected_at is None or self.ready_expected_at <= now:
            return None
        return math.ceil(self.ready_expected_at - now)


@dataclass(frozen=True, slots=True)
class RoutedKey:
    """What an API key may do. Keys are found by the hex SHA-256 of their text. `deployments` None = all.

    `tier` is the one that its requests belong to.
    """

    id: str
    tenant_id: str
    tenant: str
    deployments: tuple[str, ...] | None = None
    expires_at: float | None = None
    tier: str = "standard"


@dataclass(frozen=True, slots=True)
class RoutingSnapshot:
    """All that one gateway routes by. `models` maps the public model name to a deployment's name."""

    schema: int
    version: int
    published_at: float
    deployments: Mapping[str, RoutedDeployment] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, RoutedKey] = field(default_factory=dict)
    quotas: tuple[Quota, ...] = ()


def is_accepted_schema(schema: int) -> bool:
    """Returns whether a gateway of this version can read a snapshot of that schema: this one and the one before."""
    return SNAPSHOT_SCHEMA - 1 <= schema <= SNAPSHOT_SCHEMA


def is_newer(candidate: RoutingSnapshot, current: RoutingSnapshot | None) -> bool:
    """Returns whether a gateway that has `current` takes `candidate`: versions grow, and the same version published
    again counts as a sign of life. An old leader that still writes is thereby ignored."""
    if current is None or candidate.version > current.version:
        return True
    if candidate.version == current.version:
        return candidate.published_at > current.published_at
    return candidate.published_at > current.published_at + SNAPSHOT_FORGOTTEN_AFTER_S


def is_too_old(snapshot: RoutingSnapshot, now: float) -> bool:
    """Returns whether a snapshot must not be served from any more, so that a revoked key ends some day."""
    return now - snapshot.published_at > SNAPSHOT_MAX_AGE_S


def is_far_away(snapshot: RoutingSnapshot, now: float) -> bool:
    """Returns whether a kept snapshot is not to be begun with: too old, or from a clock that ran far ahead (whatever
    is published with the right time would look older than it, and would never be taken)."""
    return abs(now - snapshot.published_at) > SNAPSHOT_MAX_AGE_S


class CoolDowns:
    """Replicas that refused a connection and are left alone for a while: 1 s, doubling up to 30 s.

    One owner; changes in place. A replica that takes a connection again is forgotten.
    """

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[str, tuple[int, float]] = {}  # replica id -> (refusals in a row, cool until)

    def refused(self, replica_id: str, now: float) -> float:
        """Notes a refusal at `now` and returns for how many seconds the replica is left alone."""
        count, until = self._refused.get(replica_id, (0, 0.0))
        if now < until:
            return until - now  # requests that were under way together count as one refusal
        wait_s = min(COOL_DOWN_MOST_S, COOL_DOWN_FIRST_S * 2.0 ** min(count, 10))
        self._refused[replica_id] = (count + 1, now + wait_s)
        return wait_s

    def accepted(self, replica_id: str) -> None:
        """Notes that the replica took a connection."""
        self._refused.pop(replica_id, None)

    def cooling(self, now: float) -> Collection[str]:
        """Returns the replicas to be left alone at `now`."""
        if not self._refused:
            return ()
        return {replica_id for replica_id, (_, until) in self._refused.items() if now < until}

    def keep_only(self, replica_ids: Collection[str]) -> None:
        """Forgets every replica that is not in `replica_ids`."""
        for replica_id in [one for one in self._refused if one not in replica_ids]:
            del self._refused[replica_id]


def choose_replica(
    replicas: tuple[RoutedReplica, ...], in_flight: Mapping[str, int], excluded: Collection[str] = (), turn: int = 0
) -> RoutedReplica | None:
    """Returns the replica with the fewest requests in flight, or None when none is left.

    `in_flight` maps replica id to requests. Among equals the choice goes round by `turn`, so that an idle fleet
    warms evenly.
    """
    best: RoutedReplica | None = None
    least = 0
    count = len(replicas)
    for offset in range(count):
        replica = replicas[(turn + offset) % count]
        if replica.id in excluded:
            continue
        load = in_flight.get(replica.id, 0)
        if best is None or load < least:
            best, least = replica, load
    return best
