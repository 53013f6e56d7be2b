"""The client's side of one request: its body, its answer, and whether it is still there.

Guarantees
    The head of an answer goes out together with the first piece of its body, in one write. Calls never wait: what a
    slow client does not read is kept here, up to `Client.unread_most_bytes`, so that an engine can finish and its seat
    goes to somebody else; beyond that `write` returns False. After `gone` or `ended` everything written is dropped.
Does not do
    Parse requests (uvicorn and httptools do), check header values: they are ours or come from a parsed answer.
Why not ASGI's `send`: `await send(…)` costs a coroutine, two messages and a check of every header for each answer, a
task switch for each event of a stream, and a second system call for the head. Together that is a third of what the
gateway costs, see `benchmarks/gateway.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, ClassVar

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

EXTENSION = "headworks.client"  # where the application finds it in the scope's extensions
UNREAD_MOST_BYTES = 4 * 1024 * 1024  # of one answer: some 20,000 tokens
BODILESS = frozenset({204, 304})


class Client:
    """Where the answer of one request goes. `gone` when the client has left before the end."""

    unread_most_bytes: ClassVar[int] = UNREAD_MOST_BYTES  # less while all clients together leave too much unread

    __slots__ = (
        "_chunked",
        "_cycle",
        "_flow",
        "_head",
        "_on_end",
        "_on_gone",
        "_on_ready",
        "_transport",
        "_without_body",
        "ended",
        "gone",
        "started",
    )

    def __init__(
        self, cycle: RequestResponseCycle, transport: asyncio.Transport, on_end: Callable[[Client], None]
    ) -> None:
        self._cycle = cycle
        self._transport = transport
        self._flow: FlowControl = cycle.flow
        self._on_end = on_end
        self._on_gone: Callable[[], None] | None = None
        self._on_ready: Callable[[], None] | None = None
        self._head = b""
        self._chunked = False
        self._without_body = False
        self.started = False
        self.ended = False
        self.gone = False

    # -- the request ---------------------------------------------------------------------------------------------

    def whole_body(self) -> bytes | None:
        """Returns the request's body when all of it has come, else None (then ask `receive`)."""
        cycle = self._cycle
        if cycle.more_body or cycle.waiting_for_100_continue:
            return None
        self._flow.resume_reading()  # a long body pauses it, and a pause hides that the client leaves
        return bytes(cycle.body)

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Calls back once when the client leaves before the answer's end."""
        self._on_gone = callback

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Calls back once when the client has caught up, after `write` returned False."""
        self._on_ready = callback

    # -- the answer ----------------------------------------------------------------------------------------------

    def start(self, status: int, headers: Headers, length: int | None = None, *, close: bool = False) -> None:
        """Begins the answer; `length` None stands for a body of unknown length. Nothing is sent before a piece."""
        cycle = self._cycle
        self.started = cycle.response_started = True
        cycle.waiting_for_100_continue = False
        lines = [STATUS_LINE[status]]
        for name, value in headers:
            lines += (name, b": ", value, b"\r\n")
        self._without_body = status in BODILESS or cycle.scope["method"] == "HEAD"
        if length is not None:
            lines.append(b"content-length: %d\r\n" % length)
        elif cycle.scope["http_version"] != "1.1":
            cycle.keep_alive = False  # its body ends with the connection
        elif not self._without_body:
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        if close or not cycle.keep_alive:
            cycle.keep_alive = False
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)

    def write(self, data: bytes) -> bool:
        """Sends a piece that is not empty; returns False when the client does not keep up (then see `when_ready`)."""
        if self.gone:
            return True
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._without_body:
            data = b""
        if self._head:
            data, self._head = self._head + data, b""
        self._transport.write(data)
        return not self._flow.write_paused or self._transport.get_write_buffer_size() < self.unread_most_bytes

    def end(self, data: bytes = b"") -> None:
        """Sends the last piece."""
        if self.gone or self.ended:
            return
        if self._without_body:
            data = b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        if self._head or data:
            self._transport.write(self._head + data)
        self._finish()

    def cut(self) -> None:
        """Ends the connection in the middle of the answer: all that is left to say when its beginning is out."""
        if not (self.gone or self.ended):
            self._cycle.keep_alive = False
            self._finish()

    # -- what the server's protocol calls ------------------------------------------------------------------------

    def left(self) -> None:
        self.gone = self._cycle.disconnected = True
        self._on_ready = None
        callback, self._on_gone = self._on_gone, None
        if callback is not None:
            callback()

    def ready(self) -> None:
        callback, self._on_ready = self._on_ready, None
        if callback is not None:
            callback()

    def _finish(self) -> None:
        cycle = self._cycle
        self.ended = cycle.response_complete = True
        self._on_gone = self._on_ready = None
        self._on_end(self)
        cycle.message_event.set()
        if not cycle.keep_alive:
            self._transport.close()
        cycle.on_response()
