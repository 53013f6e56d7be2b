"""When everything is ready: what the control plane says of the deployments, and one real answer through the gateway."""

from __future__ import annotations

import http.client
import json
import urllib.parse
from dataclasses import dataclass
from typing import Any

from controlplane.embedded import services
from controlplane.embedded.settings import LaunchSettings

SERVING = ("ready", "degraded")
ON_THE_WAY = ("starting", "waiting", "draining", "failed")
# What may change by itself soon after a start, or never: no accelerator is free (until a node registers); the engine
# has ended (until its back-off is over: after a power failure that is every engine).
UNCERTAIN = ("waiting", "failed")


@dataclass(frozen=True, slots=True)
class Progress:
    """What is still being waited for; nothing when `waiting` is empty. `problem` names what will not become ready."""

    waiting: str = ""
    problem: str = ""
    lost: frozenset[str] = frozenset()  # deployments that will not become ready
    serving: frozenset[str] = frozenset()


def progress(first_run: dict[str, Any], settings: LaunchSettings, *, nodes_are_known: bool) -> Progress:
    """Returns how far the deployments are. Without a valid token of the first run it waits for the console alone."""
    token = first_run.get("api_token")
    answer = (
        services.get(settings.console_url, "/api/v1/deployments/", {"Authorization": f"Bearer {token}"})
        if token else None
    )  # fmt: skip
    if token and answer is None:
        return Progress(waiting="the console")
    if answer is None or answer[0] != 200:
        return Progress()
    return judge(statuses(answer[1]), nodes_are_known=nodes_are_known)


def statuses(body: bytes) -> dict[str, str]:
    """Returns deployment → status from an answer of the REST interface."""
    try:
        rows = json.loads(body)
    except ValueError:
        return {}
    if isinstance(rows, dict):
        rows = rows.get("results", [])
    return {str(row["name"]): str(row.get("status", "")) for row in rows if isinstance(row, dict) and "name" in row}


def judge(by_name: dict[str, str], *, nodes_are_known: bool = False) -> Progress:
    """Returns what is on the way and what will not become ready.

    Once every node has had time to register and to start an engine again, what has no place or has failed is no
    longer waited for.
    """
    given_up = UNCERTAIN if nodes_are_known else ()
    lost = {name: status for name, status in by_name.items() if status in given_up}
    on_the_way = {name: status for name, status in by_name.items() if status in ON_THE_WAY and status not in given_up}
    waiting = ", ".join(f"{name} ({status})" for name, status in on_the_way.items())
    words = ", ".join(f"{name} ({status})" for name, status in lost.items())
    return Progress(
        waiting=waiting,
        problem=f"Not ready: {words}. The page of the deployment in the console says why." if lost else "",
        lost=frozenset(lost),
        serving=frozenset(name for name, status in by_name.items() if status in SERVING),
    )


def answers(first_run: dict[str, Any], settings: LaunchSettings) -> bool:
    """Returns whether the first deployment answers, or can't be asked with the key of the first run any more."""
    return not first_run.get("gateway_key") or first_answer(first_run, settings) in (200, 401, 403, 404)


def first_answer(first_run: dict[str, Any], settings: LaunchSettings) -> int | None:
    """Asks the first deployment for one token through the gateway and returns the status, None for no answer."""
    parts = urllib.parse.urlsplit(settings.gateway_url)
    body = {"model": first_run["model"], "max_tokens": 1, "messages": [{"role": "user", "content": "Say yes."}]}
    headers = {"Authorization": f"Bearer {first_run['gateway_key']}", "Content-Type": "application/json"}
    connection = services.connection(parts, 30)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
