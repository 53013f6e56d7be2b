"""A small keep-alive HTTP client for `GET /metrics` of one engine.

Guarantees
    One request at a time. An answer that does not come within `TIMEOUT_S`, a broken connection or a status other than
    200 raises ScrapeError, and the next call starts on a new connection. An answer larger than `MAX_BODY_BYTES` is
    refused, so an engine cannot fill the collector's memory.
Concurrency
    One owner task a connection.
"""

from __future__ import annotations

import asyncio
import ssl
from urllib.parse import urlsplit

import httptools

TIMEOUT_S = 0.8
MAX_BODY_BYTES = 8 * 1024 * 1024


class ScrapeError(Exception):
    """The engine gave no usable answer; `code` is `no_answer`, `refused` or `bad_answer`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class MetricsClient:
    """Fetches the metrics of one engine over a connection that it keeps."""

    def __init__(self, url: str, path: str = "/metrics") -> None:
        parts = urlsplit(url)
        self._tls = parts.scheme == "https"
        self._host = parts.hostname or "127.0.0.1"
        self._port = parts.port or (443 if self._tls else 80)
        host = parts.netloc.rpartition("@")[2]
        self._request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: headworks-collector\r\n\r\n".encode()
        self._connection: _Connection | None = None

    async def get(self) -> bytes:
        """Returns the body of one scrape."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._get()
        except TimeoutError:
            self.close()
            raise ScrapeError("no_answer", f"no answer within {TIMEOUT_S} s") from None
        except OSError as error:
            self.close()
            raise ScrapeError("refused", str(error)) from error
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; the next `get` opens another."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def _get(self) -> bytes:
        connection = self._connection
        if connection is None or connection.is_closed:
            connection = await self._connect()
        answer = connection.send(self._request)
        status, body = await answer
        if not connection.keeps_alive:
            self.close()
        if status != 200:
            raise ScrapeError("bad_answer", f"status {status}")
        return body

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        context = ssl.create_default_context() if self._tls else None
        _, connection = await loop.create_connection(_Connection, self._host, self._port, ssl=context)
        self._connection = connection
        return connection


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._body: list[bytes] = []
        self._size_bytes = 0
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.is_closed = False
        self.keeps_alive = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        """Sends a request and returns the future of its status and body."""
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._body, self._size_bytes = [], 0
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        if self._parser is None:
            self.abort()  # bytes that nobody asked for
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ScrapeError("bad_answer", f"not HTTP: {error}"))
            self.abort()

    def on_body(self, body: bytes) -> None:
        self._size_bytes += len(body)
        if self._size_bytes > MAX_BODY_BYTES:
            self._fail(ScrapeError("bad_answer", f"more than {MAX_BODY_BYTES} bytes"))
            self.abort()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        assert self._parser is not None
        self.keeps_alive = self._parser.should_keep_alive()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((self._parser.get_status_code(), b"".join(self._body)))
        self._parser, self._body = None, []

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        self._fail(ConnectionResetError("the engine closed the connection"))

    def abort(self) -> None:
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
