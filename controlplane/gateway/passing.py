"""A request on its way to the process that decides about it, and the answer on its way back, byte for byte.

Guarantees
    Status, headers and body reach the client as the owner gave them, each piece as it comes. A client that leaves
    closes the connection, so that the owner aborts; one that reads slowly slows the owner down. A stream that breaks
    ends with an error event, another answer with a cut connection.
Does not do
    Choose, count, look into what it carries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from controlplane.gateway.client import Client, Headers
from controlplane.gateway.errors import GatewayError, bad_gateway
from controlplane.lib.eager import Signal, as_task
from controlplane.lib.upstream import Pool
from controlplane.lib.upstream_connection import Connection, UpstreamError

Header = tuple[bytes, bytes]
ProtocolT = TypeVar("ProtocolT", bound=asyncio.BaseProtocol)

CONNECT_TIMEOUT_S = 1.0
BUSY_TRIES, BUSY_PAUSE_S = 20, 0.01  # a unix socket whose queue is full says so at once instead of letting wait

PASSED = b"x-headworks-passed"  # milliseconds since the request arrived
FINAL = b"x-headworks-passed-again"  # the receiver decides, whatever it knows of owners
TOKEN = b"x-headworks-peer"
DIVERTED = b"x-headworks-diverted-from"
CAME_BACK = b"x-headworks-came-back"  # from where the ladder had sent it; its value says how its answer is capped
MOVED = b"x-headworks-moved"  # in an answer: ask the owner of now
INTERNAL = frozenset({PASSED, FINAL, TOKEN, DIVERTED, CAME_BACK})
_OF_THE_CONNECTION = frozenset(
    {b"connection", b"content-length", b"expect", b"host", b"keep-alive", b"te", b"trailer", b"transfer-encoding"}
    | {b"upgrade", b"http2-settings", b"proxy-connection", b"x-request-id", *INTERNAL}
)
_NOT_PASSED_BACK = frozenset({b"connection", b"transfer-encoding", b"content-length"})


@dataclass(frozen=True, slots=True)
class Passed:
    """What the internal address is told about a request that another process passes on."""

    waited_s: float = 0.0
    is_final: bool = False
    diverted_from: str = ""
    capped: str = ""  # what was done to it before
    came_back: bool = False


def read_passed(headers: Headers) -> Passed:
    """Returns what the headers of a request say that has come in at the internal address."""
    waited_s, is_final, diverted_from, capped, came_back = 0.0, False, "", "", False
    for name, value in headers:
        if name == PASSED and value.isdigit():
            waited_s = int(value[:9]) / 1000
        elif name == FINAL:
            is_final = True
        elif name == DIVERTED:
            diverted_from, _, capped = value.decode("latin-1").partition(",")
        elif name == CAME_BACK:
            capped, came_back = value.decode("latin-1"), True
    return Passed(waited_s, is_final, diverted_from, capped, came_back)


class PeerPool(Pool):
    """The connections to another gateway process: through its socket on the same machine, else through its address."""

    def __init__(self, path: str, address: tuple[str, int] | None, token: str) -> None:
        super().__init__("http://gateway", "")
        self._path = path
        self._address = address
        self._token = token.encode()

    async def connect(self) -> Connection:
        """Returns a fresh connection; raises UpstreamError when the process does not take it."""
        await as_task()
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await self._open(lambda: Connection(self, loop))
        except TimeoutError as error:
            raise UpstreamError("connect", f"No connection within {CONNECT_TIMEOUT_S:g} s.") from error
        except OSError as error:
            raise UpstreamError("connect", f"No connection: {error}.") from error

    async def watch(self, factory: Callable[[], asyncio.Protocol]) -> None:
        """Opens a connection for a protocol of the caller's; raises OSError (TimeoutError is one)."""
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await self._open(factory)

    async def _open(self, factory: Callable[[], ProtocolT]) -> ProtocolT:
        loop = asyncio.get_running_loop()
        if not self._path:
            assert self._address is not None
            return (await loop.create_connection(factory, *self._address))[1]
        for _ in range(BUSY_TRIES):
            try:
                return (await loop.create_unix_connection(factory, self._path))[1]
            except BlockingIOError:
                await asyncio.sleep(BUSY_PAUSE_S)
        raise BlockingIOError("its queue of connections is full")

    def give_up(self, quiet_s: int | None = None) -> None:
        """Ends what nothing has been answered to, so that it is asked elsewhere; with `quiet_s` also what has brought
        nothing for so long."""
        for connection in list(self.busy):
            if not connection.has_answered or (quiet_s is not None and connection.quiet_s > quiet_s):
                text = "The gateway process says nothing any more."
                connection.fail(UpstreamError("closed", text, received=connection.has_answered))

    def message(self, method: bytes, path: str, headers: Iterable[Header], own: Headers, body: bytes) -> bytes:
        """Returns a whole request: those of `headers` that do not belong to a connection, and our `own`."""
        parts = [b"%b %b HTTP/1.1\r\nhost: gateway\r\n" % (method, path.encode())]
        for name, value in headers:
            if name not in _OF_THE_CONNECTION:
                parts += (name, b": ", value, b"\r\n")
        for name, value in own:
            parts += (name, b": ", value, b"\r\n")
        if self._token:
            parts += (TOKEN, b": ", self._token, b"\r\n")
        parts.append(b"content-length: %d\r\n\r\n" % len(body))
        parts.append(body)
        return b"".join(parts)


class Passing:
    """The sink of one exchange with another gateway process."""

    __slots__ = ("_client", "_connection", "_done", "_events", "_tail", "failure", "moved", "over", "started")

    def __init__(self, client: Client) -> None:
        self._client = client
        self._connection: Connection | None = None
        self._done: Signal | None = None
        self._events = False
        self._tail = b"\n\n"
        self.started = False  # whether the client has been given anything
        self.moved = False  # the other process does not own the deployment any more
        self.over = False
        self.failure: UpstreamError | None = None

    async def run(self, connection: Connection, request: bytes) -> None:
        """Sends the request and returns when the exchange is over, in whichever way."""
        self._connection = connection
        self._client.when_gone(self.client_gone)
        connection.start(self, request)
        if not self.over:
            self._done = Signal()
            await self._done

    # -- the owner's side ----------------------------------------------------------------------------------------

    def head(self, status: int, headers: Headers) -> None:
        length: int | None = None
        kept: Headers = []
        for name, value in headers:
            if name == MOVED:
                self.moved = True
                return
            if name == b"content-length":
                length = int(value)
            elif name not in _NOT_PASSED_BACK:
                kept.append((name, value))
                if name == b"content-type":
                    self._events = value.startswith(b"text/event-stream")
        self.started = True
        self._client.start(status, kept, length)

    def body(self, data: bytes) -> None:
        if self.moved:
            return
        self._tail = data[-2:]
        if not self._client.write(data):
            assert self._connection is not None
            self._connection.pause()
            self._client.when_ready(self._client_ready)

    def end(self) -> None:
        if not self.moved:
            self._client.end()
        self._finish()

    def broken(self, error: UpstreamError) -> None:
        self.failure = error
        if self.started:
            self._break_off(bad_gateway("The answer broke off: the gateway process that worked on it has ended."))
        self._finish()

    # -- our side ------------------------------------------------------------------------------------------------

    def client_gone(self) -> None:
        """The client has left: the owner is told by the end of the connection."""
        if not self.over:
            self._abort()
            self._finish()

    def stop(self, error: GatewayError) -> None:
        """Ends the answer from our side."""
        if self.over:
            return
        self._abort()
        if self.started:
            self._break_off(error)
        self._finish()

    def _break_off(self, error: GatewayError) -> None:
        if not self._events:
            self._client.cut()
            return
        begin = b"" if self._tail == b"\n\n" else b"\n\n"
        self._client.end(begin + error.event())

    def _client_ready(self) -> None:
        if not self.over and self._connection is not None:
            self._connection.resume()

    def _abort(self) -> None:
        if self._connection is not None:
            self._connection.abort()

    def _finish(self) -> None:
        self.over = True
        if self._done is not None:
            self._done.set()


class Page:
    """The sink of a small page that a process asks another one for."""

    def __init__(self) -> None:
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._parts: list[bytes] = []

    def head(self, status: int, headers: Headers) -> None:
        self._status = status

    def body(self, data: bytes) -> None:
        self._parts.append(data)

    def end(self) -> None:
        if not self.done.done():
            if self._status == 200:
                self.done.set_result(b"".join(self._parts))
            else:
                self.done.set_exception(UpstreamError("protocol", f"Status {self._status}.", received=True))

    def broken(self, error: UpstreamError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


async def get_page(pool: PeerPool, path: str, limit_s: float) -> bytes:
    """Returns a page of another process; raises UpstreamError or TimeoutError."""
    connection: Connection | None = None
    async with asyncio.timeout(limit_s):
        connection = await pool.connect()
        page = Page()
        try:
            connection.start(page, pool.message(b"GET", path, [], [], b""))
            return await page.done
        finally:
            if not page.done.done() or page.done.cancelled():
                connection.abort()


def elapsed_ms(since: float) -> bytes:
    """Returns the milliseconds since a time of the monotonic clock, as a header."""
    return b"%d" % (max(0.0, time.monotonic() - since) * 1000)
