"""What the gateway owes to Valkey: samples, roll-ups and usage, with a backlog for the time it is down.

Guarantees
    Samples: only the newest second is worth writing, an older one is dropped. Roll-ups: the oldest are dropped beyond
    `ROLLUP_BACKLOG`. Usage is never dropped silently: a batch keeps its id until Valkey has taken it, so that a batch
    sent twice can be counted once; what comes meanwhile is added up by minute, key and deployment; at the end of the
    process the rest goes to disk for the next one. Beyond `USAGE_ROWS_MAX` rows are lost, which a counter tells.
    A process that is killed loses what ended since the last second's write (and while Valkey is down, since that went),
    besides what was still running.
Concurrency
    `run` is one task; `add` is called from the same loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from pathlib import Path

import msgspec
import redis.asyncio
from redis.asyncio.client import Pipeline

from controlplane.domain.rollups import Rollup
from controlplane.domain.usage import UsageRow
from controlplane.gateway.metering import Meter, UsageKey, Used
from controlplane.gateway.sampling import Turn
from controlplane.lib import keys, sample_store, valkey
from controlplane.lib.ids import new_id

logger = logging.getLogger(__name__)

USAGE_ROWS_MAX = 100_000
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
        self._path = _backlog(folder, slot)
        self._left_over = _left_over(folder, processes) if slot == 0 else []
        self._turn: Turn | None = None
        self._rollups: deque[Rollup] = deque()
        self._pending: dict[UsageKey, Used] = {}
        self._batches: deque[list[UsageRow]] = deque()  # the first may have been sent, so it may not change any more
        self._news = asyncio.Event()

    @property
    def usage_backlog(self) -> int:
        """Rows of usage that Valkey has not taken yet."""
        return len(self._pending) + sum(len(batch) for batch in self._batches)

    def add(self, turn: Turn) -> None:
        """Takes over what a second brought."""
        if self._turn is not None:
            self.samples_dropped += len(self._turn.parts)
        self._turn = turn
        self._rollups.extend(turn.rollups)
        while len(self._rollups) > ROLLUP_BACKLOG:
            self._rollups.popleft()
            self.rollups_dropped += 1
        self._take_usage()
        self._news.set()

    async def run(self, client: redis.asyncio.Redis) -> None:
        """Writes whenever there is news; ends only when cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._write(client, time.time())
            except valkey.ERRORS as error:
                logger.debug("nothing written: %s", error)  # the snapshot's follower tells when Valkey goes

    async def close(self, client: redis.asyncio.Redis) -> None:
        """Writes the rest; what Valkey does not take in time goes to disk."""
        self._take_usage()
        try:
            async with asyncio.timeout(LAST_FLUSH_S):
                signs = client.pipeline(transaction=False)
                signs.zrem(keys.gateways(), self._gateway_id)
                await self._write_usage(signs)
        except valkey.ERRORS:  # TimeoutError is an OSError
            self._keep()

    def load(self) -> None:
        """Takes over the usage that earlier processes could not deliver."""
        for path in (self._path, *self._left_over):
            try:
                batches = msgspec.json.decode(path.read_bytes(), type=list[list[UsageRow]])
            except FileNotFoundError:
                continue
            except (OSError, msgspec.DecodeError, RecursionError) as error:
                logger.error("undelivered usage in %s can't be read and stays there: %s", path, error)
                continue
            self._batches.extend(batches)
            path.unlink()

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
            self._batches.append(self._batch())
        while self._batches:
            fields = {"usage": msgspec.json.encode(self._batches[0])}
            pipeline.xadd(keys.usage(), fields, maxlen=USAGE_STREAM_MAX, approximate=True)  # type: ignore[arg-type]
            await pipeline.execute()
            self._batches.popleft()
        await pipeline.execute()

    def _batch(self) -> list[UsageRow]:
        pending, self._pending = self._pending, {}
        batch_id = new_id(16)
        return [
            UsageRow(
                *address, used.requests, used.errors, used.prompt_tokens, used.completion_tokens, batch_id=batch_id
            )
            for address, used in pending.items()
        ]

    def _take_usage(self) -> None:
        for address, used in self._meter.take_usage().items():
            kept = self._pending.get(address)
            if kept is not None:
                kept.requests += used.requests
                kept.errors += used.errors
                kept.prompt_tokens += used.prompt_tokens
                kept.completion_tokens += used.completion_tokens
            elif len(self._pending) < USAGE_ROWS_MAX:
                self._pending[address] = used
            else:
                self.rows_lost += 1
                logger.error("usage backlog full: %d requests of %s are lost", used.requests, address[1])

    def _keep(self) -> None:
        if self._pending:
            self._batches.append(self._batch())
        if not self._batches:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(msgspec.json.encode(list(self._batches)))
        except OSError as error:
            logger.error("%d rows of usage are lost: %s", self.usage_backlog, error)


def _backlog(folder: Path, slot: int) -> Path:
    """Each of several processes has its own, named by its place and not by its id, so that the next one finds it."""
    return folder / (f"usage-backlog.{slot}.json" if slot else "usage-backlog.json")


def _left_over(folder: Path, processes: int) -> list[Path]:
    """What was left by processes for which there is no place any more."""
    taken = {_backlog(folder, slot) for slot in range(processes)}
    return sorted(path for path in folder.glob("usage-backlog.*.json") if path not in taken)
