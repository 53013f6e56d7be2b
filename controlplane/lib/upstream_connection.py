"""One connection to a replica: the exchange of a request and its answer over HTTP/1.1.

Guarantees
    An answer is pushed into a `Sink` as it arrives, without a task switch. Every exchange ends with exactly one of
    `Sink.end` and `Sink.broken`, or with the caller's own `Connection.abort`. A connection goes back to its pool only
    after a whole answer that allows it; anything unexpected on it closes it.
Does not do
    Time limits and choice of connections: see `upstream`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Literal, Protocol, cast

import httptools

logger = logging.getLogger(__name__)

HEAD_LIMIT_BYTES = 256 * 1024

FailureCode = Literal["connect", "closed", "protocol", "stalled"]


class UpstreamError(Exception):
    """The exchange with a replica failed. `received` tells whether any byte of an answer had come."""

    def __init__(self, code: FailureCode, message: str, *, received: bool = False) -> None:
        super().__init__(message)
        self.code: FailureCode = code
        self.message = message
        self.received = received


class Sink(Protocol):
    """Where an answer goes, in this order: one `head`, any number of `body`, then `end` or at any time `broken`."""

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None: ...

    def body(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def broken(self, error: UpstreamError) -> None: ...


class Owner(Protocol):
    """The pool that a connection belongs to."""

    host: str
    busy: set[Connection]

    def give_back(self, connection: Connection, keep: bool) -> None: ...

    def forget(self, connection: Connection) -> None: ...


class Connection(asyncio.Protocol):
    """One connection to a replica; at most one exchange at a time."""

    __slots__ = (
        "_closed",
        "_head_bytes",
        "_headers",
        "_informational",
        "_is_whole",
        "_keep",
        "_parser",
        "_paused",
        "_pool",
        "_received",
        "_sink",
        "_status",
        "_until_close",
        "loop",
        "quiet_s",
        "transport",
        "used",
    )

    transport: asyncio.Transport

    def __init__(self, pool: Owner, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._sink: Sink | None = None
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0  # what has come of a head that is not whole; negative when none is awaited
        self._status = 0
        self._received = False
        self._informational = False
        self._until_close = False
        self._keep = False
        self._paused = False
        self._closed = False
        self._is_whole = False  # the answer, of which the last piece is being read
        self.used = False  # an exchange has been started on it before
        self.quiet_s = 0  # seconds without a byte, counted by the sweep

    # -- what the caller does ------------------------------------------------------------------------------------

    def start(self, sink: Sink, request: bytes) -> None:
        """Sends a whole request; its answer goes to `sink`."""
        assert self._sink is None, "a second request on a connection whose first is not answered"
        self._sink = sink
        self._received = False
        self._until_close = False
        self._head_bytes = 0
        self.quiet_s = 0
        self._pool.busy.add(self)
        self.transport.write(request)

    def pause(self) -> None:
        """Stops reading from the replica (the client does not keep up)."""
        if not self._paused and not self._closed:
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Goes on reading after `pause`."""
        if self._paused and not self._closed:
            self._paused = False
            self.quiet_s = 0
            self.transport.resume_reading()

    def abort(self) -> None:
        """Closes the connection at once; the engine sees that nobody waits. The sink hears nothing more."""
        self._sink = None
        self._pool.forget(self)
        if not self._closed:
            self._closed = True
            self.transport.abort()

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def has_answered(self) -> bool:
        """Whether any byte of an answer to the running request has come."""
        return self._received

    def fail(self, error: UpstreamError) -> None:
        """Ends the exchange with `error` and closes the connection."""
        sink = self._sink
        self.abort()
        if sink is not None:
            sink.broken(error)

    # -- what the event loop calls -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.quiet_s = 0
        if self._sink is None:
            self.abort()  # nobody asked: never let it become the answer of the next request
            return
        self._received = True
        if self._head_bytes >= 0:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            # a bug on our side; uvloop would log it and go on waiting
            logger.exception("an answer of %s could not be taken", self._pool.host)
            self.fail(UpstreamError("protocol", "The replica's answer could not be taken.", received=True))
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keep = False
            if not self._is_whole:  # else it is what came behind the answer
                self.fail(UpstreamError("protocol", f"The replica's answer is not HTTP/1.1: {error}.", received=True))
        if self._is_whole:
            self._over()
        elif self._head_bytes > HEAD_LIMIT_BYTES:
            text = f"The head of the replica's answer is longer than {HEAD_LIMIT_BYTES} bytes."
            self.fail(UpstreamError("protocol", text, received=True))

    def eof_received(self) -> None:
        return None  # the transport closes itself

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        sink = self._sink
        if sink is None:
            self._pool.forget(self)
            return
        if self._until_close and exc is None:
            self._keep = False
            self._over()
            return
        self._sink = None
        self._pool.forget(self)
        text = f": {exc}" if exc else ""
        sink.broken(UpstreamError("closed", f"The replica closed the connection{text}.", received=self._received))

    # -- what the parser calls -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._headers = []  # trailers of the answer before come as headers
        if self._is_whole:
            self._keep = False  # something behind the answer, which nobody has asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._is_whole:
            return
        headers, self._headers = self._headers, []
        status = self._parser.get_status_code()
        self._informational = 100 <= status < 200
        if self._informational:
            return
        self._head_bytes = -1
        self._keep = self._parser.should_keep_alive()
        if not self._keep:
            names = [name for name, _ in headers]
            self._until_close = b"content-length" not in names and b"transfer-encoding" not in names
        if not 200 <= status <= 599:
            self.fail(UpstreamError("protocol", f"The replica answered with status {status}.", received=True))
        elif self._sink is not None:
            self._sink.head(status, headers)

    def on_body(self, data: bytes) -> None:
        if self._sink is not None and not self._is_whole:
            self._sink.body(data)

    def on_message_complete(self) -> None:
        if not self._informational:
            self._is_whole = True

    def _over(self) -> None:
        """The answer is whole, and all that came with it was read: what the sink begins now may use this connection."""
        sink, self._sink = self._sink, None
        self._is_whole = self._until_close = False
        if sink is None:
            self.abort()
            return
        self._pool.give_back(self, self._keep)
        sink.end()
