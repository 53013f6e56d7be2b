"""HTTP/1.1 to the replicas: an own small client on httptools, with a keep-alive pool for each replica.

Guarantees
    An answer is pushed into a `Sink` as it arrives, without a task switch. Every exchange ends with exactly one of
    `Sink.end` and `Sink.broken`, or with the caller's own `Connection.abort`. A connection goes back to its pool only
    after a whole answer that allows it; anything unexpected on it closes it. Heads are built here from checked parts.
    Certificates are checked; nothing is sent to where clouds hand out credentials, whatever name leads there.
Does not do
    Retries, choice of replicas, redirects, cookies, compression, trailers.
Concurrency
    One event loop. Time limits are kept by `Pools.sweep`, called once a second, so that an event costs no timer.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterable
from typing import Literal, Protocol, cast
from urllib.parse import urlsplit

import httptools

from controlplane.domain import addresses

logger = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 5.0
QUIET_LIMIT_S = 900
IDLE_KEPT_S = 60
IDLE_KEPT_MAX = 512
HEAD_LIMIT_BYTES = 256 * 1024

FailureCode = Literal["connect", "closed", "quiet", "protocol"]


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


class Connection(asyncio.Protocol):
    """One connection to a replica; at most one exchange at a time."""

    __slots__ = (
        "_closed",
        "_head_bytes",
        "_headers",
        "_informational",
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

    def __init__(self, pool: Pool, loop: asyncio.AbstractEventLoop) -> None:
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
            self.fail(UpstreamError("protocol", f"The replica's answer is not HTTP/1.1: {error}.", received=True))
        if self._head_bytes > HEAD_LIMIT_BYTES:
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
            self.on_message_complete()
            return
        self._sink = None
        self._pool.forget(self)
        text = f": {exc}" if exc else ""
        sink.broken(UpstreamError("closed", f"The replica closed the connection{text}.", received=self._received))

    # -- what the parser calls -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._headers = []  # trailers of the answer before come as headers

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
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
        if self._sink is not None:
            self._sink.body(data)

    def on_message_complete(self) -> None:
        if self._informational:
            return
        sink, self._sink = self._sink, None
        if sink is None:
            self.abort()
            return
        self._until_close = False
        self._pool.give_back(self, self._keep)
        sink.end()


class Pool:
    """The connections to one replica. `url` is its base address; a path in it replaces `/v1` (as an SDK's base URL)."""

    def __init__(self, url: str, key: str, tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address such as http://127.0.0.1:8000 or https://host/v1")
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.secure else 80)
        self._base = (parts.path.rstrip("/") or "/v1").encode()
        self._host_header = parts.netloc.rpartition("@")[2].encode()
        self.host.encode("idna")  # a UnicodeError, which is a ValueError, for what can't be looked up
        self._key = key.encode()
        for part in (self._base, self._host_header, self._key):
            if any(byte <= 32 or byte == 127 for byte in part):
                raise ValueError(f"the address or the key of {self.host} holds a space or a control character")
        self._tls = tls if self.secure else None
        self._heads: dict[str, bytes] = {}  # path -> the head up to the request id
        self._idle: list[Connection] = []
        self.busy: set[Connection] = set()
        self._retired = False

    def request(self, path: str, request_id: str, body: bytes) -> bytes:
        """Returns a whole POST request; `path` is what follows `/v1`, `request_id` has been checked by the caller."""
        head = self._heads.get(path)
        if head is None:
            head = self._heads[path] = self._head(path)
        return b"%b%b\r\ncontent-length: %d\r\n\r\n%b" % (head, request_id.encode(), len(body), body)

    def take(self) -> Connection | None:
        """Returns an idle connection, the one used last, or None."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed and not connection.transport.is_closing():
                return connection
        return None

    async def connect(self) -> Connection:
        """Returns a fresh connection; raises UpstreamError when the replica does not take it in time."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, connection = await loop.create_connection(
                    lambda: Connection(self, loop),
                    self.host,
                    self.port,
                    ssl=self._tls if self._tls is not None else (self.secure or None),
                )
        except TimeoutError as error:
            raise UpstreamError("connect", f"No connection within {CONNECT_TIMEOUT_S:g} s.") from error
        except OSError as error:
            raise UpstreamError("connect", f"No connection: {error}.") from error
        if addresses.is_forbidden(str(connection.transport.get_extra_info("peername")[0])):
            connection.abort()
            raise UpstreamError("connect", "The replica's name leads to an address that is no engine's.")
        return connection

    def give_back(self, connection: Connection, keep: bool) -> None:
        """Takes a connection back after a whole answer."""
        self.busy.discard(connection)
        connection.resume()
        connection.used = True
        connection.quiet_s = 0
        if keep and not self._retired and not connection.closed and len(self._idle) < IDLE_KEPT_MAX:
            self._idle.append(connection)
        elif not connection.closed:
            connection.transport.close()

    def forget(self, connection: Connection) -> None:
        self.busy.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def sweep(self, seconds: int = 1) -> None:
        """Counts a second of silence everywhere; ends what is too quiet, closes what idles too long."""
        for connection in list(self.busy):
            connection.quiet_s += seconds
            if connection.quiet_s > QUIET_LIMIT_S:
                text = f"No byte moved between client and replica for {QUIET_LIMIT_S} s."
                connection.fail(UpstreamError("quiet", text, received=True))
        for connection in list(self._idle):
            connection.quiet_s += seconds
            if connection.quiet_s > IDLE_KEPT_S:
                self._idle.remove(connection)
                connection.transport.close()

    def retire(self) -> None:
        """Closes idle connections; running exchanges end by themselves."""
        self._retired = True
        for connection in self._idle:
            connection.transport.close()
        self._idle.clear()

    def _head(self, path: str) -> bytes:
        lines = [
            b"POST %b%b HTTP/1.1" % (self._base, path.encode()),
            b"host: " + self._host_header,
            b"user-agent: headworks-gateway",
            b"content-type: application/json",
            b"accept-encoding: identity",
        ]
        if self._key:
            lines.append(b"authorization: Bearer " + self._key)
        lines.append(b"x-request-id: ")
        return b"\r\n".join(lines)


class Pools:
    """A pool for each replica that the newest snapshot names."""

    def __init__(self) -> None:
        self._pools: dict[tuple[str, str], Pool] = {}
        self._leaving: list[Pool] = []
        self._tls: ssl.SSLContext | None = None

    def get(self, url: str, key: str) -> Pool:
        """Returns the pool of an address and key; raises ValueError for an address that can't be used."""
        pool = self._pools.get((url, key))
        if pool is None:
            if url.startswith("https:") and self._tls is None:
                self._tls = ssl.create_default_context()
            pool = self._pools[(url, key)] = Pool(url, key, self._tls)
        return pool

    def keep_only(self, wanted: Iterable[Pool]) -> None:
        """Retires every pool that is not in `wanted`."""
        keep = set(wanted)
        for address, pool in list(self._pools.items()):
            if pool not in keep:
                pool.retire()
                del self._pools[address]
                self._leaving.append(pool)

    def sweep(self) -> None:
        """Keeps the time limits; call it once a second."""
        for pool in self._pools.values():
            pool.sweep()
        for pool in self._leaving:
            pool.sweep()
        self._leaving = [pool for pool in self._leaving if pool.busy]

    def close(self) -> None:
        self.keep_only(())
