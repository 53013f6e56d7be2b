"""What the gateway adds to uvicorn: a `Client` for each request, limits on request heads, and signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controlplane.gateway.client import EXTENSION, Client

HEAD_LIMIT_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which also tells the clients of its requests what happens to the connection.

    The head of a request may take `HEAD_LIMIT_BYTES` and `HEAD_TIMEOUT_S`: neither httptools nor uvicorn has a limit.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._clients: list[Client] = []  # more than one only when requests are pipelined
        self._head_bytes = 0
        self._head_since: float | None = self.loop.time()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        scope: Any = self.scope  # None before the first request
        if scope is not None and "method" in scope:  # no head is half here
            self._head_bytes, self._head_since = 0, None
            return
        self._head_bytes += len(data)
        self._head_since = self._head_since or self.loop.time()
        if self._head_bytes > HEAD_LIMIT_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        client = Client(self.cycle, self.transport, self._clients.remove)
        self._clients.append(client)
        self.scope["extensions"] = {EXTENSION: client}  # type: ignore[dict-item]  # an object, as an extension may be

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        clients, self._clients = self._clients, []
        for client in clients:
            client.left()

    def resume_writing(self) -> None:
        super().resume_writing()
        for client in list(self._clients):
            client.ready()

    def sweep(self, now: float) -> None:
        """Closes the connection when the head of a request takes too long; `now` is of the loop's clock."""
        if self._head_since is not None and now - self._head_since > HEAD_TIMEOUT_S:
            self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server with signals that end it with exit status 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    def sweep(self, now: float) -> None:
        """Keeps the time limits of all connections; called once a second."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.sweep(now)
