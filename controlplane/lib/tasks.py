"""Ending asyncio tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_AFTER_S = 0.5


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancels the tasks and returns when all have ended.

    The cancellation is repeated: up to Python 3.11 `asyncio.wait_for` loses one that comes in the same moment as the
    result, and the Valkey client waits with it. What a task raised is left in the task.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_AFTER_S)
