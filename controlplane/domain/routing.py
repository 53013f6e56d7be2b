"""The routing snapshot that the controller publishes, and the choice of a replica from it.

The gateway accepts `SNAPSHOT_SCHEMA` and the schema before it. Everything the gateway needs to serve is in here:
it has no database.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

SNAPSHOT_SCHEMA = 1
SNAPSHOT_MAX_AGE_S = 24 * 3600.0
SNAPSHOT_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class RoutedReplica:
    """A replica that is `ready`. `key` is sent to it as bearer token; `model` is the name the engine knows."""

    id: str
    url: str
    key: str
    model: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class RoutedDeployment:
    """A deployment with its ready replicas (possibly none: then the gateway answers 503 `no_replica`)."""

    id: str
    name: str
    engine: str
    simulated: bool
    replicas: tuple[RoutedReplica, ...] = ()


@dataclass(frozen=True, slots=True)
class RoutedKey:
    """What an API key may do. Keys are found by the hex SHA-256 of their text. `deployments` None = all."""

    id: str
    tenant_id: str
    tenant: str
    deployments: tuple[str, ...] | None = None
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class RoutingSnapshot:
    """All that one gateway routes by. `models` maps the public model name to a deployment's name."""

    schema: int
    version: int
    published_at: float
    deployments: Mapping[str, RoutedDeployment] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, RoutedKey] = field(default_factory=dict)


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
