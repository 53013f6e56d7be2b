"""A small real upstream server whose answers a test writes itself, byte by byte if it wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType

USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


@dataclass(slots=True)
class Request:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict:
        fields: dict = json.loads(self.body)
        return fields


@dataclass(slots=True)
class Peer:
    """The connection that a script answers on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, *pieces: bytes) -> None:
        """Sends pieces, each as its own packet as far as that can be forced."""
        for piece in pieces:
            if self.writer.is_closing():
                raise ConnectionResetError
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)

    async def wait_until_closed(self) -> None:
        await self.reader.read(1)

    def cut(self) -> None:
        """Drops the connection at once."""
        self.writer.transport.abort()


Script = Callable[[Request, Peer], Awaitable[None]]


def head(*, kind: str = "application/json", length: int | None = None, status: str = "200 OK") -> bytes:
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{framing}\r\n\r\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def event(text: str = "tok", **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return b"data: " + json.dumps({"id": "c1", "choices": [choice], **more}).encode() + b"\n\n"


def usage_event() -> bytes:
    return b"data: " + json.dumps({"id": "c1", "choices": [], "usage": USAGE}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def plain_body(text: str = "Paris") -> bytes:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    fields = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}
    return json.dumps(fields).encode()


async def answer(request: Request, peer: Peer) -> None:
    """What a well-behaved engine does: three tokens, streamed or plain, usage when asked for."""
    if not request.json.get("stream"):
        body = plain_body()
        await peer.send(head(length=len(body)) + body)
        return
    await peer.send(head(kind="text/event-stream"))
    await peer.send(*[chunk(event(f"tok{number}")) for number in range(3)])
    if (request.json.get("stream_options") or {}).get("include_usage"):
        await peer.send(chunk(usage_event()))
    await peer.send(chunk(DONE), LAST_CHUNK)


def make_no(status: str) -> Script:
    """An engine that refuses everything so."""

    async def refuse(_request: Request, peer: Peer) -> None:
        body = b'{"error":{"message":"no","type":"x"}}'
        await peer.send(head(length=len(body), status=status) + body)

    return refuse


@dataclass
class Engine:
    """`async with Engine(script) as engine`: serves on `engine.port` and remembers what it was asked."""

    script: Script = answer
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    aborted: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Engine:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 24)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                await self.script(request, Peer(reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            self.aborted += 1
        except asyncio.CancelledError:
            pass
        finally:
            self._tasks.discard(task)
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    line, *rest = raw.decode().rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(line, headers, body)
