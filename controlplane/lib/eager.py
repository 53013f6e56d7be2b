"""A coroutine that runs at once in its caller, and becomes a task only when it has to wait for the event loop.

A task costs its creation, a turn of the event loop to begin, a future to wait for and another turn to go on: for a
request that is passed on to a replica, more than all that is decided about it. Here the coroutine begins in the call
that has brought the request, and goes on in the call that has brought the end of the answer.

Guarantees
    What waits for a `Signal` is resumed by `Signal.set` itself. What waits for anything else (a future, a timer) goes
    on as an ordinary task from there. `on_end` is called once when it is over, with the exception that has left it.
Does not do
    Run what needs to know its task from the beginning (`asyncio.timeout`): such code calls `await as_task()` before.
Concurrency
    One event loop, one thread.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

_running: Eager | None = None  # whose coroutine is being run, outside of any task


class Signal:
    """Something that happens once and that one coroutine waits for."""

    __slots__ = ("_is_set", "_wake")

    def __init__(self) -> None:
        self._is_set = False
        self._wake: Callable[[], None] | None = None

    def set(self) -> None:
        """It has happened; who waits goes on now, or in a turn of its own if it is a task."""
        if not self._is_set:
            self._is_set = True
            if self._wake is not None:
                self._wake()

    def __await__(self) -> Generator[Any, None, None]:
        if self._is_set:
            return
        if _running is not None:
            self._wake = _running.go_on
            try:
                yield self
            finally:
                self._wake = None  # whoever is cancelled waits no more
            return
        future = asyncio.get_running_loop().create_future()
        self._wake = lambda: None if future.done() else future.set_result(None)
        yield from future


@types.coroutine
def as_task() -> Generator[Any, None, None]:
    """What follows runs in a task."""
    if _running is not None:
        yield None


class Eager:
    """One such coroutine. `tasks` holds the task that it has become, for as long as it runs."""

    __slots__ = ("_coroutine", "_on_end", "_task", "_tasks", "over")

    def __init__(
        self,
        coroutine: Coroutine[Any, None, None],
        tasks: set[asyncio.Task[None]],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self._coroutine = coroutine
        self._tasks = tasks
        self._on_end = on_end
        self._task: asyncio.Task[None] | None = None
        self.over = False

    def go_on(self) -> None:
        """Runs the coroutine until it waits."""
        self._step(self._coroutine.send, None)

    def cancel(self) -> None:
        """Raises CancelledError where it waits."""
        if self._task is not None:
            self._task.cancel()
        elif not self.over:
            self._step(self._coroutine.throw, asyncio.CancelledError())

    def _step(self, act: Callable[[Any], Any], value: object) -> None:
        global _running  # noqa: PLW0603
        before, _running = _running, self
        failure: BaseException | None = None
        try:
            awaited = act(value)
        except (StopIteration, asyncio.CancelledError):
            awaited = None
            self.over = True
        except Exception as error:  # noqa: BLE001 - as a task does: who has begun it has no part in it
            failure, awaited, self.over = error, None, True
        finally:
            _running = before
        if self.over:
            self._on_end(failure)
        elif type(awaited) is not Signal:
            self._become_task(awaited)

    def _become_task(self, awaited: object) -> None:
        task = self._task = asyncio.get_running_loop().create_task(self._rest(awaited))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _rest(self, awaited: object) -> None:
        try:
            await _after(awaited, self._coroutine)
        finally:
            self.over = True

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self.over:
            self._on_end(None if task.cancelled() else task.exception())
        else:  # cancelled before its first turn: the coroutine has not heard of it
            self._task = None
            self.cancel()


@types.coroutine
def _after(awaited: object, coroutine: Coroutine[Any, None, None]) -> Generator[Any, Any, None]:
    """Waits for what the coroutine waits for already, then goes on with it to its end."""
    act: Callable[[Any], Any]
    while True:
        try:
            value = yield awaited
            act = coroutine.send
        except GeneratorExit:
            coroutine.close()
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the coroutine's
            value, act = error, coroutine.throw
        try:
            awaited = act(value)
        except StopIteration:
            return
