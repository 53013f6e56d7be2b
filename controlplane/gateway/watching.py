"""Another gateway process as this one sees it: what it said last, and a connection on which it is asked for that again
and again. Its end tells at once that the process has ended, its silence that it hangs.

Guarantees
    A process counts from its first answer on. One that is silent is given up by `domain.ownership.is_hung`, which
    spares one that only waits for a CPU, and counts again when it answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from controlplane.domain.ownership import could_have_answered_s, is_hung
from controlplane.gateway.passing import PeerPool
from controlplane.lib import cpu_time
from controlplane.lib.cpu_time import CpuTime
from controlplane.lib.gateway_members import Member

logger = logging.getLogger(__name__)

ADDRESS = "/member"  # where a process says what it is, at its internal address
FIRST_ANSWER_S = 1.0
_PEER_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid
_HEAD = re.compile(rb"HTTP/1\.1 (\d{3}) .*?\r\ncontent-length: (\d+)(?=\r\n).*?\r\n\r\n", re.DOTALL | re.IGNORECASE)
_decoder = msgspec.json.Decoder(Member)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another gateway process, and the connections to it."""

    id: str
    pool: PeerPool


class _Watch(asyncio.Protocol):
    """A connection on which nothing is said but a question and its answer; `pid` is that of who listens there."""

    def __init__(self, question: bytes, on_answer: Callable[[bytes], None], on_lost: Callable[[_Watch], None]) -> None:
        self.pid: int | None = None
        self.asked_at: float | None = None  # of the monotonic clock; None = nothing is owed
        self.cpu: CpuTime | None = None  # of the other process, when it was asked
        self.first = asyncio.Event()
        self._question = question
        self._on_answer = on_answer
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._closed = False
        self._got = b""

    def ask(self, now: float) -> None:
        if self._transport is not None:
            self.asked_at, self.cpu = now, None if self.pid is None else cpu_time.read(self.pid)
            self._transport.write(self._question)

    def close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class
        self.pid = _listener(transport.get_extra_info("socket"))
        if self._closed:
            transport.close()

    def data_received(self, data: bytes) -> None:
        self._got += data
        head = _HEAD.match(self._got)
        if head is None or len(self._got) < head.end() + int(head[2]):
            return
        words, self._got, self.asked_at = self._got[head.end() :], b"", None
        self._on_answer(words if head[1] == b"200" else b"")
        self.first.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.first.set()
        self._on_lost(self)


class Known:
    """`is_up` while it answers, or while a lost connection is made again; `is_hung` when it was given up although its
    connection stands. `on_change` is called when any of that may have changed.

    `beaten_at` is when it was last heard of through Valkey, of the monotonic clock.
    """

    def __init__(self, member: Member, path: str, now: float, on_change: Callable[[], None]) -> None:
        self.member = member
        self.peer = Peer(member.id, PeerPool(path, member.address, member.token))
        self.beaten_at = now
        self.is_up = False
        self.is_hung = False
        self.connecting: asyncio.Task[None] | None = None
        self._watch: _Watch | None = None
        self._on_change = on_change

    def told(self, member: Member) -> None:
        """Takes what it says of itself, unless something newer is known."""
        if member.said >= self.member.said:
            self.member = member

    def connect(self) -> asyncio.Task[None] | None:
        """Begins to connect where no connection stands; returns what is going on."""
        if self._watch is None and self.connecting is None:
            self.connecting = asyncio.create_task(self._connect(), name=f"watch {self.peer.id}")
        return self.connecting

    def look(self, now: float, late_s: float) -> bool:
        """Asks it again, or returns True when it has just been given up. By `late_s` we are late ourselves."""
        watch = self._watch
        if watch is None or self.connecting is not None:
            return False
        if watch.asked_at is None:
            watch.ask(now)
            return False
        watch.asked_at += late_s
        silent_s = now - watch.asked_at
        if not self.is_up or not is_hung(silent_s, _could_s(watch, silent_s)):
            return False
        logger.warning("the gateway process %s hangs: it has said nothing for %.1f s", self.peer.id, silent_s)
        self.is_up, self.is_hung = False, True
        return True

    def down(self) -> None:
        """It counts no more, until it takes a connection and answers."""
        if self.is_up:
            told = logger.info if self.member.state == "leaving" else logger.warning
            told("the gateway process %s is gone", self.peer.id)
        self.is_up = self.is_hung = False
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
        pool = self.peer.pool
        watch = self._watch = _Watch(pool.message(b"GET", ADDRESS, [], [], b""), self._answered, self._lost)
        try:
            await pool.watch(lambda: watch)
            watch.ask(time.monotonic())
            async with asyncio.timeout(FIRST_ANSWER_S):
                await watch.first.wait()
        except OSError:  # TimeoutError is one
            if watch.asked_at is None:
                self._watch = None
            else:
                self.is_up = False  # it takes connections: it may still answer
        if self._watch is not watch:
            self.down()
        self.connecting = None
        self._on_change()

    def _answered(self, words: bytes) -> None:
        if words:
            with contextlib.suppress(msgspec.MsgspecError):  # of another version, which lives nevertheless
                self.told(_decoder.decode(words))
        if self.is_hung:
            logger.info("the gateway process %s answers again", self.peer.id)
        self.is_up, self.is_hung = True, False
        self._on_change()

    def _lost(self, watch: _Watch) -> None:
        """The connection has ended, as a rule because its process has."""
        if self._watch is not watch:
            return
        self._watch = None
        if self.is_hung:
            self.down()
            self._on_change()
        elif self.is_up:
            self.connect()


def _could_s(watch: _Watch, silent_s: float) -> float | None:
    before, now = watch.cpu, None if watch.pid is None else cpu_time.read(watch.pid)
    if before is None or now is None:
        return None
    ran_s, waited_s = now.ran_s - before.ran_s, now.waited_s - before.waited_s
    return could_have_answered_s(silent_s, ran_s, waited_s, wants_cpu=now.wants_cpu)


def _listener(connection: socket.socket) -> int | None:
    """Returns the process that listens at the other end of a unix socket."""
    if connection.family != socket.AF_UNIX:
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    pid: int = _PEER_CREDENTIALS.unpack(raw)[0]
    return pid or None
