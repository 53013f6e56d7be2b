"""The life of one replica as a pure state machine.

Guarantees
    The state changes only through `ReplicaMachine.handle`. Every change is one of `TRANSITIONS`, gets the next
    sequence number and the newest `KEPT_TRANSITIONS` of them stand in `transitions`. `ready` is entered only by
    `WarmedUp`, that is after a real generation; an answer of `/health` alone never gets there. Events about a process
    name the launch they belong to, so an answer that comes late from an earlier process changes nothing. A new launch
    waits until not one process of the one before is left. With the goal `stop`, `stopped` is reached as soon as the
    process group is gone.
Does not do
    I/O, clocks, randomness. `now` is seconds since the epoch and is passed in; the instructions that come back are
    carried out by the node worker's supervisor, whose results return as events.
Concurrency
    One owner (the supervisor's loop); not thread-safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from controlplane.domain.lifecycle import Reason
from controlplane.domain.lifecycle_events import (
    ConfirmGone,
    CountInFlight,
    CountProgress,
    Event,
    Exited,
    Generated,
    GoalSet,
    GroupGone,
    Healthy,
    InFlight,
    Instruction,
    Launch,
    Launched,
    LaunchFailed,
    NotGenerated,
    ProbeHealth,
    ProcessEvent,
    Progressed,
    SignalGroup,
    Tick,
    TryGeneration,
    Unhealthy,
    WarmedUp,
    WarmUp,
    WarmUpFailed,
)
from controlplane.domain.replica_state import ReplicaState
from controlplane.domain.token_progress import TokenProgress


@dataclass(slots=True)
class ReplicaMachine(ReplicaState):
    """The rules: events in, instructions out."""

    # -- events in, instructions out ---------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Instruction]:
        """Applies one event at time `now` and returns what to do about it. Late events of an earlier launch are
        ignored, so a caller may deliver them."""
        match event:
            case GoalSet():
                return self._goal_set(event, now)
            case Tick():
                return self._tick(now)
            case _:
                return self._of_process(event, now) if event.launch == self.launch else []

    # -- the steps ---------------------------------------------------------------------------------------------

    def _of_process(self, event: ProcessEvent, now: float) -> list[Instruction]:
        match event:
            case Launched(pid=pid):
                return self._launched(pid, now)
            case LaunchFailed(reason=reason):
                return self._launch_failed(reason, now)
            case Healthy():
                self.unhealthy_since = None
                if self.state == "starting" and self.pid is not None:
                    self._move("warming", Reason("healthy", "The engine answers; a generation is tried."), now)
                return []
            case Unhealthy():
                return self._unhealthy(now)
            case WarmedUp(output_tokens=tokens, took_s=took_s):
                self.warming_up = False
                if self.state == "warming":
                    text = f"A real generation gave {tokens} tokens in {took_s:.2f} s."
                    self._move("ready", Reason("warmed_up", text), now)
                    self.progress = TokenProgress(moved_at=now)
                return []
            case WarmUpFailed(reason=reason):
                self.warming_up = False
                return self._fail_and_end(reason, now) if self.state == "warming" else []
            case Progressed(count=count):
                self.progress.counted(count, now)
                return []
            case Generated():
                self.progress.generated(now)
                return []
            case NotGenerated(text=text):
                return self._not_generated(text, now)
            case InFlight(requests=requests):
                return self._in_flight(requests, now)
            case Exited(reason=reason):
                return self._exited(reason, now)
            case GroupGone():
                return self._group_gone(now)

    def _goal_set(self, event: GoalSet, now: float) -> list[Instruction]:
        if event.drain_timeout_s is not None:
            self.drain_timeout_s = event.drain_timeout_s
        if event.goal == self.goal or self.state == "stopped":
            return []
        self.goal = event.goal
        if event.goal == "run":
            return []  # a drain that has begun is carried through; the control plane makes another replica
        without_process = self.pid is None and not self.launching
        if self.state in ("pending", "placed") or (self.state == "failed" and without_process):
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

    def _launched(self, pid: int, now: float) -> list[Instruction]:
        if not self.launching:
            return []
        self.launching = False
        self.pid = pid
        return self._while_ending(now) if self.state in ("draining", "failed") else []

    def _launch_failed(self, reason: Reason, now: float) -> list[Instruction]:
        if not self.launching:
            return []
        self.launching = False
        if self.state == "starting":
            self._fail(reason, now)
        return []

    def _unhealthy(self, now: float) -> list[Instruction]:
        if self.state != "ready":
            return []  # before, the start and warm-up limits count; after, it is being ended anyway
        if self.unhealthy_since is None:
            self.unhealthy_since = now
        lost_s = now - self.unhealthy_since
        if lost_s < self.limits.health_lost_after_s:
            return []
        text = f"The engine's process lives and has answered no health probe for {lost_s:.0f} s."
        return self._fail_and_end(Reason("health_lost", text, "Read the engine's log; it may hang."), now)

    def _look_at_progress(self, now: float) -> list[Instruction]:
        if self.progress.is_to_be_tried(now, self.limits):
            return [CountProgress(), TryGeneration(self.limits.quiet_generation_s)]
        return [CountProgress()]

    def _not_generated(self, text: str, now: float) -> list[Instruction]:
        if not self.progress.has_stalled(now, self.limits) or self.state != "ready":
            return []
        quiet_s = self.progress.quiet_s(now)
        sentence = f"The engine has made no token for {quiet_s:.0f} s and gave none when asked: {text}"
        return self._fail_and_end(
            Reason("stalled", sentence, "Read the engine's log; /health may go on answering."), now
        )

    def _in_flight(self, requests: int | None, now: float) -> list[Instruction]:
        if self.state != "draining" or self.exit_phase != "wait":
            return []
        self.running = requests
        if requests == 0 and now - self.exit_since >= self.limits.drain_settle_s:
            self.drained = "Every request had finished."
            return self._begin_term(now)
        return []

    def _exited(self, reason: Reason, now: float) -> list[Instruction]:
        if self.pid is None:
            return []
        if self.state in ("starting", "warming", "ready"):
            return self._fail_and_end(reason, now, already_dead=True)
        if self.state not in ("draining", "failed") or self.exit_phase == "kill":
            return []
        if self.exit_phase == "wait":
            self.died = reason
        self._exit_to("kill", now)  # a dead leader with a living group: end the rest
        return [SignalGroup("KILL"), ConfirmGone()]

    def _group_gone(self, now: float) -> list[Instruction]:
        if self.pid is None or self.state not in ("draining", "failed"):
            return []
        self.pid = None
        self._exit_to("none", now)
        if self.state == "draining":
            self._stopped(now)
        return []

    def _tick(self, now: float) -> list[Instruction]:
        match self.state:
            case "placed" if self.goal == "stop":
                self._move("stopped", Reason("asked", "It was to stop before it had started."), now)
                return []
            case "placed":
                return self._launch(now)
            case "starting":
                return self._while_starting(now)
            case "warming":
                return self._while_warming(now)
            case "ready":
                if self.attempt and now - self.since >= self.limits.backoff_reset_after_s:
                    self.attempt = 0
                return [ProbeHealth(), *self._look_at_progress(now)]
            case "draining" | "failed" if self.pid is not None or self.launching:
                return self._while_ending(now)
            case "draining":
                self._stopped(now)
                return []
            case "failed":
                return self._while_failed(now)
            case _:
                return []

    def _launch(self, now: float) -> list[Instruction]:
        self.warming_up = False
        self.launching = True
        self.unhealthy_since = None
        self._exit_to("none", now)
        self._move("starting", Reason("launch", f"Start number {self.attempt + 1}."), now)
        self.launch = self.seq
        return [Launch(self.launch, self.attempt + 1)]

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
            case "wait" if waited >= self.drain_timeout_s:
                self.drained = _cut_off(self.running, self.drain_timeout_s)
                return self._begin_term(now)
            case "wait":
                return [CountInFlight()]
            case "term" if waited >= self.limits.term_grace_s:
                self._exit_to("kill", now)
                return [SignalGroup("KILL"), ConfirmGone()]
            case "kill" if waited >= self.limits.kill_grace_s:
                self._exit_to("kill", now)
                return [SignalGroup("KILL"), ConfirmGone()]
            case _:
                return [ConfirmGone()]

    def _while_failed(self, now: float) -> list[Instruction]:
        if self.retry_at is None or now >= self.retry_at:
            self.retry_at = None
            times = f"{self.attempt} failed start{'s' if self.attempt != 1 else ''}"
            self._move("placed", Reason("retry", f"The pause after {times} is over; it is started again."), now)
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


def _cut_off(running: int | None, limit_s: float) -> str:
    if running == 0:
        return "Every request had finished."
    left = "an unknown number of requests" if running is None else f"{running} request{'s' if running > 1 else ''}"
    return f"The drain limit of {limit_s:g} s was reached with {left} still running."
