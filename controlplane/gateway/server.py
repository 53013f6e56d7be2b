"""What the gateway adds to uvicorn: head and first piece of an answer in one write, limits on request heads, signals.

uvicorn hands the head of an answer to the transport before its body, and uvloop writes at once, so every answer costs
two system calls and often two packets. Here the head is held until the first piece follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_CONTINUE = b"HTTP/1.1 100 "


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol with joined writes."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # an answer to HEAD has no body to wait for
            HeadKeeper(self.cycle)


class HeadKeeper:
    """Stands before a cycle's transport until the first piece of the body is written."""

    __slots__ = ("_cycle", "_head", "_transport")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._transport = cycle.transport
        self._head = b""
        cycle.transport = self  # type: ignore[assignment]

    def write(self, data: bytes) -> None:
        if self._head:
            self._cycle.transport = self._transport
            self._transport.write(self._head + data)
            self._head = b""
        elif data.startswith(_CONTINUE):
            self._transport.write(data)
        else:
            self._head = data

    def close(self) -> None:
        if self._head:
            self._transport.write(self._head)
            self._head = b""
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Server(uvicorn.Server):
    """uvicorn's server with signals that end it with exit status 0."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield
