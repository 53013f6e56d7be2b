"""Names of everything that Headworks keeps in Valkey. One table, so that nobody invents a second spelling.

All names start with the namespace (`HEADWORKS_NAMESPACE`, default `hw`), so several installations or tests may share
a server.
"""

from __future__ import annotations

import os

NAMESPACE = os.environ.get("HEADWORKS_NAMESPACE", "hw")


def desired(node: str) -> str:
    """String: the NodeDesired document of a node."""
    return f"{NAMESPACE}:desired:{node}"


def desired_nodes() -> str:
    """Set: the nodes that have a NodeDesired document, to remove those of nodes that are no more."""
    return f"{NAMESPACE}:desired-nodes"


def desired_changed(node: str) -> str:
    """Pub/sub channel: the version of a new desired document."""
    return f"{NAMESPACE}:desired-changed:{node}"


def observations() -> str:
    """Stream: NodeReport documents in field `report` (bounded; reports are whole, so old ones may go)."""
    return f"{NAMESPACE}:observations"


def snapshot() -> str:
    """String: the RoutingSnapshot."""
    return f"{NAMESPACE}:snapshot"


def snapshot_version() -> str:
    """String: the version of the RoutingSnapshot, so that an older one never replaces it."""
    return f"{NAMESPACE}:snapshot-version"


def snapshot_at() -> str:
    """String: when the RoutingSnapshot was last written, in seconds since the epoch."""
    return f"{NAMESPACE}:snapshot-at"


def snapshot_changed() -> str:
    """Pub/sub channel: the version of a new routing snapshot."""
    return f"{NAMESPACE}:snapshot-changed"


def announced(what: str) -> str:
    """Pub/sub channel: small JSON messages to every console process, `ticks` or `changes`."""
    return f"{NAMESPACE}:announced:{what}"


def gateways() -> str:
    """Sorted set: gateway id -> time of its last sign of life."""
    return f"{NAMESPACE}:gateways"


def newest(subject: str) -> str:
    """Hash: source -> newest SamplePart of a subject; expires when nobody writes."""
    return f"{NAMESPACE}:newest:{subject}"


def ring(subject: str) -> str:
    """Stream: merged samples of the last 15 minutes, one a second, in field `sample`."""
    return f"{NAMESPACE}:ring:{subject}"


def rollup_10s(subject: str) -> str:
    """Stream: 10-second roll-ups of the last day, in field `rollup`."""
    return f"{NAMESPACE}:rollup10:{subject}"


def subjects() -> str:
    """Sorted set: subject -> time of its last sample."""
    return f"{NAMESPACE}:subjects"


def telemetry_lease(name: str) -> str:
    """String with a short life: which process merges samples, sends ticks, …"""
    return f"{NAMESPACE}:lease:{name}"


def usage() -> str:
    """Stream: usage batches of the gateways in field `usage`."""
    return f"{NAMESPACE}:usage"


def engine_log(replica_id: str) -> str:
    """Stream: the newest lines of a replica's engine log in fields `line` and `n` (bounded, for the live tail); an
    entry's `place` tells where the log goes on behind it."""
    return f"{NAMESPACE}:log:{replica_id}"


def quota(meter: str) -> str:
    """Hash, one a calendar window (`:<number>` follows): what of a limit is out, and what each gateway holds of it."""
    return f"{NAMESPACE}:quota:{meter}"


def quota_gateways() -> str:
    """Sorted set: gateway -> milliseconds of its last word on quotas."""
    return f"{NAMESPACE}:quota-gateways"


def quota_use_known() -> str:
    """String: since when (UTC seconds) what was used of days and months is told from the rows; missing = Valkey is new,
    or has lost its data."""
    return f"{NAMESPACE}:quota-use-known"


def ladder_changes() -> str:
    """Stream: LevelChange documents of the gateways in field `change`; gone when they stand in the journal."""
    return f"{NAMESPACE}:ladder-changes"


def gateway_state(gateway_id: str) -> str:
    """String with a short life: the GatewayState of one gateway process."""
    return f"{NAMESPACE}:gateway-state:{gateway_id}"


def knee(replica_id: str) -> str:
    """String: how many seats bring tokens in a replica, as the gateway process that owns its deployment has found."""
    return f"{NAMESPACE}:knee:{replica_id}"


def gateway_missed(gateway_id: str) -> str:
    """String: this gateway process has gone silent, and the journal says so."""
    return f"{NAMESPACE}:gateway-missed:{gateway_id}"


def gateway_members() -> str:
    """Sorted set: gateway process -> milliseconds of its last beat, by Valkey's clock."""
    return f"{NAMESPACE}:gateway-members"


def gateway_member_words() -> str:
    """Hash: gateway process -> the Member document of its last beat."""
    return f"{NAMESPACE}:gateway-member-words"
