"""HTTP/1.1 to the replicas: an own small client on httptools, with a keep-alive pool for each replica.

Guarantees
    What `upstream_connection` says of an exchange. Heads are built here from checked parts.
    Certificates are checked; nothing is sent to where clouds hand out credentials, whatever name leads there.
    A host that has vanished without a word is noticed within two minutes, by the kernel's probes. How long an answer
    may take is the caller's matter: a plain one shows nothing before its end.
Does not do
    Retries, choice of replicas, redirects, cookies, compression, trailers.
Concurrency
    One event loop. `Pools.sweep`, called once a second, closes what idles, so that a request costs no timer.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from urllib.parse import urlsplit

from controlplane.domain import addresses
from controlplane.lib.eager import as_task
from controlplane.lib.upstream_connection import Connection, UpstreamError

CONNECT_TIMEOUT_S = 5.0
IDLE_KEPT_S = 60
IDLE_KEPT_MAX = 512
PROBES = {socket.TCP_KEEPIDLE: 30, socket.TCP_KEEPINTVL: 15, socket.TCP_KEEPCNT: 4}
UNSENT_MOST_MS = 120_000  # so long may what was sent stay without a sign of the other host


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

    def request(self, path: str, request_id: str, body: bytes, hops: int = 0) -> bytes:
        """Returns a whole POST request; `path` is what follows `/v1`, `request_id` has been checked by the caller.
        `hops` tells another gateway how many it has come through, 0 = say nothing."""
        head = self._heads.get(path)
        if head is None:
            head = self._heads[path] = self._head(path)
        if hops:
            request_id = f"{request_id}\r\nx-headworks-hops: {hops}"
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
        await as_task()
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
        _probe(connection.transport.get_extra_info("socket"))
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
        """Counts a second of silence everywhere; closes what idles too long."""
        for connection in self.busy:
            connection.quiet_s += seconds
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


def _probe(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in PROBES.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_MOST_MS)


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
        """Closes what idles; call it once a second."""
        for pool in self._pools.values():
            pool.sweep()
        for pool in self._leaving:
            pool.sweep()
        self._leaving = [pool for pool in self._leaving if pool.busy]

    def close(self) -> None:
        self.keep_only(())
