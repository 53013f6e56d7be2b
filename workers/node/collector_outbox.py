"""What waits to be written to Valkey: bounded, newest first to survive, one pipeline a turn.

Guarantees
    `put` never blocks and never grows without bound: of samples the oldest seconds are dropped beyond `KEPT_SECONDS`,
    of roll-ups and log lines the oldest beyond their own bounds. What could not be written stays and is tried again;
    a roll-up that was written twice counts once, a log line may appear twice.
Concurrency
    One sender task a process; `put` from the same loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import redis
import redis.asyncio

from controlplane.domain.rollups import Rollup
from controlplane.domain.samples import SamplePart
from controlplane.lib import keys, sample_store, valkey
from workers.node import collector_places
from workers.node.collector_logs import LogLine

logger = logging.getLogger(__name__)

T = TypeVar("T")

KEPT_SECONDS = 60
KEPT_ROLLUPS = 50_000
KEPT_LOG_LINES = 5_000
SECONDS_A_TURN = 10  # of a backlog, so that one pipeline stays small
ROLLUPS_A_TURN = 2_000
LOG_ENTRIES = 1_000
LOG_KEPT_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Second:
    """The parts of one second."""

    at: float
    parts: Sequence[SamplePart]


class Outbox:
    """The backlog of one collector."""

    def __init__(self) -> None:
        self._seconds: deque[Second] = deque(maxlen=KEPT_SECONDS)
        self._rollups: deque[Rollup] = deque(maxlen=KEPT_ROLLUPS)
        self._logs: deque[tuple[str, LogLine]] = deque(maxlen=KEPT_LOG_LINES)  # (replica id, line)
        self._wake = asyncio.Event()
        self._is_down = False
        self.dropped_seconds = 0

    def put(
        self,
        second: Second | None = None,
        rollups: Sequence[Rollup] = (),
        logs: Mapping[str, Sequence[LogLine]] | None = None,
    ) -> None:
        """Adds what one second brought."""
        if second is not None:
            self.dropped_seconds += len(self._seconds) == KEPT_SECONDS
            self._seconds.append(second)
        self._rollups.extend(rollups)
        for replica_id, lines in (logs or {}).items():
            self._logs.extend((replica_id, line) for line in lines)
        self._wake.set()

    def __len__(self) -> int:
        return len(self._seconds)

    async def send_forever(self, client: redis.asyncio.Redis) -> None:
        """Writes what waits, as soon as it waits; after a failure once a second."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._seconds or self._rollups or self._logs:
                if not await self.send(client):
                    await asyncio.sleep(1.0)

    async def send(self, client: redis.asyncio.Redis) -> bool:
        """Writes one pipeline of what waits; returns whether it arrived."""
        seconds = [self._seconds.popleft() for _ in range(min(SECONDS_A_TURN, len(self._seconds)))]
        rollups = [self._rollups.popleft() for _ in range(min(ROLLUPS_A_TURN, len(self._rollups)))]
        logs = [self._logs.popleft() for _ in range(len(self._logs))]
        pipeline = client.pipeline(transaction=False)
        for second in seconds:
            sample_store.queue_parts(pipeline, second.parts, second.at)
        if rollups:
            sample_store.queue_rollups(pipeline, rollups)
        for replica_id, line in logs:
            entry: Any = collector_places.encode(line)
            pipeline.xadd(keys.engine_log(replica_id), entry, maxlen=LOG_ENTRIES, approximate=True)
        for replica_id in {replica_id for replica_id, _ in logs}:
            pipeline.expire(keys.engine_log(replica_id), LOG_KEPT_S)
        try:
            refused = [
                answer for answer in await pipeline.execute(raise_on_error=False) if isinstance(answer, Exception)
            ]
            if refused and len(refused) == len(pipeline):
                raise redis.ResponseError(str(refused[0]))  # still loading, out of memory: later perhaps
        except valkey.ERRORS as error:
            self._give_back(seconds, rollups, logs)
            self._say_down(error)
            return False
        if refused:
            logger.warning("Valkey refused %d of the collector's commands: %s", len(refused), refused[0])
        if self._is_down:
            self._is_down = False
            logger.info("Valkey answers again; %d seconds of samples wait", len(self._seconds))
        return True

    def _give_back(self, seconds: list[Second], rollups: list[Rollup], logs: list[tuple[str, LogLine]]) -> None:
        # the newest are kept: what does not fit in front is the oldest
        _put_back(self._seconds, seconds)
        _put_back(self._rollups, rollups)
        _put_back(self._logs, logs)
        oldest = time.time() - sample_store.RING_S
        while self._seconds and self._seconds[0].at < oldest:
            self._seconds.popleft()

    def _say_down(self, error: Exception) -> None:
        if not self._is_down:
            self._is_down = True
            logger.warning("Valkey can't be written (%s); samples are kept for %d s", error, KEPT_SECONDS)


def _put_back(kept: deque[T], back: list[T]) -> None:
    room = (kept.maxlen or 0) - len(kept)
    if room > 0:
        kept.extendleft(reversed(back[-room:]))
