"""Ending asyncio tasks for certain.

On Python 3.11 `asyncio.wait_for` loses a cancellation that arrives in the moment in which what it waits for is done
(mended in 3.12). The Redis client sends every command under `wait_for`, so a task that talks to Valkey loses its
cancellation often, and whoever cancelled it once and waits would wait for ever. Own code uses `asyncio.timeout`.
"""

from __future__ import annotations

import asyncio
from typing import Any

AGAIN_AFTER_S = 0.5


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancels the tasks, again and again, until all have ended; None is no task.

    A task that tidies up for longer than `AGAIN_AFTER_S` after its cancellation is interrupted in that.
    """
    left = {task for task in tasks if task is not None and not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_AFTER_S)
