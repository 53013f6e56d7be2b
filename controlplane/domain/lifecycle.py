"""The life of one replica as a pure state machine.

Guarantees
    The state changes only through `ReplicaMachine.handle`. Every change is one of `TRANSITIONS`, gets the next
    sequence number and is kept in `transitions` until the caller has delivered it. `ready` is entered only by
    `WarmedUp`, that is after a real generation; an answer of `/health` alone never gets there.
Does not do
    I/O, clocks, randomness. `now` is seconds since the epoch and is passed in; the instructions that come back are
    carried out by the node worker's supervisor, whose results return as events.
Concurrency
    One owner (the supervisor's loop); not thread-safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["pending", "placed", "starting", "warming", "ready", "draining", "stopped", "failed"]
Goal = Literal["run", "stop"]

STATES: tuple[State, ...] = ("pending", "placed", "starting", "warming", "ready", "draining", "stopped", "failed")
LIVE_STATES: frozenset[State] = frozenset({"starting", "warming", "ready", "draining"})

# state -> states that may follow it
TRANSITIONS: Mapping[State, frozenset[State]] = {
    "pending": frozenset({"placed", "failed", "stopped"}),
    "placed": frozenset({"starting", "failed", "stopped"}),
    "starting": frozenset({"warming", "draining", "failed"}),
    "warming": frozenset({"ready", "draining", "failed"}),
    "ready": frozenset({"draining", "failed"}),
    "draining": frozenset({"stopped", "failed"}),
    "failed": frozenset({"placed", "draining", "stopped"}),
    "stopped": frozenset(),
}


class InvalidTransitionError(Exception):
    """The caller asked for a move that the lifecycle does not have; carries the replica's story so far."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Time limits and back-off of one replica, all in seconds except `crash_limit`."""

    start_timeout_s: float = 900.0
    warmup_timeout_s: float = 120.0
    drain_settle_s: float = 1.5  # the routing snapshot needs this long to reach every gateway
    drain_timeout_s: float = 60.0
    term_grace_s: float = 15.0
    kill_grace_s: float = 10.0
    backoff_base_s: float = 1.0
    backoff_cap_s: float = 300.0
    backoff_reset_after_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a state was entered: a searchable code, one sentence, what to do, and the engine's last log lines."""

    code: str
    message: str
    hint: str = ""
    log_tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of state. `seq` grows by one per change of this replica and never repeats."""

    seq: int
    at: float
    from_state: State
    to_state: State
    reason: Reason
    cause: str = ""  # id of the event, request or decision that led here


# Events: what the supervisor saw.


@dataclass(frozen=True, slots=True)
class GoalSet:
    goal: Goal
    drain_timeout_s: float | None = None
    reason: Reason = Reason("asked", "Asked for by the control plane.")
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Launched:
    pid: int


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    reason: Reason


@dataclass(frozen=True, slots=True)
class Healthy:
    pass


@dataclass(frozen=True, slots=True)
class WarmedUp:
    output_tokens: int
    took_s: float


@dataclass(frozen=True, slots=True)
class WarmUpFailed:
    reason: Reason


@dataclass(frozen=True, slots=True)
class InFlight:
    """Requests running or waiting in the engine; None when the engine did not say."""

    requests: int | None


@dataclass(frozen=True, slots=True)
class Exited:
    """The engine's leader is dead (a zombie counts as dead); parts of its process group may live on."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class GroupGone:
    """Not one process of the engine's group is left."""


@dataclass(frozen=True, slots=True)
class Tick:
    pass


Event = GoalSet | Launched | LaunchFailed | Healthy | WarmedUp | WarmUpFailed | InFlight | Exited | GroupGone | Tick


# Instructions: what the supervisor shall do.


@dataclass(frozen=True, slots=True)
class Launch:
    attempt: int


@dataclass(frozen=True, slots=True)
class ProbeHealth:
    pass


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Run one real generation against the engine, at most `timeout_s` long."""

    timeout_s: float


@dataclass(frozen=True, slots=True)
class CountInFlight:
    pass


@dataclass(frozen=True, slots=True)
class SignalGroup:
    signal: Literal["TERM", "KILL"]


@dataclass(frozen=True, slots=True)
class ConfirmGone:
    """Look whether the whole process group is gone, and answer GroupGone when it is."""


Instruction = Launch | ProbeHealth | WarmUp | CountInFlight | SignalGroup | ConfirmGone

ExitPhase = Literal["none", "wait", "term", "kill"]


def backoff_s(attempt: int, limits: Limits) -> float:
    """Returns how long to wait before start number `attempt + 1` after `attempt` failed ones (base · 2^(n-1))."""
    if attempt < 1:
        return 0.0
    return min(limits.backoff_cap_s, limits.backoff_base_s * 2.0 ** min(attempt - 1, 30))


@dataclass(slots=True)
class ReplicaMachine:
    """The state of one replica on its node. Attributes change only through `handle`."""

    replica_id: str
    limits: Limits = field(default_factory=Limits)
    state: State = "placed"
    since: float = 0.0
    goal: Goal = "run"
    seq: int = 0
    attempt: int = 0  # starts so far that ended in `failed`, reset after a long time in `ready`
    retry_at: float | None = None
    pid: int | None = None
    exit_phase: ExitPhase = "none"  # how far the ending of the process group has got
    exit_since: float = 0.0
    warming_up: bool = False  # a warm-up generation is under way
    launching: bool = False
    drain_timeout_s: float = 60.0
    transitions: list[Transition] = field(default_factory=list)

    # -- events in, instructions out ---------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Applies one event at time `now` and returns what to do about it. Late events of an earlier start are
        ignored, so a caller may deliver them."""
        match event:
            case GoalSet():
                return self._goal_set(event, now)
            case Launched(pid=pid):
                self.launching = False
                self.pid = pid
                return []
            case LaunchFailed(reason=reason):
                self.launching = False
                if self.state == "starting":
                    self._fail(reason, now)
                return []
            case Healthy():
                if self.state == "starting" and self.pid is not None:
                    self._move("warming", Reason("healthy", "The engine answers; a generation is tried."), now)
                return []
            case WarmedUp(output_tokens=tokens, took_s=took_s):
                self.warming_up = False
                if self.state == "warming":
                    text = f"A real generation gave {tokens} tokens in {took_s:.2f} s."
                    self._move("ready", Reason("warmed_up", text), now)
                return []
            case WarmUpFailed(reason=reason):
                self.warming_up = False
                return self._fail_and_end(reason, now) if self.state == "warming" else []
            case InFlight(requests=requests):
                return self._in_flight(requests, now)
            case Exited(reason=reason):
                return self._exited(reason, now)
            case GroupGone():
                return self._group_gone(now)
            case Tick():
                return self._tick(now)

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong; called by tests after every step."""
        assert self.state in STATES, f"unknown state {self.state}"
        seqs = [t.seq for t in self.transitions]
        assert seqs == sorted(set(seqs)), f"sequence numbers repeat or fall: {seqs}"
        for before, after in zip(self.transitions, self.transitions[1:], strict=False):
            assert before.to_state == after.from_state, f"a gap between {before} and {after}"
        for one in self.transitions:
            assert one.to_state in TRANSITIONS[one.from_state], f"illegal move {one}"
        if self.state in ("pending", "placed", "stopped"):
            assert self.pid is None, f"{self.state} with process {self.pid}"
        if self.state in ("warming", "ready"):
            assert self.pid is not None, f"{self.state} without a process"
            assert self.exit_phase == "none", f"{self.state} while its group is being ended"
        if self.retry_at is not None:
            assert self.state == "failed", f"a retry is due in {self.state}"

    # -- the steps ---------------------------------------------------------------------------------------------

    def _goal_set(self, event: GoalSet, now: float) -> list[Instruction]:
        if event.drain_timeout_s is not None:
            self.drain_timeout_s = event.drain_timeout_s
        if event.goal == self.goal or self.state == "stopped":
            return []
        self.goal = event.goal
        if event.goal == "run":
            return []  # a drain that has begun is carried through; the control plane makes another replica
        if self.state in ("pending", "placed") or (self.state == "failed" and self.pid is None):
            self.retry_at = None
            self._move("stopped", event.reason, now, event.cause)
            return []
        if self.state == "draining":
            return []
        self.retry_at = None
        if self.state == "ready":
            self._exit_to("wait", now)  # elsewhere nothing can be running in it, so the ending starts at once
        self._move("draining", event.reason, now, event.cause)
        return []

    def _in_flight(self, requests: int | None, now: float) -> list[Instruction]:
        settled = now - self.exit_since >= self.limits.drain_settle_s
        if self.state == "draining" and self.exit_phase == "wait" and requests == 0 and settled:
            return self._begin_term(now)
        return []

    def _exited(self, reason: Reason, now: float) -> list[Instruction]:
        if self.pid is None:
            return []
        if self.state in ("starting", "warming", "ready"):
            return self._fail_and_end(reason, now, already_dead=True)
        if self.state in ("draining", "failed") and self.exit_phase in ("none", "wait", "term"):
            self._exit_to("kill", now)  # a dead leader with a living group: end the rest
            return [SignalGroup("KILL"), ConfirmGone()]
        return []

    def _group_gone(self, now: float) -> list[Instruction]:
        if self.pid is None or self.state not in ("draining", "failed"):
            return []
        self.pid = None
        self._exit_to("none", now)
        if self.state == "draining":
            self._move("stopped", Reason("gone", "No process of the engine's group is left."), now)
        return []

    def _tick(self, now: float) -> list[Instruction]:
        match self.state:
            case "placed":
                return self._launch(now)
            case "starting":
                return self._while_starting(now)
            case "warming":
                return self._while_warming(now)
            case "ready":
                if self.attempt and now - self.since >= self.limits.backoff_reset_after_s:
                    self.attempt = 0
                return []
            case "draining" | "failed" if self.pid is not None or self.launching:
                return self._while_ending(now)
            case "draining":
                self._move("stopped", Reason("gone", "There was no process left to end."), now)
                return []
            case "failed":
                return self._while_failed(now)
            case _:
                return []

    def _launch(self, now: float) -> list[Instruction]:
        self.warming_up = False
        self.launching = True
        self._exit_to("none", now)
        self._move("starting", Reason("launch", f"Start number {self.attempt + 1}."), now)
        return [Launch(self.attempt + 1)]

    def _while_starting(self, now: float) -> list[Instruction]:
        if now - self.since > self.limits.start_timeout_s:
            text = f"The engine did not answer within {self.limits.start_timeout_s:.0f} s of its start."
            hint = "Read the log; raise start_timeout_s if the model is large or the disk is slow."
            return self._fail_and_end(Reason("start_timeout", text, hint), now)
        return [ProbeHealth()] if self.pid is not None else []

    def _while_warming(self, now: float) -> list[Instruction]:
        if now - self.since > self.limits.warmup_timeout_s:
            text = f"No generation succeeded within {self.limits.warmup_timeout_s:.0f} s although /health answers."
            return self._fail_and_end(Reason("warmup_timeout", text, "Read the engine's log."), now)
        if self.warming_up:
            return []
        self.warming_up = True
        return [WarmUp(self.limits.warmup_timeout_s)]

    def _while_ending(self, now: float) -> list[Instruction]:
        waited = now - self.exit_since
        if self.launching:
            return []  # the launch answers first; the process group is ended then
        match self.exit_phase:
            case "none":
                return self._begin_term(now)
            case "wait":
                return self._begin_term(now) if waited >= self.drain_timeout_s else [CountInFlight()]
            case "term" if waited >= self.limits.term_grace_s:
                self._exit_to("kill", now)
                return [SignalGroup("KILL"), ConfirmGone()]
            case "kill" if waited >= self.limits.kill_grace_s:
                self._exit_to("kill", now)
                return [SignalGroup("KILL"), ConfirmGone()]
            case _:
                return [ConfirmGone()]

    def _while_failed(self, now: float) -> list[Instruction]:
        if self.goal == "stop":
            self._move("stopped", Reason("asked", "Asked for by the control plane."), now)
        elif self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            self._move("placed", Reason("retry", f"Back-off is over after {self.attempt} failed starts."), now)
        return []

    def _begin_term(self, now: float) -> list[Instruction]:
        self._exit_to("term", now)
        return [SignalGroup("TERM"), ConfirmGone()]

    def _fail_and_end(self, reason: Reason, now: float, *, already_dead: bool = False) -> list[Instruction]:
        self._fail(reason, now)
        if self.pid is None:
            return []
        phase: Literal["TERM", "KILL"] = "KILL" if already_dead else "TERM"
        self._exit_to("kill" if already_dead else "term", now)
        return [SignalGroup(phase), ConfirmGone()]

    def _fail(self, reason: Reason, now: float) -> None:
        if self.state == "ready" and now - self.since >= self.limits.backoff_reset_after_s:
            self.attempt = 0
        self.attempt += 1
        self.warming_up = False
        self._move("failed", reason, now)
        self.retry_at = now + backoff_s(self.attempt, self.limits)

    def _exit_to(self, phase: ExitPhase, now: float) -> None:
        self.exit_phase = phase
        self.exit_since = now

    def _move(self, to_state: State, reason: Reason, now: float, cause: str = "") -> None:
        if to_state not in TRANSITIONS[self.state]:
            story = " ".join(f"{t.from_state}>{t.to_state}({t.reason.code})" for t in self.transitions)
            raise InvalidTransitionError(f"{self.replica_id}: {self.state} can't become {to_state}; story: {story}")
        self.seq += 1
        self.transitions.append(Transition(self.seq, now, self.state, to_state, reason, cause))
        self.state = to_state
        self.since = now
