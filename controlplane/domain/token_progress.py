"""Whether a ready engine gets anywhere: health is progress, not an answer of `/health`.

A busy engine is not a dead one, so what counts is the engine's own counters of tokens and steps: as long as they move,
nothing is tried. Where they rest for a while (nothing asked, or a hang: the counters of a process that hangs still show
what was last known) one small generation is tried, and an engine that gives none for long has stalled.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.lifecycle import Limits


@dataclass(slots=True)
class TokenProgress:
    """What was seen of one engine since it became ready. Times are seconds of the caller's clock."""

    count: float | None = None  # sum of the engine's counters of tokens and steps
    moved_at: float | None = None  # when they last moved, or a generation last succeeded
    trying: bool = False
    failures: int = 0  # generations tried in vain since; one alone may have been cut by a machine that slept

    def quiet_s(self, now: float) -> float:
        """Returns for how long nothing has moved."""
        if self.moved_at is None:
            self.moved_at = now
        return max(0.0, now - self.moved_at)

    def is_to_be_tried(self, now: float, limits: Limits) -> bool:
        """Returns whether a generation is to be tried now; from then on it is under way."""
        if self.trying or self.quiet_s(now) < limits.quiet_after_s:
            return False
        self.trying = True
        return True

    def counted(self, count: float | None, now: float) -> None:
        """Takes a new reading; None where the engine did not say."""
        if count is not None and count != self.count:
            self.count, self.moved_at, self.failures = count, now, 0

    def generated(self, now: float) -> None:
        """The generation that was tried gave tokens."""
        self.trying, self.moved_at, self.failures = False, now, 0

    def has_stalled(self, now: float, limits: Limits) -> bool:
        """The generation that was tried gave none: returns whether the engine is to be given up."""
        self.trying = False
        self.failures += 1
        return self.failures > 1 and self.quiet_s(now) >= limits.stalled_after_s
