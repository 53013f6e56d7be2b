"""The address at which the other gateway processes reach this one: a socket in a private folder for those of the same
parent, a port with a token for those on other machines.

Guarantees
    What comes in here is believed about headers that no client may set, so nothing of it listens on a public address.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable
from pathlib import Path

from controlplane.gateway.client import Client
from controlplane.gateway.connection import Connection, State
from controlplane.gateway.errors import GatewayError
from controlplane.gateway.passing import TOKEN

logger = logging.getLogger(__name__)

BACKLOG = 4096

Serve = Callable[[Client], None]


class Door:
    """What comes in at an internal address; `token` is asked for unless it is empty."""

    def __init__(self, serve: Serve, token: str) -> None:
        self._serve = serve
        self._token = token.encode()

    def __call__(self, client: Client) -> None:
        if self._token:
            shown = next((value for name, value in client.head.headers if name == TOKEN), b"")
            if not hmac.compare_digest(shown, self._token):
                GatewayError(403, "forbidden", "This address is for other gateways.", close=True).send(client, "-")
                return
        self._serve(client)


class Doors:
    """The internal addresses of one process. Their connections end with those of the server whose `state` they share.

    `accepted` is the port that was found for the address.
    """

    def __init__(self, serve: Serve, state: State) -> None:
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

    def _factory(self, token: str) -> Callable[[], Connection]:
        loop, door = asyncio.get_running_loop(), Door(self._serve, token)
        return lambda: Connection(self._state, door, loop)
