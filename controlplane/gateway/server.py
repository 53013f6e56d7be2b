"""The server's side of the gateway: a `Client` for each request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from controlplane.gateway.client import EXTENSION, Client
from controlplane.lib import http_server

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
        self._runner: asyncio.Task[None] | None = None
        self._waiting: asyncio.Future[None] | None = None  # the runner, for another request
        self._next: tuple[RequestResponseCycle, Any] | None = None

    def on_headers_complete(self) -> None:
        before = self.cycle
        super().on_headers_complete()
        if self.cycle is not before:  # a request has begun
            client = Client(self.cycle, self.transport, self._clients.remove)
            self._clients.append(client)
            self.scope["extensions"] = {EXTENSION: client}  # type: ignore[dict-item]  # an object, as it may be

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        """The requests of a connection run in one task, one after another: making a task costs as much as a look-up of
        the key, a tier and two quotas. They share its context, so nothing here may keep anything in context variables.
        """
        if self._waiting is not None and not self._waiting.done():
            assert self._runner is not None
            self._next = cycle, app
            self.tasks.add(self._runner)
            self._waiting.set_result(None)
        elif self._runner is None:
            self._next = cycle, app
            self._runner = self.loop.create_task(self._run())
            self._runner.add_done_callback(self.tasks.discard)
            self.tasks.add(self._runner)
        else:  # the one before has been answered and is not quite over
            super()._start_asgi_task(cycle, app)

    async def _run(self) -> None:
        while self._next is not None:
            (cycle, app), self._next = self._next, None
            await cycle.run_asgi(app)
            if self._runner is not None:
                self.tasks.discard(self._runner)
            if self.transport.is_closing():
                break
            self._waiting = self.loop.create_future()
            await self._waiting
            self._waiting = None
        self._runner = None

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)  # with nothing to do it ends
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._before_shutdown()
        await super().shutdown(sockets)
