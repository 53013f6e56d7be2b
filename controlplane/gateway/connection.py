"""One connection of a client: requests come in, one after the other is answered.

Guarantees
    A request is begun only after the piece of data that it came in was read to its end without a fault. Answers go out
    in the order of the requests.
    The time of a head, the time of a body, the number of requests that wait on a connection and the amount of what is
    not read are bounded.
Does not do
    Limit the number of connections (the system's limit on open files does); HTTP/2 (the way to a gateway is a short
    one, or leads through a proxy).
Concurrency
    One event loop. Time limits are kept by `sweep`, called once a second, so that a request costs no timer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, cast

from controlplane.gateway.client import STATUS_LINES, Client
from controlplane.gateway.heads import Head, Headers, KnownHeads, split
from controlplane.gateway.reading import NotHttpError, Reader
from controlplane.lib.eager import Eager
from controlplane.lib.hang_up import has_hung_up

logger = logging.getLogger(__name__)

HEAD_TIMEOUT_S = 30.0
BODY_TIMEOUT_S = 75.0
KEEP_ALIVE_S = 75.0
LINGER_S = 5.0  # for the rest of a body that was refused: to close before it has come would take the answer along
PIPELINE_MOST = 64  # requests that wait on one connection for the answers before them
UNREAD_LIMIT_BYTES = 4 * 1024 * 1024
UNREAD_TIMEOUT_S = 900.0
BODY_AHEAD_BYTES = 64 * 1024  # of a body that nobody reads yet

_JSON: Headers = [(b"content-type", b"application/json")]
_NOT_HTTP = (
    b'{"error":{"message":"This is not a request in HTTP/1.1.","type":"invalid_request_error",'
    b'"param":null,"code":"invalid_request"}}'
)
_FAILED = (
    b'{"error":{"message":"The gateway failed at this request; its log says why.","type":"server_error",'
    b'"param":null,"code":"internal_error"}}'
)


class State:
    """What the connections of one process share."""

    def __init__(self) -> None:
        self.connections: set[Connection] = set()
        self.tasks: set[asyncio.Task[None]] = set()  # of requests that had to wait
        self.heads = KnownHeads()
        self.is_leaving = False  # nothing new is taken


class Connection(asyncio.Protocol):
    """One connection; `serve` begins to answer a request, one at a time."""

    transport: asyncio.Transport

    def __init__(self, state: State, serve: Callable[[Client], None], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._state = state
        self._serve = serve
        self._reader = Reader(self)
        self._current: Client | None = None  # the one that is being answered
        self._work: Eager | None = None  # what answers it
        self._waiting: deque[Client] = deque()  # behind it
        self._receiving: Client | None = None  # whose body is not whole
        self._is_starting = False
        self._read_paused = False
        self.write_paused = False
        self._head_since: float | None = loop.time()
        self._body_since: float | None = None
        self._idle_since: float | None = None  # since the last answer
        self._unread_bytes, self._unread_since = 0, 0.0

    # -- what the event loop calls -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._state.connections.add(self)
        if self._state.is_leaving:  # accepted before that, but its greeting (TLS) took until now
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._idle_since = None
        may_be_known = self._current is None and self._reader.is_between and not self.write_paused
        parts = split(data) if may_be_known else None
        if parts is None:
            self._read(data)
        elif (head := self._state.heads.find(parts[0])) is None:
            self._learn(data, *parts)
        else:
            self._head_since = None
            self._waiting.append(Client(self, head, parts[1]))
        self._start_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._all_left()

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._current is not None:
            self._current.ready()

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
        except NotHttpError:
            self._refuse()
            return
        if reader.in_head:
            self._head_since = self._head_since or self.loop.time()
        else:
            self._head_since = None
            if reader.is_between and self._current is None and not self._waiting:
                self._idle_since = self.loop.time()  # all that has come belongs to what was answered before

    def _learn(self, data: bytes, key: bytes, body: bytes) -> None:
        """Reads what may be one whole request, and remembers its head if it was that and nothing else."""
        waiting = len(self._waiting)
        self._read(data)
        if self._reader.is_between and len(self._waiting) == waiting + 1:
            client = self._waiting[-1]
            if client.whole_body() == body and not client.head.expects_continue:
                self._state.heads.learn(key, client.head)

    def begin(self, head: Head) -> None:
        """The head of a request has come; raises NotHttpError when there are too many."""
        transport = self.transport
        if len(self._waiting) >= PIPELINE_MOST or transport.get_write_buffer_size() > UNREAD_LIMIT_BYTES:
            raise NotHttpError
        if transport.is_closing():
            raise NotHttpError
        self._receiving = Client(self, head)
        self._waiting.append(self._receiving)
        self._body_since = self.loop.time()

    def body(self, data: bytes) -> None:
        """Some of its body has come."""
        client = self._receiving
        assert client is not None
        client.take(data)
        if client.received_bytes > BODY_AHEAD_BYTES and not (client.is_read or client.ended):
            self._pause_reading()

    def complete(self) -> None:
        """All of it has come."""
        client, self._receiving = self._receiving, None
        assert client is not None
        self._body_since = None
        client.complete()
        if client.ended and not client.keep_alive:
            self.transport.close()

    def _refuse(self) -> None:
        """Ends the connection; what is wrong is said only where it can't be taken for a part of another answer."""
        transport, current = self.transport, self._current
        if transport.is_closing():
            return
        answering = current is not None and (current.started or len(self._waiting) > 0)
        if answering or transport.get_write_buffer_size():
            transport.abort()
        else:
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            transport.write(STATUS_LINES[400] + head % len(_NOT_HTTP) + _NOT_HTTP)
            transport.close()
        self._all_left()

    def _pause_reading(self) -> None:
        if not self._read_paused:
            self._read_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """What comes next may come."""
        if self._read_paused and not self.transport.is_closing():
            self._read_paused = False
            self.transport.resume_reading()

    # -- answering -----------------------------------------------------------------------------------------------

    def _start_waiting(self) -> None:
        """Begins with whoever is next; what is answered at once is followed by the next in the same loop."""
        if self._is_starting:
            return
        self._is_starting = True
        while self._current is None and self._waiting:
            self._current = self._waiting.popleft()
            self._serve(self._current)
        self._is_starting = False
        if self._waiting:
            self._pause_reading()

    def run(self, client: Client, answering: Coroutine[Any, None, None]) -> None:
        """Runs what answers a client; see `Client.run`."""
        self._work = work = Eager(answering, self._state.tasks, client.answer_is_over)
        work.go_on()

    def answered(self, client: Client) -> None:
        """An answer is complete."""
        self._current = None
        if not client.keep_alive:
            self._all_left()
            if self._receiving is None or self._state.is_leaving:
                self.transport.close()
            else:
                self._body_since = self.loop.time() + LINGER_S - BODY_TIMEOUT_S
                self.resume_reading()
        elif not self.transport.is_closing():
            if self._read_paused:
                self.resume_reading()
            if self._waiting:
                self._start_waiting()
            else:
                self._idle_since = self.loop.time()

    def failed(self, client: Client, error: BaseException | None) -> None:
        """An answer could not be given, by a bug on our side."""
        logger.error("a request could not be answered", exc_info=error)
        if client.gone or client.ended:
            return
        if client.started:
            client.cut()
        else:
            client.start(500, _JSON, len(_FAILED), close=True)
            client.end(_FAILED)

    def _all_left(self) -> None:
        """Nobody waits for answers any more."""
        current, self._current = self._current, None
        waiting, self._waiting = list(self._waiting), deque()
        for client in (*waiting, *([current] if current is not None else [])):
            client.left()

    # -- what the server calls -----------------------------------------------------------------------------------

    def leave(self) -> None:
        """Takes nothing new; what has come is answered."""
        last = self._waiting[-1] if self._waiting else self._current
        if last is None:
            self.transport.close()
        else:
            last.keep_alive = False

    def stop(self) -> None:
        """Ends what is being answered, with a last word; what waits behind it is not begun."""
        if self._current is not None:
            self._current.keep_alive = False
        if self._work is not None:
            self._work.cancel()

    def sweep(self, now: float) -> int:
        """Ends the connection when the client takes too long to ask, or to read; `now` is of the loop's clock. Returns
        how much the client has not read."""
        if self._read_paused and has_hung_up(self.transport):
            self.transport.abort()  # a pause hides that the client leaves, and an engine may work for it
            return 0
        if self._head_since is not None and (self._read_paused or self._current is not None):
            self._head_since = now  # nobody waits for it yet
        if self._read_paused or self._waiting:  # what is not read here can't be late
            self._body_since = now if self._body_since is not None else None
        elif (self._head_since is not None and now - self._head_since > HEAD_TIMEOUT_S) or (
            self._body_since is not None and now - self._body_since > BODY_TIMEOUT_S
        ):
            self.transport.close()
        if self._idle_since is not None and now - self._idle_since > KEEP_ALIVE_S:
            self.transport.close()
        unread = self.transport.get_write_buffer_size()
        if unread == 0 or unread != self._unread_bytes:
            self._unread_bytes, self._unread_since = unread, now
        elif now - self._unread_since > UNREAD_TIMEOUT_S:
            self.transport.abort()  # `close` would wait for the client for ever
            return 0
        return unread
