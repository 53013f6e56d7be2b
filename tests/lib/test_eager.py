from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from controlplane.lib.eager import Eager, Signal, as_task


class Run:
    """A coroutine that was begun, and what has become of it."""

    def __init__(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.ends: list[BaseException | None] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.eager = Eager(coroutine, self.tasks, self.ends.append)
        self.eager.go_on()

    async def until_over(self) -> None:
        async with asyncio.timeout(5):
            while not self.ends:
                await asyncio.sleep(0)


async def test_what_need_not_wait_is_over_when_its_caller_goes_on() -> None:
    async def work() -> None:
        said.append("done")

    said: list[str] = []
    run = Run(work())
    assert said == ["done"]
    assert (run.ends, run.eager.over) == ([None], True)


async def test_who_waits_for_a_signal_goes_on_in_the_call_that_sets_it_and_is_no_task() -> None:
    async def work() -> None:
        await signal
        said.append(asyncio.current_task())

    said: list[object] = []
    signal = Signal()
    run = Run(work())
    assert not run.ends and not run.tasks

    def set_it() -> None:
        signal.set()
        said.append("set")

    asyncio.get_running_loop().call_soon(set_it)
    await run.until_over()
    assert said == [None, "set"]
    signal.set()
    assert run.ends == [None]


async def test_a_signal_that_is_set_already_lets_nobody_wait() -> None:
    async def work() -> None:
        await signal

    signal = Signal()
    signal.set()
    assert Run(work()).ends == [None]
    await signal


async def test_a_task_may_wait_for_a_signal_too() -> None:
    signal = Signal()
    task = asyncio.create_task(_wait_for(signal))
    await asyncio.sleep(0)
    signal.set()
    await task


async def _wait_for(signal: Signal) -> None:
    await signal


@pytest.mark.parametrize("first", ["future", "sleep", "nothing"])
async def test_who_waits_for_anything_else_becomes_a_task_and_gets_what_it_waits_for(first: str) -> None:
    async def work() -> None:
        if first == "future":
            said.append(await future)
        elif first == "sleep":
            await asyncio.sleep(0.001)
        else:
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await signal
            said.append(await later)

    said: list[object] = []
    loop = asyncio.get_running_loop()
    future, later, signal = loop.create_future(), loop.create_future(), Signal()
    run = Run(work())
    assert len(run.tasks) == 1
    loop.call_soon(future.set_result, 1)
    loop.call_later(0.01, signal.set)
    loop.call_later(0.02, later.set_result, 2)
    await run.until_over()
    await asyncio.sleep(0)
    assert said == ([1, 2] if first == "future" else [2])
    assert run.ends == [None] and not run.tasks


async def test_an_exception_of_what_it_waits_for_is_raised_where_it_waits() -> None:
    async def work() -> None:
        with pytest.raises(ValueError, match="no"):
            await future
        with pytest.raises(ValueError, match="again"):
            await again

    loop = asyncio.get_running_loop()
    future, again = loop.create_future(), loop.create_future()
    run = Run(work())
    loop.call_soon(future.set_exception, ValueError("no"))
    loop.call_later(0.01, again.set_exception, ValueError("again"))
    await run.until_over()
    assert run.ends == [None]


async def test_what_needs_a_task_from_its_beginning_asks_for_one() -> None:
    async def work() -> None:
        await as_task()
        async with asyncio.timeout(0.001):
            await asyncio.sleep(5)

    run = Run(work())
    await run.until_over()
    assert [type(one) for one in run.ends] == [TimeoutError]


@pytest.mark.parametrize("waits", [False, True])
async def test_an_exception_is_told_once(waits: bool) -> None:
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise ValueError("broken")

    run = Run(work())
    await run.until_over()
    assert [str(one) for one in run.ends] == ["broken"]


@pytest.mark.parametrize("where", ["signal", "new task", "task"])
async def test_who_is_cancelled_says_its_last_word_wherever_it_waits(where: str) -> None:
    async def work() -> None:
        try:
            await (signal if where == "signal" else asyncio.sleep(5))
        except asyncio.CancelledError:
            said.append("last word")
            raise

    said: list[str] = []
    signal = Signal()
    run = Run(work())
    if where == "task":
        await asyncio.sleep(0.01)
    run.eager.cancel()
    await run.until_over()
    assert said == ["last word"]
    assert run.ends == [None]
    run.eager.cancel()
    signal.set()
    assert run.ends == [None]


async def test_who_sets_the_signal_while_it_is_cancelled_is_not_run_again() -> None:
    async def work() -> None:
        try:
            await signal
        except asyncio.CancelledError:
            signal.set()
            raise

    signal = Signal()
    run = Run(work())
    run.eager.cancel()
    assert run.ends == [None]


async def test_one_that_goes_on_within_another_does_not_take_its_place() -> None:
    async def outer() -> None:
        first.set()
        await second

    async def inner() -> None:
        await first
        said.append("inner")

    said: list[str] = []
    first, second = Signal(), Signal()
    within = Run(inner())
    run = Run(outer())
    assert said == ["inner"] and within.ends == [None] and not run.ends
    second.set()
    assert run.ends == [None]
