"""The server's side of the gateway: a `Client` for each request."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

from controlplane.gateway.client import EXTENSION, UNREAD_MOST_BYTES, Client
from controlplane.lib import http_server

ALL_UNREAD_MOST_BYTES = 128 * 1024 * 1024  # that all clients together leave unread, before none may leave more

_NOT_HTTP = (
    b'{"error":{"message":"This is not a request in HTTP/1.1.","type":"invalid_request_error",'
    b'"param":null,"code":"invalid_request"}}'
)


class Protocol(http_server.Protocol):
    """A connection that tells the clients of its requests what happens to it."""

    not_http = (b"application/json", _NOT_HTTP)

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._clients: list[Client] = []  # more than one only when requests are pipelined

    def on_headers_complete(self) -> None:
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # a request has begun
            client = Client(self.cycle, self.transport, self._clients.remove)
            self._clients.append(client)
            self.scope["extensions"] = {EXTENSION: client}  # type: ignore[dict-item]  # an object, as it may be

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        clients, self._clients = self._clients, []
        for client in clients:
            client.left()

    def resume_writing(self) -> None:
        super().resume_writing()
        for client in list(self._clients):
            client.ready()


class Server(http_server.Server):
    """A server that says before it closes its doors that it is about to."""

    def __init__(self, config: uvicorn.Config, before_shutdown: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self._before_shutdown = before_shutdown

    def sweep(self, now: float) -> None:
        super().sweep(now)
        Client.unread_most_bytes = UNREAD_MOST_BYTES if self.unread_bytes < ALL_UNREAD_MOST_BYTES else 0

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._before_shutdown()
        await super().shutdown(sockets)
