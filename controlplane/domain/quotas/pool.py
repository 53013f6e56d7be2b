"""The shared side of the slices: what is left of each limit, and which gateway holds how much.

Valkey's script (`controlplane/lib/quota_leases.py`) follows these rules step by step; the tests compare the two. The
simulator uses this one.

Guarantees
    What is out (spent, or held by a gateway) comes back when it is given back, when its gateway is dead for
    `LEASE_S`, when its window ends, and, for limits a minute, at limit / 60 s. A word that is said twice counts once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.domain.quotas import slices
from controlplane.domain.quotas.slices import Ask, Reply
from controlplane.domain.quotas.windows import window_of


@dataclass(slots=True)
class Shared:
    """One limit in one window."""

    out: float = 0.0
    at: float = 0.0
    short_until: float = 0.0
    held: dict[str, int] = field(default_factory=dict)  # gateway -> units
    seen: dict[str, int] = field(default_factory=dict)  # gateway -> its spent_total that is counted


class Pool:
    """All limits. One owner; changes in place; `now` is UTC seconds."""

    def __init__(self) -> None:
        self.gateways: dict[str, float] = {}  # id -> last heard of
        self.limits: dict[tuple[str, int], Shared] = {}

    def sync(self, gateway: str, asks: Sequence[Ask], now: float) -> list[Reply]:
        """Takes one gateway's words and answers each."""
        self.gateways[gateway] = now
        for one, at in list(self.gateways.items()):
            if abs(now - at) > slices.LEASE_S:  # of a clock that was set back, too
                del self.gateways[one]
        return [self._answer(gateway, ask, now) for ask in asks]

    def leave(self, gateway: str) -> None:
        """A gateway ends: what it held is back with the next word of another."""
        self.gateways.pop(gateway, None)

    def _answer(self, gateway: str, ask: Ask, now: float) -> Reply:
        window, ends_at = window_of(ask.kind, now)
        shared = self.limits.setdefault((ask.meter, window), Shared(at=now))
        if ask.kind == "refilled":
            elapsed_s = max(0.0, now - shared.at)
            shared.out = max(0.0, shared.out - elapsed_s * slices.refill_per_s(ask.limit))
        shared.at = now
        for other, units in shared.held.items():
            if units and other not in self.gateways:
                shared.out, shared.held[other] = max(0.0, shared.out - units), 0
        held, spare, spent = ask.held, ask.spare, 0
        if ask.window in (-1, window):
            spent = max(0, ask.spent_total - shared.seen.get(gateway, ask.spent_acked))
        else:  # what it holds is of a window that is over
            held = spare = 0
        shared.out = max(0.0, shared.out - shared.held.get(gateway, 0) + spent + held)
        left = int((ask.limit - shared.out) // 1)
        taken = min(spare, -left) if left < 0 else 0
        left += taken
        grant = slices.granted(left, len(self.gateways), ask.wanted, ask.needed)
        short = now < shared.short_until <= now + slices.SHORT_S
        if grant < ask.needed:
            shared.short_until = now + slices.SHORT_S
        shared.out += grant - taken
        shared.held[gateway] = held - taken + grant
        shared.seen[gateway] = ask.spent_total
        return Reply(ask.meter, grant, taken, left - grant, len(self.gateways), short, window, ends_at)
