"""Asyncio tasks that go on for certain, and end for certain.

On Python 3.11 `asyncio.wait_for` loses a cancellation that arrives in the moment in which what it waits for is done
(mended in 3.12). The Redis client sends every command under `wait_for`, so a task that talks to Valkey loses its
cancellation often, and whoever cancelled it once and waits would wait for ever. Own code uses `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

logger = logging.getLogger(__name__)

AGAIN_AFTER_S = 0.5


async def keep_running(what: str, work: Callable[[], Awaitable[None]], again_after_s: float) -> None:
    """Does the work for ever: again after it has ended, and after an error that nobody expected, which it logs.

    A task that dies by an exception is seen by nobody; what it did would stay undone until the process ends.
    """
    while True:
        try:
            await work()
        except Exception:
            logger.exception("%s has failed and begins anew in %.1f s", what, again_after_s)
        await asyncio.sleep(again_after_s)


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancels the tasks, again and again, until all have ended; None is no task.

    A task that tidies up for longer than `AGAIN_AFTER_S` after its cancellation is interrupted in that.
    """
    left = {task for task in tasks if task is not None and not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_AFTER_S)
