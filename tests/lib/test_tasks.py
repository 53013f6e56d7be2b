from __future__ import annotations

import asyncio

from controlplane.lib.tasks import end_all


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    async def loses_one() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)

    tasks = [asyncio.create_task(loses_one()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.sleep(0)
    await end_all(tasks)
    assert all(task.cancelled() for task in tasks)


async def test_tasks_that_have_ended_are_left_alone() -> None:
    task = asyncio.create_task(asyncio.sleep(0, "done"))
    await task
    await end_all([task])
    assert task.result() == "done"
