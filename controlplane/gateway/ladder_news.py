"""Level changes of ladders on their way to the journal: the gateway has no database, so the controller writes them.

Guarantees
    What Valkey has not taken is said again, and so may be said twice; beyond `MOST` the oldest are dropped.
Concurrency
    `run` is one task; `add` is called from the same loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

import redis.asyncio

from controlplane.domain.degradation import Change, LevelChange
from controlplane.lib import keys, valkey, wire

logger = logging.getLogger(__name__)

MOST = 1000
STREAM_MOST = 10_000
AGAIN_AFTER_S = 1.0


class LadderNews:
    """What has changed and is not told yet."""

    def __init__(self) -> None:
        self.untold: deque[LevelChange] = deque(maxlen=MOST)
        self._news = asyncio.Event()

    def add(self, deployment: str, change: Change, at: float) -> None:
        """Notes a change; `at` is UTC seconds."""
        value = change.numbers.get("saturation", 0.0)
        self.untold.append(
            LevelChange(deployment, at, change.before, change.after, change.step.kind, change.why, value, change.tiers)
        )
        self._news.set()

    async def run(self, client: redis.asyncio.Redis) -> None:
        """Tells whatever there is; ends only when cancelled."""
        while True:
            await self._news.wait()
            try:
                while self.untold:
                    fields = {"change": wire.encode(self.untold[0])}
                    await client.xadd(keys.ladder_changes(), fields, maxlen=STREAM_MOST, approximate=True)  # type: ignore[arg-type]
                    self.untold.popleft()
                self._news.clear()
            except valkey.ERRORS as error:
                logger.debug("level changes are not told yet: %s", error)  # the snapshot's follower tells
                await asyncio.sleep(AGAIN_AFTER_S)
