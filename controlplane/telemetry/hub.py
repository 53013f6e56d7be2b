"""One process's view of live data: reads Valkey once a second for all its sockets and wakes them.

Guarantees
    However many sockets and subjects there are, a second costs one pipeline of newest parts (and one of log lines when
    somebody watches a log) and one encoding a subject. Nothing is queued: a socket finds the newest when it looks.
    When ticks stay away (the process that sends them died, Valkey is down) the hub ticks by itself.
    When Valkey is away the hub says so (`is_available`), tries on, and goes on by itself.
    It listens again after whatever ended its listening, and when nothing has come for so long that the connection must
    be dead, as one is whose other end has vanished.
Concurrency
    One hub an event loop; it runs while there are sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import redis.asyncio

from controlplane.lib import keys, sample_store, tasks, valkey
from controlplane.lib.sample_store import Sample
from controlplane.telemetry import frames
from controlplane.telemetry.frames import LogLine
from controlplane.telemetry.services.notify import CHANGES, TICKS

logger = logging.getLogger(__name__)

OWN_TICK_AFTER_S = 2.0
AGAIN_AFTER_S = 1.0
SILENT_S = 10.0  # ticks come each second
LEAST_GAP_S = 0.2  # between two refreshes, however often sockets ask
LOG_LINES_KEPT = 500
HISTORIES_AT_ONCE = 2


class Listener(Protocol):
    """A socket as the hub sees it."""

    def tick(self) -> None:
        """Something newer is there."""

    def changed(self, message: Mapping[str, Any]) -> None:
        """An object changed."""


class Hub:
    """The live data of one event loop."""

    def __init__(self) -> None:
        self.frames: dict[str, tuple[int, str]] = {}  # subject -> (t, frame)
        self.logs: dict[str, deque[LogLine]] = {}  # replica id -> newest lines
        self.is_available = True
        self._watched: dict[str, int] = {}  # subject -> sockets
        self._watched_logs: dict[str, int] = {}  # replica id -> sockets
        self._listeners: set[Listener] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._tick = asyncio.Event()
        self._client: redis.asyncio.Redis | None = None
        self._histories = asyncio.Semaphore(HISTORIES_AT_ONCE)

    def join(self, listener: Listener) -> None:
        """Adds a socket; the first one starts the hub."""
        self._listeners.add(listener)
        if not self._tasks:
            self._client = valkey.connect_async()
            works = {"listening for changes": self._listen, "reading samples": self._refresh_forever}
            self._tasks = [
                asyncio.create_task(tasks.keep_running(what, work, AGAIN_AFTER_S)) for what, work in works.items()
            ]

    async def leave(self, listener: Listener) -> None:
        """Removes a socket; the last one stops the hub."""
        self._listeners.discard(listener)
        if not self._listeners:
            await self.close()

    async def close(self) -> None:
        """Stops reading and wakes nobody any more."""
        running, self._tasks = self._tasks, []
        client, self._client = self._client, None
        await tasks.end(*running)
        if client is not None:
            await client.aclose()
        self.frames, self.logs = {}, {}

    def watch(self, subjects: Iterable[str], logs: Iterable[str] = ()) -> None:
        """Counts a socket's subjects in."""
        for subject in subjects:
            self._watched[subject] = self._watched.get(subject, 0) + 1
        for replica_id in logs:
            self._watched_logs[replica_id] = self._watched_logs.get(replica_id, 0) + 1

    def unwatch(self, subjects: Iterable[str], logs: Iterable[str] = ()) -> None:
        """Counts a socket's subjects out; what nobody watches is forgotten."""
        for subject in subjects:
            if _count_down(self._watched, subject):
                self.frames.pop(subject, None)
        for replica_id in logs:
            if _count_down(self._watched_logs, replica_id):
                self.logs.pop(replica_id, None)

    def tick(self) -> None:
        """Asks for a refresh now."""
        self._tick.set()

    async def history(self, subject: str, since_s: float, now: float) -> list[Sample]:
        """Returns a subject's seconds from the ring; few at once, merged beside the loop."""
        async with self._histories:
            if self._client is None:
                return []
            entries = await sample_store.ring_entries(self._client, subject, since_s)
            return await asyncio.to_thread(sample_store.merge_ring, entries, since_s, now)

    async def _refresh_forever(self) -> None:
        while True:
            try:
                await self._refresh()
                self._available(True)
            except valkey.ERRORS as error:
                self._available(False, error)
            for listener in list(self._listeners):
                listener.tick()
            await asyncio.sleep(LEAST_GAP_S)
            await self._next_tick()

    async def _refresh(self) -> None:
        client = self._client
        if client is None:
            return
        now = time.time()
        subjects = list(self._watched)
        found = await sample_store.newest_async(client, subjects, now) if subjects else {}
        for subject in subjects:
            if subject in self._watched:
                self.frames[subject] = frames.sample(subject, found.get(subject), now)
        await self._refresh_logs(client)

    async def _refresh_logs(self, client: redis.asyncio.Redis) -> None:
        replicas = list(self._watched_logs)
        if not replicas:
            return
        pipeline = client.pipeline(transaction=False)
        for replica_id in replicas:
            known = self.logs.get(replica_id)
            if known:
                pipeline.xrange(keys.engine_log(replica_id), min=b"(" + known[-1].id, count=LOG_LINES_KEPT)
            else:
                pipeline.xrevrange(keys.engine_log(replica_id), count=LOG_LINES_KEPT)
        for replica_id, entries in zip(replicas, await pipeline.execute(), strict=True):
            if replica_id in self._watched_logs:
                lines = self.logs.setdefault(replica_id, deque(maxlen=LOG_LINES_KEPT))
                lines.extend(_log_lines(entries if lines else reversed(entries)))

    async def _next_tick(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OWN_TICK_AFTER_S if self.is_available else AGAIN_AFTER_S):
                await self._tick.wait()
        self._tick.clear()

    async def _listen(self) -> None:
        """Takes ticks and changes, on a connection of its own, until that fails or falls silent."""
        client = valkey.connect_async()
        try:
            async with client.pubsub() as announced:
                await announced.subscribe(keys.announced(TICKS), keys.announced(CHANGES))
                while (message := await announced.get_message(timeout=SILENT_S)) is not None:
                    if message["type"] == "message":
                        self._receive(message["channel"].decode(), message["data"])
        except valkey.ERRORS as error:
            logger.debug("not listening: %s", error)  # what reads samples says it aloud
        finally:
            await client.aclose()

    def _receive(self, channel: str, data: bytes) -> None:
        if channel == keys.announced(TICKS):
            self._tick.set()
            return
        try:
            found = json.loads(data)
            change = {name: str(found[name]) for name in ("object_kind", "object_id", "verb")}
        except (ValueError, TypeError, KeyError):
            logger.warning("a change was announced that can't be read: %.100r", data)
            return
        for listener in list(self._listeners):
            listener.changed(change)

    def _available(self, now: bool, error: Exception | None = None) -> None:
        if now != self.is_available:
            self.is_available = now
            if error is None:
                logger.info("live data: Valkey answers again")
            else:
                logger.warning("live data: Valkey can't be read: %s", error)


_HUBS: WeakKeyDictionary[asyncio.AbstractEventLoop, Hub] = WeakKeyDictionary()


def current() -> Hub:
    """Returns the hub of the running loop."""
    loop = asyncio.get_running_loop()
    hub = _HUBS.get(loop)
    if hub is None:
        hub = _HUBS[loop] = Hub()
    return hub


def _count_down(counts: dict[str, int], name: str) -> bool:
    left = counts.get(name, 0) - 1
    if left > 0:
        counts[name] = left
        return False
    counts.pop(name, None)
    return True


def _log_lines(entries: Iterable[tuple[bytes, Mapping[bytes, bytes]]]) -> Iterable[LogLine]:
    for entry_id, fields in entries:
        number = fields.get(b"n", b"0")
        yield LogLine(
            entry_id, int(number) if number.isdigit() else 0, fields.get(b"line", b"").decode("utf-8", "replace")
        )
