"""A high quantile of what was seen lately, in three numbers instead of a histogram."""

from __future__ import annotations

from dataclasses import dataclass

STEP = 0.3  # of the spread: how far a quantile is moved by one observation at most
FEW = 10  # observations that count evenly before old ones fade
WEIGHT = 0.05


@dataclass(slots=True)
class High:
    """The running `share` quantile. One owner; changes in place.

    It is followed by small steps, up share / (1 - share) times as far as down, so that it rests where so many are below
    it (a stochastic approximation of a quantile, Robbins and Monro 1951). A step is a share of the mean distance, so
    that it keeps up whatever the unit is.
    """

    share: float = 0.98
    value: float = 0.0
    spread: float = 0.0
    count: int = 0

    def learn(self, seen: float) -> None:
        """Takes one observation."""
        self.count += 1
        if self.count == 1:
            self.value = seen
            return
        self.spread += max(WEIGHT, 1.0 / self.count) * (abs(seen - self.value) - self.spread)
        if self.count <= FEW:
            self.value = max(self.value, seen)
        elif seen > self.value:
            self.value += STEP * self.share * self.spread
        else:
            self.value -= STEP * (1.0 - self.share) * self.spread
