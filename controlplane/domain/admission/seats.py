"""How many requests run in a replica at once: as many as get their tokens in time, and no more than bring tokens.

The engine's own queue is kept near empty, so that the order is decided here. Where a token's time is promised `in_time`
follows at once what is measured. Apart from that: up by one a step, down by an eighth: additive increase,
multiplicative decrease (Chiu, Jain 1989) is stable where several loops share what they measure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controlplane.domain.admission.in_time import AIM, Flow, InTime

KV_HIGH = 0.92  # of the engine's KV cache: beyond it preemptions begin
KV_ROOM = 0.80
WAITING_SHARE = 0.1  # of those who run: so many may wait in the engine for its next step
DOWN_SHARE = 0.125
START = 48  # where a replica begins of which no knee is known
START_PROMISED = 16  # and where a token's time is promised, which many at once could break before it is measured
TRIAL_S = 3.0  # so long more seats are tried before it is judged whether they brought more tokens
FREE_S = 1.0  # sooner where streams show that more seats cost nothing: every stream's token comes as fast as before
FREE_SLOWER = 1.10  # than before the trial
GAIN_LEAST = 0.3  # of what as many seats had brought so far
SETTLED_S = 60.0  # before a knee is questioned again; twice as long each time that it is confirmed
SETTLED_MOST_S = 1920.0
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
    flow: Flow | None = None
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
    tpot_s: float = 0.0


@dataclass(slots=True)
class Seats:
    """The seats of one replica. One owner; changes in place, once a second.

    `now` is what the search for the knee allows, or what `in_time` does where that is less. Where the output is
    measured the knee is searched: seats are doubled (later: a quarter more) while all are taken, and taken back when
    they bring less than `GAIN_LEAST` of the tokens that as many seats brought before. The knee so found is a ceiling
    until it is questioned again.
    """

    limits: SeatLimits
    now: int
    searched: int = 0
    in_time: InTime = field(default_factory=InTime)
    lowered_at: float | None = None
    knee: int | None = None  # found by trial
    tokens_per_s: float | None = None  # smoothed
    trial: Trial | None = None
    settled_until: float = 0.0
    settled_s: float = SETTLED_S
    waited: int = 0  # seconds in a row that requests waited in the engine

    def __post_init__(self) -> None:
        self.searched = self.searched or self.now

    @staticmethod
    def start(limits: SeatLimits, *, is_known: bool = True, is_promised: bool = False) -> Seats:
        """Returns where a new replica begins: low where its limits are known to be somewhere near the ceiling, lower
        where a TPOT is promised, at the ceiling where nothing is known that could be gone beyond."""
        begin = START_PROMISED if is_promised else START
        return Seats(limits, max(limits.floor, min(begin, limits.ceiling)) if is_known else limits.ceiling)

    def ceiling_known(self, at: float) -> int | None:
        """Returns the knee as long as it stands, None where there is none or it is questioned."""
        return self.proven if self.trial is None and at < self.settled_until else None

    @property
    def proven(self) -> int | None:
        """How many seats are known to bring tokens, for whoever owns the replica next; None = no knee was found."""
        if self.knee is None:
            return None
        return max(self.knee, self.searched if self.trial is None else self.trial.seats)

    def inherit(self, knee: int, at: float) -> None:
        """Goes on from the knee that another owner has found."""
        if self.knee is None and self.trial is None:
            self.knee, self.settled_until = knee, at + SETTLED_S
            self.searched = max(self.limits.floor, min(knee, self.limits.ceiling))

    def hold(self) -> SeatChange:
        """Stays where it is while automatic changes are switched off; what was only on trial is taken back."""
        before = self.now
        if self.trial is not None:
            self.searched, self.trial = min(self.searched, self.trial.seats), None
        if self.in_time.seats is None:
            self.now = self.searched  # whoever has just taken over goes to the knee that was found before
        self.waited = 0
        return SeatChange(before, self.now, "" if self.now == before else "Nothing may be tried now.")

    def adjust(self, signals: Signals, at: float) -> SeatChange:
        """Takes one second's signals and returns what changed."""
        before, limits, in_time = self.now, self.limits, self.in_time
        self.searched = min(max(self.searched, limits.floor), limits.ceiling)
        if signals.tokens_per_s is not None:
            old = self.tokens_per_s
            self.tokens_per_s = signals.tokens_per_s if old is None else 0.5 * (old + signals.tokens_per_s)
        in_time.look(signals.flow, signals.tpot_target_s, signals.running, at)
        if in_time.seats is not None and in_time.seats >= self.searched:
            in_time.seats = None
        if in_time.seats is None:
            why = self._search(signals, at)
            self.now = self.searched
        else:
            why = self._lower(signals, at) or _pace(in_time, signals)
            self.trial = None  # what is not let in teaches nothing
            self.now = min(self.searched, max(limits.floor, int(in_time.seats)))
        return SeatChange(before, self.now, "" if self.now == before else why or "The limits changed.")

    def _lower(self, signals: Signals, at: float) -> str:
        """Takes an eighth away from a replica that suffers, once in a while; returns why."""
        why = self._suffers(signals)
        if why:
            self.trial, self.settled_until = None, at + SETTLED_S
            if self.lowered_at is None or at - self.lowered_at >= DOWN_PAUSE_S:
                lower = self.searched - max(1, int(min(self.searched, signals.running or self.searched) * DOWN_SHARE))
                self.searched, self.lowered_at = max(self.limits.floor, lower), at
        return why

    def _suffers(self, signals: Signals) -> str:
        waiting = signals.engine_waiting or 0.0
        self.waited = self.waited + 1 if waiting > max(1.0, WAITING_SHARE * signals.running) else 0
        if signals.preemptions > 0:
            return f"The engine preempted {signals.preemptions:.0f} requests."
        if signals.kv_usage is not None and signals.kv_usage >= KV_HIGH:
            return f"{signals.kv_usage:.0%} of the KV cache is in use."
        return f"{waiting:.0f} requests wait in the engine." if self.waited > 1 else ""

    def _search(self, signals: Signals, at: float) -> str:
        """Moves `searched`; returns why."""
        if why := self._lower(signals, at):
            return why
        full = signals.running >= self.searched - 1  # the last one may be kept for a tenant that has nothing running
        if self.trial is not None:
            ended, why = self._judge(self.trial, full=full, at=at)
            if why or not (ended and full):
                return why
        if not full or not self._has_room(signals) or self.searched >= self.limits.ceiling:
            return ""
        if signals.tokens_per_s is None:
            self.searched += 1
        elif at < self.settled_until:
            return ""
        else:
            self._try_more(at)
        return "Every seat is taken and the replica has room."

    def _has_room(self, signals: Signals) -> bool:
        if self.waited or (signals.kv_usage is not None and signals.kv_usage > KV_ROOM):
            return False
        return not signals.tpot_target_s or self.in_time.tpot_s < AIM * signals.tpot_target_s

    def _try_more(self, at: float) -> None:
        if not self.tokens_per_s:
            return
        self.trial = Trial(self.searched, self.tokens_per_s, at, self.in_time.second_s)
        more = self.searched if self.knee is None else max(1, self.searched // 4)
        self.searched = min(self.limits.ceiling, self.searched + more)

    def _judge(self, trial: Trial, *, full: bool, at: float) -> tuple[bool, str]:
        """Ends a trial when its time has come; returns whether it has ended, and why seats were taken back."""
        if at - trial.since >= FREE_S and full and 0.0 < self.in_time.second_s <= FREE_SLOWER * trial.tpot_s:
            self.trial = None
            return True, ""
        if at - trial.since < TRIAL_S:
            return False, ""
        self.trial = None
        if not full:
            return True, ""  # nothing can be learned from seats that nobody took
        brought = (self.tokens_per_s or 0.0) / trial.tokens_per_s - 1.0
        if brought >= GAIN_LEAST * (self.searched / trial.seats - 1.0):
            self.settled_s = SETTLED_S
            return True, ""
        self.settled_s = min(SETTLED_MOST_S, 2.0 * self.settled_s) if self.knee == trial.seats else SETTLED_S
        self.knee, self.settled_until = trial.seats, at + self.settled_s
        why = f"{self.searched} seats brought {brought:+.0%} tokens compared with {trial.seats}."
        self.searched = max(self.limits.floor, trial.seats)
        return True, why


def _pace(in_time: InTime, signals: Signals) -> str:
    return (
        f"A token takes {in_time.tpot_s * 1000:.0f} ms, the target is {(signals.tpot_target_s or 0.0) * 1000:.0f} ms."
    )
