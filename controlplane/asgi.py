"""The console's ASGI application: pages and REST over HTTP, live data over one websocket, the pump beside them."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
_pages = get_asgi_application()  # loads the applications, which the imports below need

from channels.db import database_sync_to_async  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.db import DatabaseError  # noqa: E402
from django.urls import path, re_path  # noqa: E402

from controlplane.deployments.models import Deployment, Replica  # noqa: E402
from controlplane.domain.samples import SUBJECT_KINDS  # noqa: E402
from controlplane.fleet.models import Node  # noqa: E402
from controlplane.lib import valkey  # noqa: E402
from controlplane.telemetry import hub  # noqa: E402
from controlplane.telemetry.consumers import NoSuchSocket, TelemetryConsumer  # noqa: E402
from controlplane.telemetry.frames import Split  # noqa: E402
from controlplane.telemetry.pump import Pump  # noqa: E402

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
CLOSE_TRY_LATER = 1013


def _known_subjects(asked: Split) -> set[str]:
    """Which subjects exist: samples as they were asked for, logs by replica id."""
    names: dict[str, set[str]] = {kind: set() for kind in SUBJECT_KINDS}
    for subject in asked.samples:
        kind, _, name = subject.partition(":")
        names[kind].add(name)
    deployments = _existing(Deployment.objects, "name", names["deployment"] | names["gateway"])
    found = {f"{kind}:{n}" for kind in ("deployment", "gateway") for n in deployments}
    found |= {f"node:{n}" for n in _existing(Node.objects, "name", names["node"])}
    replicas = _existing(Replica.objects, "id", names["replica"] | set(asked.logs))
    return found | {f"replica:{n}" for n in replicas} | set(replicas)


def _existing(manager: Any, field: str, names: set[str]) -> list[str]:
    return list(manager.filter(**{f"{field}__in": names}).values_list(field, flat=True)) if names else []


async def sockets(scope: Message, receive: Receive, send: Send) -> None:
    """Serves websockets; when the database or Valkey is away a client is told to come back, without a traceback."""
    try:
        await _routes(scope, receive, send)
    except (DatabaseError, *valkey.ERRORS) as error:
        logger.warning("a websocket was ended: %s", error)
        await send({"type": "websocket.close", "code": CLOSE_TRY_LATER})


async def lifespan(scope: Message, receive: Receive, send: Send) -> None:
    """Starts the pump with the server and ends it, and the hub, with it."""
    pump = Pump()
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            pump.start()
            # what is loaded now stays: else a full collection looks at it again, 90 ms in the middle of an answer
            gc.collect()
            gc.freeze()
            await send({"type": "lifespan.startup.complete"})
        else:
            await pump.stop()
            await hub.current().close()
            await send({"type": "lifespan.shutdown.complete"})
            return


known_subjects = database_sync_to_async(_known_subjects)
_routes = URLRouter(
    [path("ws/telemetry/", TelemetryConsumer.as_asgi(known=known_subjects)), re_path("", NoSuchSocket.as_asgi())]
)
application = ProtocolTypeRouter({"http": _pages, "websocket": sockets, "lifespan": lifespan})
