"""How many a second, over the last seconds, without keeping each."""

from __future__ import annotations

import math
from dataclasses import dataclass

WINDOW_S = 10.0
STEP_S = 0.1


@dataclass(slots=True)
class Rate:
    """A count that fades with e-folding time `WINDOW_S`. One owner; changes in place."""

    total: float = 0.0
    at: float = 0.0
    since: float | None = None
    fresh: float = 0.0  # counted since `at`; taken over a few times a second, so that counting costs an addition

    def add(self, now: float, count: float = 1.0) -> None:
        """Counts something at `now`."""
        self.fresh += count
        if now - self.at >= STEP_S:
            if self.since is None:
                self.since = self.at = now
            self._take_over(now)

    def per_s(self, now: float) -> float | None:
        """Returns the rate; None while nothing was counted for a second yet, for a rate of one moment means nothing."""
        if self.since is None or now - self.since < 1.0:
            return None
        self._take_over(now)
        return self.total / (WINDOW_S * (1.0 - math.exp(-(now - self.since) / WINDOW_S)))

    def _take_over(self, now: float) -> None:
        if now > self.at:
            self.total *= math.exp(-(now - self.at) / WINDOW_S)
            self.at = now
        self.total += self.fresh
        self.fresh = 0.0
