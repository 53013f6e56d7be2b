"""Another gateway process as this one sees it: what it said last, and a connection on which nothing is said, whose end
tells at once that the process has ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from controlplane.gateway.passing import PeerPool
from controlplane.lib.gateway_members import Member

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another gateway process, and the connections to it."""

    id: str
    pool: PeerPool


class _Watch(asyncio.Protocol):
    """A connection on which nothing is said."""

    def __init__(self, on_lost: Callable[[_Watch], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.BaseTransport | None = None
        self._closed = False

    def close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        if self._closed:
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost(self)


class Known:
    """`is_up` while a connection to it stands, or is being made again; `on_change` is called when that may change.

    `beaten_at` is when it was last heard of, of the monotonic clock.
    """

    def __init__(self, member: Member, path: str, now: float, on_change: Callable[[], None]) -> None:
        self.member = member
        self.peer = Peer(member.id, PeerPool(path, member.address, member.token))
        self.beaten_at = now
        self.is_up = False
        self.connecting: asyncio.Task[None] | None = None
        self._watch: _Watch | None = None
        self._on_change = on_change

    def connect(self) -> asyncio.Task[None] | None:
        """Begins to connect where no connection stands; returns what is going on."""
        if self._watch is None and self.connecting is None:
            self.connecting = asyncio.create_task(self._connect(), name=f"watch {self.peer.id}")
        return self.connecting

    def down(self) -> None:
        """It counts no more, until it takes a connection."""
        if self.is_up:
            told = logger.info if self.member.state == "leaving" else logger.warning
            told("the gateway process %s is gone", self.peer.id)
        self.is_up = False
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def forget(self) -> asyncio.Task[None] | None:
        """Nothing new goes to it; returns what may still be ending."""
        if self.connecting is not None:
            self.connecting.cancel()
        self.down()
        self.peer.pool.retire()
        return self.connecting

    async def _connect(self) -> None:
        watch = self._watch = _Watch(self._lost)
        try:
            await self.peer.pool.watch(lambda: watch)
        except OSError:  # TimeoutError is one
            self._watch = None
            self.down()
        else:
            self.is_up = self._watch is watch  # else it was lost at once
        self.connecting = None
        self._on_change()

    def _lost(self, watch: _Watch) -> None:
        """The connection has ended: because its process has, or because it was silent for long."""
        if self._watch is not watch:
            return
        self._watch = None
        if self.is_up:
            self.connect()
