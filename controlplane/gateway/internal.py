"""The address at which the other gateway processes reach this one: a socket in a private folder for those of the same
parent, a port with a token for those on other machines.

Guarantees
    What comes in here is believed about headers that no client may set, so nothing of it listens on a public address.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn
from uvicorn.server import ServerState

from controlplane.gateway.client import EXTENSION, Client, Receive, Scope, Send
from controlplane.gateway.errors import GatewayError
from controlplane.gateway.passing import TOKEN
from controlplane.gateway.server import Protocol

logger = logging.getLogger(__name__)

BACKLOG = 4096
KEEP_ALIVE_S = 75

Serve = Callable[[Scope, Receive], Awaitable[None]]


class Door:
    """The ASGI application at an internal address; `token` is asked for unless it is empty."""

    def __init__(self, serve: Serve, token: str) -> None:
        self._serve = serve
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._token:
            shown = next((value for name, value in scope["headers"] if name == TOKEN), b"")
            if not hmac.compare_digest(shown, self._token):
                client: Client = scope["extensions"].pop(EXTENSION)
                GatewayError(403, "forbidden", "This address is for other gateways.", close=True).send(client, "-")
                return
        await self._serve(scope, receive)


class Doors:
    """The internal addresses of one process. Their connections end with those of the server whose `state` they share.

    `accepted` is the port that was found for the address.
    """

    def __init__(self, serve: Serve, state: ServerState) -> None:
        self._serve = serve
        self._state = state
        self._servers: list[asyncio.Server] = []
        self._path: Path | None = None

    async def open_socket(self, path: Path) -> None:
        """Listens on a socket; raises OSError."""
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(self._factory(""), str(path), backlog=BACKLOG)
        self._path = path
        self._servers.append(server)

    async def open_port(self, host: str, port: int, token: str) -> int:
        """Listens at an address and returns the port; raises OSError."""
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._factory(token), host, port, backlog=BACKLOG)
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    def close(self) -> None:
        """Takes nothing new; running requests go on."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
        for server in self._servers:
            server.close()
        self._servers.clear()

    def _factory(self, token: str) -> Callable[[], asyncio.Protocol]:
        config = uvicorn.Config(
            Door(self._serve, token),
            http=Protocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        config.load()
        return lambda: Protocol(config=config, server_state=self._state, app_state={})
