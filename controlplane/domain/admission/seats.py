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
START = 16  # where a replica begins of which no knee is known
TRIAL_S = 3.0  # so long more seats are tried before it is judged whether they brought more tokens
FREE_S = 1.0  # sooner where streams show that more seats cost nothing: every stream's token comes as fast as before
FREE_SLOWER = 1.10  # than before the trial
GAIN_LEAST = 0.3  # of what as many seats had brought so far
SETTLED_S = 60.0  # before a knee is questioned again
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
    tokens_per_s: float | None = None  # output of the whole replica


@dataclass(frozen=True, slots=True)
class SeatChange:
    """What was decided, and why; `before` == `after` when nothing changes."""

    before: int
    after: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """More seats on trial: what there was before."""

    seats: int
    tokens_per_s: float
    since: float
    tpot_s: float | None = None


@dataclass(slots=True)
class Seats:
    """The seats of one replica. One owner; changes in place, once a second.

    Where the output is measured the knee is searched: seats are doubled (later: a quarter more) while all are taken,
    and taken back when they bring less than `GAIN_LEAST` of the tokens that as many seats brought before.
    """

    limits: SeatLimits
    now: int
    lowered_at: float | None = None
    knee: int | None = None  # found by trial
    tokens_per_s: float | None = None  # smoothed
    trial: Trial | None = None
    settled_until: float = 0.0

    @staticmethod
    def start(limits: SeatLimits, *, is_known: bool = True) -> Seats:
        """Returns where a new replica begins: low where its limits are known to be somewhere near the ceiling, at the
        ceiling where nothing is known that could be gone beyond."""
        return Seats(limits, max(limits.floor, min(START, limits.ceiling)) if is_known else limits.ceiling)

    def adjust(self, signals: Signals, at: float) -> SeatChange:
        """Takes one second's signals and returns what changed."""
        before = self.now
        self.now = min(max(self.now, self.limits.floor), self.limits.ceiling)
        self._smooth(signals.tokens_per_s)
        if why := _suffers(signals):
            self.trial, self.settled_until = None, at + SETTLED_S
            if self.lowered_at is None or at - self.lowered_at >= DOWN_PAUSE_S:
                lower = self.now - max(1, int(min(self.now, signals.running or self.now) * DOWN_SHARE))
                self.now, self.lowered_at = max(self.limits.floor, lower), at
            return SeatChange(before, self.now, why)
        full = signals.running >= self.now - 1  # the last one may be kept for a tenant that has nothing running
        if self.trial is not None:
            ended, why = self._judge(self.trial, signals, full=full, at=at)
            if why or not (ended and full):
                return SeatChange(before, self.now, why)
        if full and _has_room(signals) and self.now < self.limits.ceiling:
            if signals.tokens_per_s is None:
                self.now += 1
            elif at < self.settled_until:
                return SeatChange(before, self.now)
            else:
                self._try_more(signals.tpot_s, at)
            return SeatChange(before, self.now, "Every seat is taken and the replica has room.")
        return SeatChange(before, self.now, "The limits changed." if before != self.now else "")

    def _smooth(self, tokens_per_s: float | None) -> None:
        if tokens_per_s is not None:
            old = self.tokens_per_s
            self.tokens_per_s = tokens_per_s if old is None else 0.5 * (old + tokens_per_s)

    def _try_more(self, tpot_s: float | None, at: float) -> None:
        if not self.tokens_per_s:
            return
        self.trial = Trial(self.now, self.tokens_per_s, at, tpot_s)
        more = self.now if self.knee is None else max(1, self.now // 4)
        self.now = min(self.limits.ceiling, self.now + more)

    def _judge(self, trial: Trial, signals: Signals, *, full: bool, at: float) -> tuple[bool, str]:
        """Ends a trial when its time has come; returns whether it has ended, and why seats were taken back."""
        if at - trial.since >= FREE_S and full and _costs_nothing(trial, signals):
            self.trial = None
            return True, ""
        if at - trial.since < TRIAL_S:
            return False, ""
        self.trial = None
        if not full:
            return True, ""  # nothing can be learned from seats that nobody took
        brought = (self.tokens_per_s or 0.0) / trial.tokens_per_s - 1.0
        if brought >= GAIN_LEAST * (self.now / trial.seats - 1.0):
            return True, ""
        self.knee, self.settled_until = trial.seats, at + SETTLED_S
        why = f"{self.now} seats brought {brought:+.0%} tokens compared with {trial.seats}."
        self.now = max(self.limits.floor, trial.seats)
        return True, why


def _costs_nothing(trial: Trial, signals: Signals) -> bool:
    if trial.tpot_s is None or signals.tpot_s is None:
        return False
    return signals.tpot_s <= FREE_SLOWER * trial.tpot_s


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
