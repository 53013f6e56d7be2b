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
import signal
from collections.abc import Iterator
from typing import Any, ClassVar

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

HEAD_LIMIT_BYTES = 64 * 1024
HEAD_TIMEOUT_S = 30.0
BODY_TIMEOUT_S = 75.0
PIPELINE_MOST = 64  # requests that wait on one connection for the answers before them
UNREAD_LIMIT_BYTES = 4 * 1024 * 1024
UNREAD_TIMEOUT_S = 900.0

_OF_AN_UPGRADE = frozenset({b"upgrade", b"http2-settings"})


class LimitError(Exception):
    """A client asks faster than it reads, or too much at once."""


class Protocol(HttpToolsProtocol):
    """One connection of a client."""

    not_http: ClassVar[tuple[bytes, bytes]] = (b"text/plain; charset=utf-8", b"This is not a request in HTTP/1.1.\n")

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head_bytes = 0
        self._head_since: float | None = self.loop.time()
        self._body_since: float | None = None
        self._unread_bytes = 0
        self._unread_since = 0.0

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
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
        super().on_headers_complete()

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
        kind, text = self.not_http
        head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (kind, len(text))
        self.transport.write(STATUS_LINE[400] + head + text)
        self.transport.close()

    def sweep(self, now: float) -> None:
        """Ends the connection when the client takes too long to ask, or to read; `now` is of the loop's clock."""
        if self.flow.read_paused or self.pipeline:  # what is not read here can't be late
            self._head_since = now if self._head_since is not None else None
            self._body_since = now if self._body_since is not None else None
        elif (self._head_since is not None and now - self._head_since > HEAD_TIMEOUT_S) or (
            self._body_since is not None and now - self._body_since > BODY_TIMEOUT_S
        ):
            self.transport.close()
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unread_bytes:
            self._unread_bytes, self._unread_since = unread, now
        elif now - self._unread_since > UNREAD_TIMEOUT_S:
            self.transport.abort()  # `close` would wait for the client for ever

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
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        for name, value in self.headers:
            if name == b"connection":
                kept = [one for one in value.split(b",") if one.strip().lower() not in _OF_AN_UPGRADE]
                lines.append(b"connection: " + b",".join(kept))
            elif name not in _OF_AN_UPGRADE:
                lines.append(b"%b: %b" % (name, value))
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join(lines) + b"\r\n\r\n"


class Server(uvicorn.Server):
    """uvicorn's server with signals that end it with exit status 0."""

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

    def sweep(self, now: float) -> None:
        """Keeps the time limits of all connections."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.sweep(now)
