"""The processes of the control plane and of this node, in the order in which they start."""

from __future__ import annotations

import http.client
import ssl
import urllib.parse
from collections.abc import Mapping

from controlplane.embedded.children import Service
from controlplane.embedded.layout import Layout
from controlplane.embedded.settings import LaunchSettings

GATEWAY = "gateway"
NODE = "node"
FLEET = "fleet"
TRAFFIC = "demo"
GATEWAY_PATIENCE_S = 30.0


def data_plane(layout: Layout, settings: LaunchSettings, environ: Mapping[str, str]) -> list[Service]:
    """Returns the processes that need no database: they start while it is prepared, and engines that went on running
    are reached again at once."""
    python = str(layout.control_python)
    return [
        Service(
            GATEWAY, (python, "-m", "controlplane.gateway"), environ,
            ready=lambda: answers(settings.gateway_url, "/healthz"), stop_patience_s=GATEWAY_PATIENCE_S,
        ),
        Service(NODE, (python, "-m", "workers.node"), environ),
        Service("collector", (python, "-m", "workers.node.collector"), environ),
    ]  # fmt: skip


def control_plane(layout: Layout, settings: LaunchSettings, environ: Mapping[str, str]) -> list[Service]:
    """Returns the processes that need a database. The controller comes first: the engine it orders takes longest."""
    python = str(layout.control_python)
    celery = (python, "-m", "celery", "-A", "controlplane.celery")
    worker = (*celery, "worker", "-Q", "control", "-P", "threads", "-c", "2", "-n", "control@%h", "--without-gossip",
              "--without-mingle", "-l", "INFO")  # fmt: skip
    return [
        Service("controller", (python, "manage.py", "controller"), environ),
        Service(
            "console", (python, "-m", "controlplane.serve"),
            {**environ, "HEADWORKS_DATABASE_POOL": environ.get("HEADWORKS_DATABASE_POOL", "1")},
            ready=lambda: answers(settings.console_url, "/healthz"),
        ),
        Service("worker", worker, environ),
        Service("beat", (*celery, "beat", "-l", "INFO", "--pidfile="), environ),
    ]  # fmt: skip


def fleet_services(layout: Layout, environ: Mapping[str, str]) -> list[Service]:
    """Returns the simulated nodes of `make demo` and the collector that serves them."""
    python = str(layout.control_python)
    nodes = str(layout.home / "node")
    return [
        Service("fleet", (python, "-m", "workers.node.simulated_fleet"), environ),
        Service(
            "fleet-collector", (python, "-m", "workers.node.collector", "--all-nodes-under", nodes), environ
        ),
    ]  # fmt: skip


def demo_traffic(layout: Layout, environ: Mapping[str, str]) -> Service:
    """Returns the process that makes the demonstration's deployments and sends requests to them."""
    command = (str(layout.control_python), "-m", "engine_adapters.simulated.demo", "--first-run", str(layout.first_run))
    return Service(TRAFFIC, command, environ)


def answers(base_url: str, path: str) -> bool:
    """Returns whether a server on this machine answers a GET below 500."""
    status = get_status(base_url, path)
    return status is not None and status < 500


def get_status(base_url: str, path: str, headers: Mapping[str, str] | None = None) -> int | None:
    """Returns the status of a GET, None when nothing answers."""
    answer = get(base_url, path, headers)
    return answer[0] if answer else None


def get(base_url: str, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, bytes] | None:
    """Returns status and body of a GET to a server on this machine, None when nothing answers."""
    client = connection(urllib.parse.urlsplit(base_url), 3)
    try:
        client.request("GET", path, headers=dict(headers or {}))
        answer = client.getresponse()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        client.close()


def connection(parts: urllib.parse.SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    """Returns a connection to one of our own servers on this machine."""
    host, port = parts.hostname or "127.0.0.1", parts.port
    if parts.scheme != "https":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    # our own process on our own address: its certificate is for the name that users call
    context = ssl._create_unverified_context()  # noqa: S323
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
