"""What the gateway owes to Valkey: samples, roll-ups and usage, with a backlog for the time it is down.

Guarantees
    Samples: only the newest second is worth writing, an older one is dropped. Roll-ups: the oldest are dropped beyond
    `ROLLUP_BACKLOG`. Usage is never dropped silently: a batch keeps its id until Valkey has taken it, so that a batch
    sent twice can be counted once; what comes meanwhile is added up by minute, key and deployment. Beyond
    `USAGE_ROWS_MAX` rows are lost, which a counter tells. What Valkey has not taken for a second goes to disk, as does
    the rest at the end, for the next process: one that is killed loses what ended in the last second (in
    two where Valkey has gone just before), besides what was still running.
Concurrency
    `run` and `keep` are one task each; `add` is called from the same loop. The disk is written in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from pathlib import Path

import redis.asyncio
from redis.asyncio.client import Pipeline

from controlplane.domain.rollups import Rollup
from controlplane.domain.usage import UsageRow
from controlplane.gateway.backlog import Backlog, Batch
from controlplane.gateway.metering import Meter, UsageKey, Used
from controlplane.gateway.sampling import Turn
from controlplane.lib import keys, sample_store, valkey
from controlplane.lib.ids import new_id

logger = logging.getLogger(__name__)

USAGE_ROWS_MAX = 100_000
BATCH_ROWS = 1_000  # so many of them are copied for the disk in a second; more stay as they are
DISK_SHARE = 0.05  # of the time, where writing takes long
USAGE_STREAM_MAX = 1_000_000  # batches, of each process one a second: for the time that nobody takes them
ROLLUP_BACKLOG = 20_000
LAST_FLUSH_S = 2.0
GATEWAY_FORGOTTEN_AFTER_S = 3600.0


class Outbox:
    """Writes what the gateway counts."""

    def __init__(self, meter: Meter, gateway_id: str, folder: Path, slot: int = 0, processes: int = 1) -> None:
        self.rows_lost = 0
        self.samples_dropped = 0
        self.rollups_dropped = 0
        self._meter = meter
        self._gateway_id = gateway_id
        self._backlog = Backlog(folder, slot, processes)
        self._turn: Turn | None = None
        self._rollups: deque[Rollup] = deque()
        self._pending: dict[UsageKey, Used] = {}
        self._pending_id = new_id(16)  # under which they will be sent, and lie on disk before
        self._batches: deque[Batch] = deque()  # the first may have been sent, so it may not change any more
        self._news = asyncio.Event()
        self._for_disk = asyncio.Event()
        self._is_on_disk = False
        self._is_away = False  # Valkey, at the last try
        self._writings = 0

    @property
    def usage_backlog(self) -> int:
        """Rows of usage that Valkey has not taken yet."""
        return len(self._pending) + sum(batch.rows for batch in self._batches)

    def add(self, turn: Turn) -> None:
        """Takes over what a second brought."""
        if self._turn is not None:
            self.samples_dropped += len(self._turn.parts)
        self._turn = turn
        self._rollups.extend(turn.rollups)
        while len(self._rollups) > ROLLUP_BACKLOG:
            self._rollups.popleft()
            self.rollups_dropped += 1
        had = self._pending or self._batches  # since a second
        self._take_usage()
        if had or self._is_away:
            self._for_disk.set()
        self._news.set()

    async def run(self, client: redis.asyncio.Redis) -> None:
        """Writes whenever there is news; ends only when cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._write(client, time.time())
                self._is_away = False
            except valkey.ERRORS as error:
                self._is_away = True
                logger.debug("nothing written: %s", error)  # the snapshot's follower tells when Valkey goes

    async def keep(self) -> None:
        """Keeps on disk what Valkey has not taken for a second, as long as it has not; ends only when cancelled."""
        while True:
            await self._for_disk.wait()
            self._for_disk.clear()
            began = time.monotonic()
            self._is_on_disk = bool(self._pending or self._batches)
            self._writings += 1
            await asyncio.to_thread(self._backlog.replace, self._writings, self._owed())
            await asyncio.sleep((time.monotonic() - began) * (1 / DISK_SHARE - 1))

    async def close(self, client: redis.asyncio.Redis) -> None:
        """Writes the rest; what Valkey does not take in time goes to disk."""
        self._take_usage()
        try:
            async with asyncio.timeout(LAST_FLUSH_S):
                signs = client.pipeline(transaction=False)
                signs.zrem(keys.gateways(), self._gateway_id)
                await self._write_usage(signs)
        except valkey.ERRORS:  # TimeoutError is an OSError
            logger.info("%d rows of usage are left to the next process", self.usage_backlog)
        if not self._backlog.replace(self._writings + 1, self._owed()):
            logger.error("%d rows of usage are lost", self.usage_backlog)

    def load(self) -> None:
        """Takes over the usage that earlier processes could not deliver."""
        self._batches.extend(self._backlog.load())
        self._writings = 1
        self._is_on_disk = bool(self._batches)

    async def _write(self, client: redis.asyncio.Redis, now: float) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            await sample_store.write(client, turn.parts, now)
        while self._rollups:
            some = [self._rollups[index] for index in range(min(500, len(self._rollups)))]
            await sample_store.write_rollups(client, some)
            for _ in some:
                self._rollups.popleft()
        signs = client.pipeline(transaction=False)
        signs.zadd(keys.gateways(), {self._gateway_id: now})
        signs.zremrangebyscore(keys.gateways(), "-inf", now - GATEWAY_FORGOTTEN_AFTER_S)  # killed ones say no goodbye
        await self._write_usage(signs)

    async def _write_usage(self, pipeline: Pipeline) -> None:
        """Sends what is in the pipeline and usage with it: a batch a round trip, so that each is known to be taken."""
        if self._pending and not self._batches:
            self._seal()
        while self._batches:
            fields = {"usage": self._batches[0].encoded}
            pipeline.xadd(keys.usage(), fields, maxlen=USAGE_STREAM_MAX, approximate=True)  # type: ignore[arg-type]
            await pipeline.execute()
            self._batches.popleft()
            if not self._batches and self._is_on_disk:
                self._for_disk.set()
        await pipeline.execute()

    def _seal(self) -> None:
        """Makes a batch of what has come; what comes from now on belongs to another one."""
        self._batches.append(self._batch())
        self._pending, self._pending_id = {}, new_id(16)

    def _batch(self) -> Batch:
        return Batch(
            [
                UsageRow(
                    *address,
                    used.requests,
                    used.errors,
                    used.prompt_tokens,
                    used.completion_tokens,
                    batch_id=self._pending_id,
                )
                for address, used in self._pending.items()
            ]
        )

    def _owed(self) -> list[Batch]:
        """What Valkey has not taken yet, under the ids under which it will get it."""
        return [*self._batches, self._batch()] if self._pending else list(self._batches)

    def _take_usage(self) -> None:
        for address, used in self._meter.take_usage().items():
            kept = self._pending.get(address)
            if kept is not None:
                kept.requests += used.requests
                kept.errors += used.errors
                kept.prompt_tokens += used.prompt_tokens
                kept.completion_tokens += used.completion_tokens
            elif self.usage_backlog < USAGE_ROWS_MAX:
                self._pending[address] = used
                if len(self._pending) >= BATCH_ROWS:
                    self._seal()
            else:
                self.rows_lost += 1
                logger.error("usage backlog full: %d requests of %s are lost", used.requests, address[1])
