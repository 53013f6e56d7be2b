"""Requests that wait for a seat, as coroutines: each sleeps until it is told, has left, or has waited long enough.

Guarantees
    Who is told once is told nothing more. A timer that is planned is always ended, or fires.
Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from typing import Generic, TypeVar

LATE_S = 0.002  # a timer may fire a little early

Given = TypeVar("Given")


class Waiters(Generic[Given]):
    """`on_due` is called when somebody has waited long enough, or at the time that was planned with `come_back_at`."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._futures: dict[str, asyncio.Future[Given | None]] = {}  # by ticket id
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._futures)

    async def wait(self, ticket_id: str, seconds: float) -> Given | None:
        """Returns what it is given, None when it has left; raises what it is told with `fail`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Given | None] = loop.create_future()
        self._futures[ticket_id] = future
        timer = loop.call_later(seconds + LATE_S, self._on_due)
        try:
            return await future
        finally:
            timer.cancel()
            del self._futures[ticket_id]

    def give(self, ticket_id: str, given: Given | None) -> None:
        """Wakes one. One whose task was cancelled meanwhile gives back what it has got when its turn comes."""
        future = self._futures[ticket_id]
        if not future.done():
            future.set_result(given)

    def fail(self, ticket_id: str, error: Exception) -> None:
        """Wakes one with an error."""
        future = self._futures[ticket_id]
        if not future.done():
            future.set_exception(error)

    def left(self, ticket_id: str) -> None:
        """Wakes one that has left, if it waited."""
        if ticket_id in self._futures:
            self.give(ticket_id, None)

    def come_back_at(self, at: float | None, now: float) -> None:
        """Plans a call of `on_due`, unless there is one already."""
        if at is not None and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(at - now + LATE_S, self._come_back)

    def waiting(self) -> Set[str]:
        """Returns the ids of those who have been told nothing yet."""
        return {name for name, future in self._futures.items() if not future.done()}

    def _come_back(self) -> None:
        self._timer = None
        self._on_due()
