"""The gateway's HTTP server: it listens, keeps the time limits of its connections, and ends in good order.

Guarantees
    After SIGTERM or SIGINT nothing new is taken; what runs is answered, for up to `drain_s`, and then stopped with a
    last word. A second signal ends the waiting, unless it comes together with the first: whoever ends a group of
    processes, or a unit of systemd, tells each of them, and so does their parent.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from controlplane.gateway.client import UNREAD_MOST_BYTES, Client
from controlplane.gateway.connection import Connection, State

logger = logging.getLogger(__name__)

BACKLOG = 4096
ALL_UNREAD_MOST_BYTES = 128 * 1024 * 1024  # that all clients together leave unread, before none may leave more
LOOK_S = 0.1
SWEEP_EVERY = 10  # looks
LAST_WORDS_S = 1.0
SAME_WISH_S = 1.0  # between two signals that say one thing
CANT_LISTEN = 3  # exit status


@dataclass(frozen=True, slots=True)
class Life:
    """What is done before the server listens, before it closes its doors, and when nothing runs any more."""

    start: Callable[[], Awaitable[None]]
    leave: Callable[[], Awaitable[None]]
    stop: Callable[[], Awaitable[None]]


class Server:
    """Serves HTTP/1.1 at an address, or on sockets that listen already; `tls` is (certificate, key) or None."""

    def __init__(
        self,
        serve: Callable[[Client], None],
        life: Life,
        *,
        address: tuple[str, int],
        tls: tuple[str, str] | None,
        drain_s: float,
    ) -> None:
        self._serve = serve
        self._life = life
        self._address = address
        self._tls = tls
        self._drain_s = drain_s
        self._is_hurried = False
        self._told_at = 0.0
        self.state = State()
        self.servers: list[asyncio.Server] = []
        self.started = False
        self.should_exit = False
        self.unread_bytes = 0  # by the last look

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until it is told to end by a signal or by `should_exit`."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._told_to_end)
        await self._life.start()
        try:
            await self._listen(loop, sockets)
        except OSError as error:
            logger.error("the gateway can't listen at %s:%d: %s", *self._address, error)
            await self._life.stop()
            sys.exit(CANT_LISTEN)
        self.started = True
        looks = 0
        while not self.should_exit:
            if looks % SWEEP_EVERY == 0:
                self.sweep(loop.time())
            looks += 1
            await asyncio.sleep(LOOK_S)
        await self._end(sockets or [])

    def sweep(self, now: float) -> None:
        """Keeps the time limits of all connections, and counts what their clients have not read."""
        self.unread_bytes = sum([one.sweep(now) for one in list(self.state.connections)])
        Client.unread_most_bytes = UNREAD_MOST_BYTES if self.unread_bytes < ALL_UNREAD_MOST_BYTES else 0

    def _told_to_end(self) -> None:
        now = time.monotonic()
        if not self.should_exit:
            self.should_exit, self._told_at = True, now
        elif now - self._told_at >= SAME_WISH_S:
            self._is_hurried = True

    async def _listen(self, loop: asyncio.AbstractEventLoop, sockets: list[socket.socket] | None) -> None:
        def connection() -> Connection:
            return Connection(self.state, self._serve, loop)

        context = None if self._tls is None else _context(*self._tls)
        if sockets is None:
            host, port = self._address
            self.servers = [await loop.create_server(connection, host, port, ssl=context, backlog=BACKLOG)]
        else:
            for one in sockets:
                self.servers.append(await loop.create_server(connection, sock=one, ssl=context, backlog=BACKLOG))

    async def _end(self, sockets: list[socket.socket]) -> None:
        await self._life.leave()
        for server in self.servers:
            server.close()
        for one in sockets:
            one.close()
        self.state.is_leaving = True
        for connection in list(self.state.connections):
            connection.leave()
        if not await self._until_quiet(self._drain_s):
            logger.error("%d connections are stopped after %g s", len(self.state.connections), self._drain_s)
            for connection in list(self.state.connections):
                connection.stop()
            for task in list(self.state.tasks):
                task.cancel()
            await self._until_quiet(LAST_WORDS_S)
        await self._life.stop()
        for connection in list(self.state.connections):
            connection.transport.abort()  # who has not read its answer by now has had its time
        await asyncio.sleep(0)

    async def _until_quiet(self, seconds: float) -> bool:
        """Returns whether nothing runs any more, after so long at most."""
        until = time.monotonic() + seconds
        while self.state.connections or self.state.tasks:
            if self._is_hurried or time.monotonic() > until:
                return False
            await asyncio.sleep(0.05)
        return True


def _context(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
