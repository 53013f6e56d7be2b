"""How many requests run in a replica at once: down when it suffers, up when there is room, slowly.

The engine's own queue is kept near empty, so that the order is decided here. Up by one a step, down by an eighth:
additive increase, multiplicative decrease (Chiu, Jain 1989) is stable where several loops share what they measure.
"""

from __future__ import annotations

from dataclasses import dataclass

KV_HIGH = 0.92  # of the engine's KV cache: beyond it preemptions begin
KV_ROOM = 0.80
TPOT_HIGH = 1.10  # of the target
TPOT_ROOM = 0.90
DOWN_SHARE = 0.125
DOWN_PAUSE_S = 5.0  # what a step down brings shows only after running requests have ended


@dataclass(frozen=True, slots=True)
class SeatLimits:
    """`ceiling` is the measured knee, or the ledger's KV tokens ÷ mean tokens a request, at most max_num_seqs."""

    floor: int
    ceiling: int

    @staticmethod
    def of(
        *, knee: int | None, kv_tokens: int | None, mean_tokens: float | None, max_num_seqs: int | None
    ) -> SeatLimits:
        """Returns limits from what is known; with nothing known 16 to 48."""
        by_memory = int(kv_tokens / mean_tokens) if kv_tokens and mean_tokens else None
        known = [one for one in (knee if knee else by_memory, max_num_seqs) if one]
        ceiling = max(1, min(known)) if known else 48
        return SeatLimits(max(1, min(16, ceiling // 3)) if known else 16, ceiling)


@dataclass(frozen=True, slots=True)
class Signals:
    """One second of one replica; None = not measured, and then it decides nothing."""

    running: int
    engine_waiting: float | None = None
    kv_usage: float | None = None
    preemptions: float = 0.0  # since the last look
    tpot_s: float | None = None
    tpot_target_s: float | None = None


@dataclass(frozen=True, slots=True)
class SeatChange:
    """What was decided, and why; `before` == `after` when nothing changes."""

    before: int
    after: int
    why: str = ""


@dataclass(slots=True)
class Seats:
    """The seats of one replica. One owner; changes in place, once a second."""

    limits: SeatLimits
    now: int
    lowered_at: float | None = None

    def adjust(self, signals: Signals, at: float) -> SeatChange:
        """Takes one second's signals and returns what changed."""
        before = self.now
        self.now = min(max(self.now, self.limits.floor), self.limits.ceiling)
        if why := _suffers(signals):
            if self.lowered_at is None or at - self.lowered_at >= DOWN_PAUSE_S:
                lower = self.now - max(1, int(min(self.now, signals.running or self.now) * DOWN_SHARE))
                self.now, self.lowered_at = max(self.limits.floor, lower), at
            return SeatChange(before, self.now, why)
        if signals.running >= self.now and _has_room(signals) and self.now < self.limits.ceiling:
            self.now += 1
            return SeatChange(before, self.now, "Every seat is taken and the replica has room.")
        return SeatChange(before, self.now, "The limits changed." if before != self.now else "")


def _suffers(signals: Signals) -> str:
    if signals.preemptions > 0:
        return f"The engine preempted {signals.preemptions:.0f} requests."
    if signals.kv_usage is not None and signals.kv_usage >= KV_HIGH:
        return f"{signals.kv_usage:.0%} of the KV cache is in use."
    if signals.tpot_s is not None and signals.tpot_target_s and signals.tpot_s > TPOT_HIGH * signals.tpot_target_s:
        return f"A token takes {signals.tpot_s * 1000:.0f} ms, the target is {signals.tpot_target_s * 1000:.0f} ms."
    if signals.engine_waiting is not None and signals.engine_waiting >= 1:
        return f"{signals.engine_waiting:.0f} requests wait in the engine."
    return ""


def _has_room(signals: Signals) -> bool:
    if signals.kv_usage is not None and signals.kv_usage > KV_ROOM:
        return False
    if signals.tpot_s is None or not signals.tpot_target_s:
        return True
    return signals.tpot_s < TPOT_ROOM * signals.tpot_target_s
