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


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which also tells the clients of its requests what happens to the connection."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._clients: list[Client] = []  # more than one only when requests are pipelined

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


class Server(uvicorn.Server):
    """uvicorn's server with signals that end it with exit status 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
