"""Sends one small tick a second to the sockets of all console processes; one process at a time does it.

The one that holds a lease of a few seconds in Valkey sends; when it dies another takes over. Once a minute it also
clears away what producers that are gone left behind.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time

import redis.asyncio

from controlplane.lib import ids, keys, sample_store, tasks, valkey
from controlplane.telemetry.services.notify import TICKS

logger = logging.getLogger(__name__)

LEASE = "telemetry-tick"
LEASE_MS = 3000
RELEASE_S = 0.4
AGAIN_AFTER_S = 1.0
# producers write at the beginning of a second; half a second later it has arrived
PHASE_S = 0.5
CLEAR_EVERY_S = 60.0

# takes or renews the lease in one step, so that nobody renews another's
_TAKE = """
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] or not holder then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return 1
end
return 0
"""
_RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


class Pump:
    """The ticking of one process."""

    def __init__(self) -> None:
        self._id = ids.new_id()
        self._task: asyncio.Task[None] | None = None
        self._cleared_at = 0.0
        self._ticked = 0  # the second of the newest tick

    def start(self) -> None:
        """Begins to tick, or to wait for the lease."""
        self._task = asyncio.create_task(tasks.keep_running("the ticking", self._run, AGAIN_AFTER_S))

    async def stop(self) -> None:
        """Ends and gives the lease back."""
        task, self._task = self._task, None
        await tasks.end(task)

    async def _run(self) -> None:
        client = valkey.connect_async()
        try:
            while True:
                await asyncio.sleep(1.0 - (time.time() - PHASE_S) % 1.0)
                await self._second(client)
        finally:
            try:
                async with asyncio.timeout(RELEASE_S):
                    await client.eval(_RELEASE, 1, keys.telemetry_lease(LEASE), self._id)
            except (TimeoutError, *valkey.ERRORS):
                logger.debug("the lease runs out by itself")
            finally:  # in a task that is cancelled a time-out may be told as one more cancellation
                await client.aclose()

    async def _second(self, client: redis.asyncio.Redis) -> None:
        try:
            if not await client.eval(_TAKE, 1, keys.telemetry_lease(LEASE), self._id, LEASE_MS):
                return
            second = int(time.time())
            if second == self._ticked:
                return  # woken so late last time that this one still falls into the same second
            self._ticked = second
            await client.publish(keys.announced(TICKS), json.dumps({"t": second}))
            if time.monotonic() - self._cleared_at > CLEAR_EVERY_S:
                self._cleared_at = time.monotonic()
                await sample_store.drop_stale_sources(client, time.time())
        except valkey.ERRORS as error:
            logger.debug("no tick: %s", error)
