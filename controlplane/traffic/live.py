"""What the gateways tell of themselves now, for pages and REST."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain import gateway_sums
from controlplane.domain.errors import RefusedError
from controlplane.domain.gateway_state import DeploymentState, Heard
from controlplane.lib import gateway_state, valkey
from controlplane.traffic import owners


def gateways() -> list[Heard]:
    """Returns each gateway that spoke lately with its last word; raises one of `valkey.ERRORS` when Valkey is away."""
    client = valkey.connect()
    try:
        return gateway_state.read(client)
    finally:
        client.close()


def deployment(heard: Sequence[Heard], name: str) -> DeploymentState:
    """Returns a deployment as all gateways together have it; refuses where none tells of it."""
    found = gateway_sums.deployments(heard).get(name)
    if found is None:
        owners.deployment(name)
        hint = "A gateway tells of it once its snapshot of the routes has it; see whether a gateway runs."
        raise RefusedError("nobody_tells", f"No gateway tells of {name}.", kind="not_found", hint=hint)
    return found


def seats(name: str) -> int | None:
    """Returns the seats that a deployment's replicas have now; None = nobody tells (Valkey may be away)."""
    try:
        found = gateway_sums.deployments(gateways()).get(name)
    except valkey.ERRORS:
        return None
    return found.seats if found is not None else None
