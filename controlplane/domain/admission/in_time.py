"""How many may run in a replica so that tokens come in time, from how fast they come now.

A step of the engine takes at most as many times longer as more sequences run in it. So `running` x target / measured is
on the safe side, and is gone to at once: what is lowered by and by is lowered too late for those who run.

Concurrency
    One owner; changes in place, once a second.
"""

from __future__ import annotations

from dataclasses import dataclass

AIM = 0.75  # of the target, on average: the slowest streams need about a third more than the mean one
OVER = 1.15  # times what is aimed at: from there on it is acted on
RISE = 0.25  # so much more each time while tokens come faster than is aimed at
SPAN_MOST_S = 10.0


@dataclass(frozen=True, slots=True)
class Flow:
    """Tokens of one second: `streams` that gave tokens through all of it, `events` that they gave together, and how
    long a stream takes from its first token to its last one, on average (0 = not known)."""

    streams: int
    events: int
    decode_s: float = 0.0


@dataclass(slots=True)
class InTime:
    """`seats` are as many as get their tokens in time; None = no fewer than one likes.

    A request's own pace is the mean over its life, and one second with a long prompt in it is none to judge by: streams
    and tokens are summed over about half of a stream's life.
    """

    seats: float | None = None
    streams: float = 0.0
    events: float = 0.0
    second_s: float = 0.0  # between two tokens of a stream in the last second; 0.0 = not known
    changed_at: float = 0.0

    def look(self, flow: Flow | None, target_s: float | None, running: int, at: float) -> None:
        """Takes one second; `running` is how many seats are taken."""
        self.second_s = flow.streams / flow.events if flow is not None and flow.events else 0.0
        if not target_s:
            self.seats = None
        if flow is None or not flow.events:
            return
        span_s = max(1.0, min(SPAN_MOST_S, flow.decode_s / 2.0))
        self.streams += (flow.streams - self.streams) / span_s
        self.events += (flow.events - self.events) / span_s
        if not target_s:
            return
        share = self.tpot_s / target_s
        if share > OVER * AIM:
            self._lower(max(1.0, running * AIM / share), running, at, settles_s=2.0 * span_s)
        elif share < AIM and self.seats is not None and at - self.changed_at >= span_s:
            self.seats += max(1.0, RISE * self.seats)

    @property
    def tpot_s(self) -> float:
        """Seconds between two tokens of a stream, lately; 0.0 = not known."""
        return self.streams / self.events if self.events else 0.0

    def _lower(self, fit: float, running: int, at: float, settles_s: float) -> None:
        if self.seats is not None:
            settled = running <= self.seats + 1 and at - self.changed_at >= settles_s
            if fit >= self.seats or not settled:  # those who run beyond it have not ended yet
                return
        self.seats, self.changed_at = fit, at
