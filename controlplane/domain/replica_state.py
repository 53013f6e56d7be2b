"""What is known of one replica on its node, and the moves that change it. The rules are in `replica_machine`.

Guarantees
    Every change of the state is one of `TRANSITIONS`, gets the next sequence number, and the newest `KEPT_TRANSITIONS`
    of them stand in `transitions`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from controlplane.domain.lifecycle import LIVE_STATES, STATES, TRANSITIONS, Goal, Limits, Reason, State, Transition
from controlplane.domain.token_progress import TokenProgress

KEPT_TRANSITIONS = 40  # a crash loop of days must not grow a record without bound

ExitPhase = Literal["none", "wait", "term", "kill"]


class InvalidTransitionError(Exception):
    """The caller asked for a move that the lifecycle does not have; carries the replica's story so far."""


def backoff_s(attempt: int, limits: Limits) -> float:
    """Returns how long to wait before start number `attempt + 1` after `attempt` failed ones (base · 2^(n-1))."""
    if attempt < 1:
        return 0.0
    return min(limits.backoff_cap_s, limits.backoff_base_s * 2.0 ** min(attempt - 1, 30))


def first_seq(now: float) -> int:
    """Returns where the sequence numbers of a new machine start: at the clock's seconds, so that a node that lost its
    records goes on above everything that it has ever reported about the same replica."""
    return max(0, int(now))


@dataclass(slots=True)
class ReplicaState:
    """The state of one replica on its node. Attributes change only through `ReplicaMachine.handle`."""

    replica_id: str
    limits: Limits = field(default_factory=Limits)
    state: State = "placed"
    since: float = 0.0
    goal: Goal = "run"
    seq: int = 0
    attempt: int = 0  # starts so far that ended in `failed`, reset after a long time in `ready`
    retry_at: float | None = None
    pid: int | None = None
    launch: int = 0  # number of the newest launch: the `seq` of its transition to `starting`
    exit_phase: ExitPhase = "none"  # how far the ending of the process group has got
    exit_since: float = 0.0
    drain_timeout_s: float = 60.0
    transitions: list[Transition] = field(default_factory=list)
    # Not kept over a restart of the worker:
    launching: bool = False  # a launch was ordered and has not been answered
    warming_up: bool = False  # a warm-up generation is under way
    unhealthy_since: float | None = None
    progress: TokenProgress = field(default_factory=TokenProgress)
    died: Reason | None = None  # why the leader ended by itself while the replica was draining
    running: int | None = None  # requests in the engine at the last count of a drain
    drained: str = ""  # how the drain went, for the reason of `stopped`

    def resume(self, now: float) -> None:
        """Call once on a machine that was restored from its record after the worker had gone.

        A launch may have been under way without its process id on record. The caller looks for that process and
        answers Launched or LaunchFailed; until then nothing new is launched and nothing is called stopped. Times that
        are still to come (the clock was set back meanwhile) count as now, so that no wait takes longer than its limit.
        """
        self.launching = self.pid is None and self.launch > 0 and self.state in ("starting", "draining", "failed")
        self.warming_up = False
        self.since, self.exit_since = min(self.since, now), min(self.exit_since, now)
        if self.retry_at is not None:
            self.retry_at = min(self.retry_at, now + self.limits.backoff_cap_s)

    def clock_set(self, by_s: float) -> None:
        """Tells that the clock was set by so many seconds: what has begun goes on as long as it would have."""
        self.since += by_s
        self.exit_since += by_s
        if self.retry_at is not None:
            self.retry_at += by_s
        if self.unhealthy_since is not None:
            self.unhealthy_since += by_s
        if self.progress.moved_at is not None:
            self.progress.moved_at += by_s

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong; called by tests after every step."""
        assert self.state in STATES, f"unknown state {self.state}"
        assert len(self.transitions) <= KEPT_TRANSITIONS, f"{len(self.transitions)} transitions are kept"
        for before, after in zip(self.transitions, self.transitions[1:], strict=False):
            assert before.seq + 1 == after.seq, f"sequence numbers jump from {before.seq} to {after.seq}"
            assert before.to_state == after.from_state, f"a gap between {before} and {after}"
        for one in self.transitions:
            assert one.to_state in TRANSITIONS[one.from_state], f"illegal move {one}"
        if self.transitions:
            assert self.transitions[-1].to_state == self.state, f"{self.state} was not entered by a transition"
            assert self.transitions[-1].seq == self.seq, f"{self.seq} is not the newest sequence number"
        if self.state in ("pending", "placed", "stopped"):
            assert self.pid is None, f"{self.state} with process {self.pid}"
            assert not self.launching, f"{self.state} while a launch is under way"
        if self.state in ("warming", "ready"):
            assert self.pid is not None, f"{self.state} without a process"
            assert self.exit_phase == "none", f"{self.state} while its group is being ended"
        if self.launching:
            assert self.pid is None, f"a launch is under way beside process {self.pid}"
        if self.retry_at is not None:
            assert self.state == "failed", f"a retry is due in {self.state}"
        if self.goal == "stop":
            assert self.state not in LIVE_STATES - {"draining"}, f"{self.state} although it shall stop"

    # -- moves -------------------------------------------------------------------------------------------------

    def _fail(self, reason: Reason, now: float) -> None:
        if self.state == "ready" and now - self.since >= self.limits.backoff_reset_after_s:
            self.attempt = 0
        self.attempt += 1
        self.warming_up = False
        self._move("failed", reason, now)
        self.retry_at = now + backoff_s(self.attempt, self.limits)

    def _stopped(self, now: float) -> None:
        gone = "No process of the engine is left."
        reason = Reason("gone", f"{self.drained} {gone}" if self.drained else gone)
        if self.died is not None:
            text = f"The engine ended by itself while it was draining: {self.died.message}"
            reason = replace(self.died, message=text)
        self._move("stopped", reason, now)

    def _exit_to(self, phase: ExitPhase, now: float) -> None:
        self.exit_phase = phase
        self.exit_since = now

    def _move(self, to_state: State, reason: Reason, now: float, cause: str = "") -> None:
        if to_state not in TRANSITIONS[self.state]:
            story = " ".join(f"{t.from_state}>{t.to_state}({t.reason.code})" for t in self.transitions)
            raise InvalidTransitionError(f"{self.replica_id}: {self.state} can't become {to_state}; story: {story}")
        self.seq += 1
        self.transitions.append(Transition(self.seq, now, self.state, to_state, reason, cause))
        del self.transitions[:-KEPT_TRANSITIONS]
        self.state = to_state
        self.since = now
