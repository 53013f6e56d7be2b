"""The client's side of one request: an answer written through ASGI `send` without a task switch.

Why: `await send(…)` from a task costs a future, a wake-up and a pass of the event loop for every event of a stream.
Nearly always `send` has nothing to wait for, so its coroutine is run on the spot; only when the client does not keep
up is it kept, continued by callbacks, and the replica's connection paused meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any, cast

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class _Kept:
    """A coroutine that waits for something, continued by callbacks instead of a task."""

    __slots__ = ("_coroutine", "_on_end")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], waiting: Any, on_end: Callable[[Any], None]) -> None:
        self._coroutine = coroutine
        self._on_end = on_end
        self._wait(waiting)

    def _wait(self, waiting: Any) -> None:
        waiting._asyncio_future_blocking = False  # the hand-shake between a future and whoever drives the coroutine
        waiting.add_done_callback(self._wake)

    def _wake(self, _: object) -> None:
        try:
            waiting = self._coroutine.send(None)
        except StopIteration as end:
            self._on_end(end.value)
        else:
            self._wait(waiting)


async def receive_within(receive: Receive, limit_s: float) -> Message:
    """Returns the next message; raises TimeoutError. One that is there already costs no timer."""
    coroutine = cast("Coroutine[Any, Any, Message]", receive())
    try:
        waiting = coroutine.send(None)
    except StopIteration as end:
        return cast(Message, end.value)
    arrived: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
    _Kept(coroutine, waiting, lambda message: None if arrived.done() else arrived.set_result(message))
    async with asyncio.timeout(limit_s):
        return await arrived


class Client:
    """Where the answer of one request goes. `gone` when the client has left before the end."""

    __slots__ = ("_kept", "_later", "_on_gone", "_on_ready", "_send", "ended", "gone", "started")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._kept: _Kept | None = None
        self._later: list[Message] = []  # what came while a `send` waits
        self._on_ready: Callable[[], None] | None = None
        self._on_gone: Callable[[], None] | None = None
        self.started = False
        self.ended = False
        self.gone = False

    def watch(self, receive: Receive, on_gone: Callable[[], None]) -> None:
        """Calls `on_gone` once when the client leaves before the answer's end. The request body must have been read."""
        self._on_gone = on_gone
        self._listen(receive)

    def start(self, status: int, headers: Headers) -> None:
        self.started = True
        self._push({"type": "http.response.start", "status": status, "headers": headers})

    def write(self, data: bytes) -> bool:
        """Sends a piece; returns False when the client does not keep up (then see `when_ready`)."""
        self._push({"type": "http.response.body", "body": data, "more_body": True})
        return self._kept is None

    def end(self, data: bytes = b"") -> None:
        """Sends the last piece."""
        self.ended = True
        self._push({"type": "http.response.body", "body": data, "more_body": False})

    @property
    def unsent(self) -> bool:
        """Whether something written still waits for the client."""
        return self._kept is not None

    async def flushed(self) -> None:
        """Returns when everything that was written has been handed to the server."""
        if self._kept is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._on_ready = lambda: None if done.done() else done.set_result(None)
            await done

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Calls back once when the client has caught up."""
        self._on_ready = callback

    def _push(self, message: Message) -> None:
        if self._kept is not None:
            self._later.append(message)
            return
        coroutine = cast("Coroutine[Any, Any, None]", self._send(message))
        try:
            waiting = coroutine.send(None)
        except StopIteration:
            return
        self._kept = _Kept(coroutine, waiting, self._sent)

    def _sent(self, _: None) -> None:
        self._kept = None
        while self._later and self._kept is None:
            self._push(self._later.pop(0))
        if self._kept is None and self._on_ready is not None:
            ready, self._on_ready = self._on_ready, None
            ready()

    def _listen(self, receive: Receive) -> None:
        coroutine = cast("Coroutine[Any, Any, Message]", receive())
        try:
            waiting = coroutine.send(None)
        except StopIteration as end:
            self._left(end.value)
            return
        _Kept(coroutine, waiting, self._left)

    def _left(self, _: Message) -> None:
        on_gone, self._on_gone = self._on_gone, None
        if self.ended or self.gone:
            return
        self.gone = True
        if on_gone is not None:
            on_gone()
