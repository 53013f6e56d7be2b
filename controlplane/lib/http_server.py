"""uvicorn's HTTP server with limits on what a client may do before anybody knows who it is.

Guarantees
    The size and the time of a request's head, the time of its body, the number of requests that wait on a connection
    and the amount of what is not read are bounded: neither httptools nor uvicorn has a limit there.
    A wish for another protocol than a websocket is declined by answering as if it had not been made (RFC 9110 7.8; some
    HTTP clients make it with every request). httptools takes the body of such a request for the other protocol's, and
    what comes later for a request of its own: behind a proxy, one client could answer for another.
Does not do
    Limit the number of connections (the system's limit on open files does).
Concurrency
    One event loop. Time limits are kept by `Server.sweep`, called once a second, so that a request costs no timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import socket
from collections.abc import Iterator
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from controlplane.lib.http_upgrade import without_upgrade

HEAD_LIMIT_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0
BODY_TIMEOUT_S = 75.0
PIPELINE_MOST = 64  # requests that wait on one connection for the answers before them
UNREAD_LIMIT_BYTES = 4 * 1024 * 1024
UNREAD_TIMEOUT_S = 900.0

_NOT_HTTP = b"This is not a request in HTTP/1.1.\n"
_USUAL_PATH = re.compile(rb"/[A-Za-z0-9/_.-]*")


class LimitError(Exception):
    """A client asks faster than it reads, or too much at once."""


class Protocol(HttpToolsProtocol):
    """One connection of a client."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head_bytes = 0
        self._head_since: float | None = self.loop.time()
        self._body_since: float | None = None
        self._unread_bytes = 0
        self._unread_since = 0.0
        self._idle_since: float | None = None  # since the last answer
        self._is_usual = not self.root_path and self.limit_concurrency is None

    def data_received(self, data: bytes) -> None:
        self._idle_since = None
        self._head_bytes += len(data)
        try:
            while data:
                data = self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("")
            return
        scope: Any = self.scope  # None before the first request
        if scope is not None and "method" in scope:  # no head is half here
            self._head_bytes, self._head_since = 0, None
            return
        self._head_since = self._head_since or self.loop.time()
        if self._head_bytes > HEAD_LIMIT_BYTES:
            self.transport.close()

    def on_headers_complete(self) -> None:
        if self._is_declined():
            return
        if len(self.pipeline) >= PIPELINE_MOST or self.transport.get_write_buffer_size() > UNREAD_LIMIT_BYTES:
            raise LimitError
        self._body_since = self.loop.time()
        if self._is_usual and _USUAL_PATH.fullmatch(self.url) and self.parser.get_http_version() == "1.1":
            self._begin()
        else:
            super().on_headers_complete()

    def _begin(self) -> None:
        """What uvicorn does with a head, for the usual one, whose target is a path that means what it says."""
        scope, parser, url = self.scope, self.parser, self.url
        scope["method"] = parser.get_method().decode("ascii")
        scope["path"] = url.decode("ascii")
        scope["raw_path"] = url
        scope["query_string"] = b""
        before = self.cycle
        self.cycle = cycle = RequestResponseCycle(
            scope, self.transport, self.flow, self.logger, self.access_logger, self.access_log,
            self.server_state.default_headers, asyncio.Event(), self.expect_100_continue, parser.should_keep_alive(),
            self.on_response_complete,
        )  # fmt: skip
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def on_response_complete(self) -> None:
        """As uvicorn does, but with no timer for each answer: `sweep` ends what is idle for long."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        else:
            self._idle_since = self.loop.time()

    def on_message_complete(self) -> None:
        if not self._is_declined():
            self._body_since = None
            super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Ends the connection; what is wrong is said only where it can't be taken for a part of another answer."""
        cycle: Any = self.cycle
        answering = cycle is not None and not cycle.response_complete and (cycle.response_started or self.pipeline)
        if answering or self.transport.get_write_buffer_size():
            self.transport.abort()
            return
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[400] + head % len(_NOT_HTTP) + _NOT_HTTP)
        self.transport.close()

    def sweep(self, now: float) -> int:
        """Ends the connection when the client takes too long to ask, or to read; `now` is of the loop's clock. Returns
        how much the client has not read."""
        if self.flow.read_paused or self.pipeline:  # what is not read here can't be late
            self._head_since = now if self._head_since is not None else None
            self._body_since = now if self._body_since is not None else None
        elif (self._head_since is not None and now - self._head_since > HEAD_TIMEOUT_S) or (
            self._body_since is not None and now - self._body_since > BODY_TIMEOUT_S
        ):
            self.transport.close()
        if self._idle_since is not None and now - self._idle_since > self.timeout_keep_alive:
            self.transport.close()
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unread_bytes:
            self._unread_bytes, self._unread_since = unread, now
        elif now - self._unread_since > UNREAD_TIMEOUT_S:
            self.transport.abort()  # `close` would wait for the client for ever
            return 0
        return unread

    def _is_declined(self) -> bool:
        # CONNECT counts as an upgrade too; its target is no path, which uvicorn refuses
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT" and not self._should_upgrade()

    def _feed(self, data: bytes) -> bytes:
        """Gives the parser some data; returns what is to be given to it next."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            if not self._should_upgrade():
                return self._without_upgrade() + data[stopped.args[0] :]
            self.handle_websocket_upgrade()
        return b""

    def _without_upgrade(self) -> bytes:
        """Returns the head that was just parsed, but without the wish, for a parser that starts anew."""
        parser, self.parser = self.parser, httptools.HttpRequestParser(self)
        return without_upgrade(parser.get_method(), self.url, parser.get_http_version(), self.headers)


class Server(uvicorn.Server):
    """uvicorn's server with signals that end it with exit status 0."""

    unread_bytes = 0  # by the last look

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # uvicorn ticks ten times a second
            self.sweep(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn does; whoever has not read its answer by then has had its time. uvloop would wait for it for ever,
        in the midst of closing."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.transport.abort()
        await asyncio.sleep(0)

    def sweep(self, now: float) -> None:
        """Keeps the time limits of all connections, and counts what their clients have not read."""
        unread_bytes = 0
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                unread_bytes += connection.sweep(now)
        self.unread_bytes = unread_bytes
