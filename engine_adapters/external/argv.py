"""What stands in place of a command line for an endpoint that is not ours: the headers of a request to it."""

from __future__ import annotations

from controlplane.domain.desired import EngineSpec
from controlplane.domain.errors import RefusedError
from engine_adapters.base import Command, LaunchPlace


def command(spec: EngineSpec, place: LaunchPlace) -> Command:
    """Refuses: an external endpoint is never started or stopped."""
    raise RefusedError(
        "not_managed",
        f"{spec.served_model_name} is served by an endpoint that Headworks does not run.",
        hint="Start and stop it where it is run.",
    )


def request_headers(key: str) -> dict[str, str]:
    """Returns the headers of a request to the endpoint; no authorization where it has no key."""
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    if key:
        headers["authorization"] = f"Bearer {key}"
    return headers
