from __future__ import annotations

import asyncio

import pytest

from controlplane.lib import tasks, valkey


async def test_a_task_that_loses_its_cancellation_is_ended_all_the_same() -> None:
    lost = 0

    async def loses_one() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost > 1:
                    raise

    task = asyncio.create_task(loses_one())
    await asyncio.sleep(0)
    await tasks.end(task, None)
    assert (lost, task.cancelled()) == (2, True)


async def test_nothing_to_end_is_no_error() -> None:
    await tasks.end()
    await tasks.end(None)


@pytest.mark.services
async def test_tasks_that_talk_to_valkey_end_at_whatever_moment(valkey_server: str) -> None:
    client = valkey.connect_async(valkey_server)

    async def talk() -> None:
        while True:
            await client.ping()
            await asyncio.sleep(0)

    for moment in range(20):
        task = asyncio.create_task(talk())
        await asyncio.sleep(0.0005 * moment)
        await tasks.end(task)
        assert task.done()
    await client.aclose()


async def test_work_goes_on_after_an_error_that_nobody_expected_and_after_its_own_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = 0
    third = asyncio.Event()

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            raise RuntimeError("nobody expected this")
        if begun == 3:
            third.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(tasks.keep_running("the work", work, 0.0))
    await third.wait()
    await tasks.end(task)
    assert task.cancelled()
    assert "the work has failed" in caplog.text and "nobody expected this" in caplog.text
