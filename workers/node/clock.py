"""The wall clock, and whether somebody has set it.

States and reports need times that mean something elsewhere, so they are wall-clock times; but a clock that is set by an
hour (a first NTP answer, a machine that slept, a person) must not end an engine whose start "took an hour".
"""

from __future__ import annotations

import time
from collections.abc import Callable

UNNOTICED_S = 2.0  # clocks that are merely slewed stay far below


class Clock:
    """Reads the wall clock and notices by the steady clock when it was set. One owner, not thread-safe."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall = wall
        self._steady = steady
        self._offset_s = wall() - steady()

    def read(self) -> tuple[float, float]:
        """Returns the wall-clock time, and by how many seconds the clock was set since the last call (mostly 0)."""
        now = self._wall()
        offset_s = now - self._steady()
        set_by_s, self._offset_s = offset_s - self._offset_s, offset_s
        return now, set_by_s if abs(set_by_s) > UNNOTICED_S else 0.0

    def steady(self) -> float:
        """Returns seconds that nobody can set; for what is due in a while."""
        return self._steady()
