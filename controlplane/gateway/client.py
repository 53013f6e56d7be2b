"""The client's side of one request: its head and body, its answer, and whether it is still there.

Guarantees
    The head of an answer goes out together with the first piece of its body, in one write. Calls never wait: what a
    slow client does not read is kept here, up to `Client.unread_most_bytes`, so that an engine can finish and its seat
    goes to somebody else; beyond that `write` returns False. After `gone` or `ended` everything written is dropped.
Does not do
    Parse requests (see `connection`), check header values: they are ours or come from a parsed answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar

from controlplane.gateway.heads import Head, Headers

if TYPE_CHECKING:
    from controlplane.gateway.connection import Connection

UNREAD_MOST_BYTES = 4 * 1024 * 1024  # of one answer: some 20,000 tokens
BODILESS = frozenset({204, 304})

__all__ = ["Client", "ClientLeftError", "Headers"]


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode()


STATUS_LINES = {status: _status_line(status) for status in range(100, 600)}


class ClientLeftError(Exception):
    """The client went away before its request was whole; nobody waits for an answer."""


class Client:
    """One request, and where its answer goes. `gone` when the client has left before the end."""

    unread_most_bytes: ClassVar[int] = UNREAD_MOST_BYTES  # less while all clients together leave too much unread

    __slots__ = (
        "_body",
        "_chunked",
        "_connection",
        "_head_out",
        "_is_whole",
        "_on_gone",
        "_on_ready",
        "_parts",
        "_transport",
        "_waiter",
        "_without_body",
        "ended",
        "gone",
        "head",
        "keep_alive",
        "received_bytes",
        "started",
    )

    def __init__(self, connection: Connection, head: Head, body: bytes | None = None) -> None:
        """`body` None: it is still to come (see `receive`)."""
        self._connection = connection
        self._transport = connection.transport
        self.head = head
        self.keep_alive = head.keep_alive
        self._body = body or b""
        self._is_whole = body is not None
        self._parts: bytearray | None = None  # of a body that comes in pieces, however small
        self._waiter: asyncio.Future[None] | None = None
        self.received_bytes = 0  # of a body that did not come at once
        self._on_gone: Callable[[], None] | None = None
        self._on_ready: Callable[[], None] | None = None
        self._head_out = b""
        self._chunked = False
        self._without_body = False
        self.started = False
        self.ended = False
        self.gone = False

    # -- the request ---------------------------------------------------------------------------------------------

    @property
    def is_secure(self) -> bool:
        """Whether it came through TLS."""
        return self._transport.get_extra_info("ssl_object") is not None

    @property
    def peername(self) -> Any:
        """The address at the other end of the connection, as the socket has it."""
        return self._transport.get_extra_info("peername")

    def whole_body(self) -> bytes | None:
        """Returns the request's body when all of it has come, else None (then see `read_body`)."""
        if not self._is_whole:
            return None
        if self._parts is not None:
            self._body, self._parts = bytes(self._parts), None
            self._connection.resume_reading()  # a long body pauses it, and a pause hides that the client leaves
        return self._body

    async def read_body(self, most_bytes: int) -> bytes | None:
        """Returns the whole body, None when it is longer than `most_bytes`; raises ClientLeftError."""
        if self.gone:
            raise ClientLeftError
        if self.head.expects_continue and not (self.started or self.received_bytes):
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self._connection.resume_reading()
        while not (self._is_whole or self.gone) and self.received_bytes <= most_bytes:
            self._waiter = self._connection.loop.create_future()
            await self._waiter
        if self.gone:
            raise ClientLeftError
        return None if self.received_bytes > most_bytes else self.whole_body()

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Calls back once when the client leaves before the answer's end."""
        self._on_gone = callback

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Calls back once when the client has caught up, after `write` returned False."""
        self._on_ready = callback

    def run(self, answering: Coroutine[Any, None, None]) -> None:
        """Runs what answers it, which waits as little as it may (see `lib.eager`)."""
        self._connection.run(self, answering)

    # -- the answer ----------------------------------------------------------------------------------------------

    def start(self, status: int, headers: Headers, length: int | None = None, *, close: bool = False) -> None:
        """Begins the answer; `length` None stands for a body of unknown length. Nothing is sent before a piece."""
        self.started = True
        head = self.head
        lines = [STATUS_LINES[status]]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        self._without_body = status in BODILESS or head.method == "HEAD"
        if length is not None:
            lines.append(b"content-length: %d\r\n" % length)
        elif head.version != "1.1":
            self.keep_alive = False  # its body ends with the connection
        elif not self._without_body:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if head.expects_continue and not (self._is_whole or self.received_bytes):
            close = True  # a client that has not been told to go on may send its body or may not: nobody could tell
        if close or not self.keep_alive:
            self.keep_alive = False
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self._head_out = b"".join(lines)

    def write(self, data: bytes) -> bool:
        """Sends a piece that is not empty; returns False when the client does not keep up (then see `when_ready`)."""
        if self.gone or self.ended:
            return True
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._without_body:
            data = b""
        if self._head_out:
            data, self._head_out = self._head_out + data, b""
        self._transport.write(data)
        if not self._connection.write_paused:
            return True
        return self._transport.get_write_buffer_size() < self.unread_most_bytes

    def end(self, data: bytes = b"") -> None:
        """Sends the last piece."""
        if self.gone or self.ended:
            return
        if self._without_body:
            data = b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        if self._head_out or data:
            self._transport.write(self._head_out + data)
        self._finish()

    def cut(self) -> None:
        """Ends the connection in the middle of the answer: all that is left to say when its beginning is out."""
        if not (self.gone or self.ended):
            self.keep_alive = False
            self._finish()

    # -- what its connection calls -------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        """A piece of the body has come."""
        if self.ended:
            return  # it was answered without
        if self._parts is None:
            self._parts = bytearray()
        self._parts += data
        self.received_bytes += len(data)
        self._wake()

    def complete(self) -> None:
        """All of the body has come."""
        self._is_whole = True
        self._wake()

    def left(self) -> None:
        """The connection has ended."""
        self.gone = True
        self._on_ready = None
        self._wake()
        callback, self._on_gone = self._on_gone, None
        if callback is not None:
            callback()

    def ready(self) -> None:
        """The connection takes more."""
        callback, self._on_ready = self._on_ready, None
        if callback is not None:
            callback()

    @property
    def is_read(self) -> bool:
        """Whether somebody waits for its body."""
        return self._waiter is not None

    def answer_is_over(self, failure: BaseException | None) -> None:
        """Whoever answered it has ended; an answer that is not whole by then is a bug on our side."""
        if failure is not None or not (self.ended or self.gone):
            self._connection.failed(self, failure)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _finish(self) -> None:
        self.ended = True
        self._body = b""  # a connection that is kept would keep it
        self._on_gone = self._on_ready = self._parts = None
        self._connection.answered(self)
