"""Whatever happens in whatever order, the lifecycle keeps its promises."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controlplane.domain.lifecycle import Limits, Reason
from controlplane.domain.lifecycle_events import (
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
    Progressed,
    SignalGroup,
    Tick,
    Unhealthy,
    WarmedUp,
    WarmUpFailed,
)
from controlplane.domain.replica_machine import ReplicaMachine
from controlplane.domain.replica_state import backoff_s
from tests.domain.wording import assert_plain

LIMITS = Limits(
    start_timeout_s=20, warmup_timeout_s=10, drain_settle_s=1, drain_timeout_s=15, term_grace_s=3, kill_grace_s=2,
    backoff_base_s=1, backoff_cap_s=8, backoff_reset_after_s=50, health_lost_after_s=10,
)  # fmt: skip
WHY = Reason("why", "Because.")


class AnyOrder(RuleBasedStateMachine):
    """Events in any order, of this launch and of earlier ones, true or not; and a worker that is restarted."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = ReplicaMachine("r", LIMITS)
        self.now = 100.0
        self.pids = iter(range(1, 1_000_000))
        self.warmed: set[int] = set()  # launches of which a generation succeeded

    def give(self, event: Event) -> list[Instruction]:
        before = self.machine.state
        answer = self.machine.handle(event, self.now)
        if isinstance(event, WarmedUp):
            self.warmed.add(event.launch)
        if self.machine.state == "ready" and before != "ready":
            assert isinstance(event, WarmedUp), f"{event} made it ready"
            assert event.launch == self.machine.launch
        if any(isinstance(one, Launch) for one in answer):
            assert before == "placed" and self.machine.goal == "run"
        return answer

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 5.0, 30.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.give(Tick())

    @rule(goal=st.sampled_from(["run", "stop"]), drain_s=st.sampled_from([None, 0.0, 5.0]))
    def goal(self, goal: Any, drain_s: float | None) -> None:
        self.give(GoalSet(goal, drain_s))

    @rule(late=st.booleans(), kind=st.integers(0, 11))
    def process(self, late: bool, kind: int) -> None:
        launch = self.machine.launch - 1 if late else self.machine.launch
        before = (self.machine.state, self.machine.pid, self.machine.seq)
        event: Event = (
            Launched(launch, next(self.pids)), LaunchFailed(launch, WHY), Healthy(launch), Unhealthy(launch),
            WarmedUp(launch, 2, 0.1), WarmUpFailed(launch, WHY), InFlight(launch, 0), Exited(launch, WHY),
            GroupGone(launch), Progressed(launch, 3.0), Generated(launch), NotGenerated(launch, "late"),
        )[kind]  # fmt: skip
        self.give(event)
        if late:
            assert before == (self.machine.state, self.machine.pid, self.machine.seq)

    @rule(by_s=st.sampled_from([3600.0, -50.0, 0.5]))
    def the_clock_is_set(self, by_s: float) -> None:
        before = (self.machine.state, self.machine.seq)
        self.now += by_s
        self.machine.clock_set(by_s)
        assert before == (self.machine.state, self.machine.seq)

    @rule()
    def the_worker_is_killed_and_comes_back(self) -> None:
        old = self.machine
        self.machine = ReplicaMachine(
            "r", LIMITS, old.state, old.since, old.goal, old.seq, old.attempt, old.retry_at, old.pid, old.launch,
            old.exit_phase, old.exit_since, old.drain_timeout_s, list(old.transitions),
        )  # fmt: skip
        self.machine.resume(self.now)

    @precondition(lambda self: self.machine.state == "ready")
    @rule()
    def ready_was_earned(self) -> None:
        assert self.machine.launch in self.warmed

    @invariant()
    def sound(self) -> None:
        self.machine.check_invariants()
        for one in self.machine.transitions[-1:]:
            assert_plain(one.reason.message)


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


class World:
    """A plain truth beside the machine: a process that obeys signals after a while, and answers probes or not."""

    def __init__(self, machine: ReplicaMachine, flags: dict[str, bool]) -> None:
        self.machine = machine
        self.flags = flags
        self.now = 0.0
        self.leader = False
        self.group = False
        self.next_pid = 1

    def run(self, seconds: int, event: Event | None = None) -> None:
        if event is not None:
            self.carry_out(self.machine.handle(event, self.now))
        for _ in range(seconds):
            self.now += 1.0
            if self.machine.pid is not None and not self.leader:
                self.carry_out(self.machine.handle(Exited(self.machine.launch, WHY), self.now))
            self.carry_out(self.machine.handle(Tick(), self.now))
            self.machine.check_invariants()

    def carry_out(self, instructions: list[Instruction]) -> None:
        for one in instructions:
            answer = self.answer(one)
            if answer is not None:
                self.carry_out(self.machine.handle(answer, self.now))
                self.machine.check_invariants()

    def answer(self, one: Instruction) -> Event | None:
        launch = self.machine.launch
        match type(one).__name__:
            case "Launch":
                assert not self.group, "launched while processes of the engine before are left"
                if self.flags["launch_fails"]:
                    return LaunchFailed(launch, WHY)
                self.leader = self.group = True
                self.next_pid += 1
                return Launched(launch, self.next_pid)
            case "ProbeHealth":
                return Healthy(launch) if self.leader and self.flags["healthy"] else Unhealthy(launch)
            case "WarmUp":
                if self.flags["dies_on_generation"]:
                    self.leader = False
                    return None
                return WarmedUp(launch, 2, 0.1) if self.flags["generates"] else WarmUpFailed(launch, WHY)
            case "CountProgress":
                return Progressed(launch, None)
            case "TryGeneration":
                return Generated(launch) if self.flags["generates"] else NotGenerated(launch, "no token")
            case "CountInFlight":
                return InFlight(launch, 3 if self.flags["busy"] else 0)
            case "SignalGroup":
                assert isinstance(one, SignalGroup)
                if one.signal == "KILL" or not self.flags["ignores_term"]:
                    self.leader = False
                    self.group = self.flags["child_ignores_term"] and one.signal != "KILL"
            case "ConfirmGone":
                return None if self.group else GroupGone(launch)
        return None


NAMES = ["launch_fails", "healthy", "generates", "dies_on_generation", "busy", "ignores_term", "child_ignores_term"]


@given(flags=st.fixed_dictionaries({name: st.booleans() for name in NAMES}), at=st.integers(0, 120))
@settings(max_examples=300, deadline=None)
def test_with_the_goal_stop_it_always_ends_in_stopped(flags: dict[str, bool], at: int) -> None:
    world = World(ReplicaMachine("r", LIMITS, drain_timeout_s=15), flags)
    world.run(at)
    world.run(60, GoalSet("stop"))
    assert world.machine.state == "stopped"
    assert not world.group and not world.leader


@given(flags=st.fixed_dictionaries({name: st.booleans() for name in NAMES}))
@settings(max_examples=128, deadline=None)
def test_ready_means_that_it_generates(flags: dict[str, bool]) -> None:
    world = World(ReplicaMachine("r", LIMITS, drain_timeout_s=15), flags)
    world.run(60)
    works = flags["healthy"] and flags["generates"] and not flags["dies_on_generation"] and not flags["launch_fails"]
    entered = [one.to_state for one in world.machine.transitions].count("ready")
    assert (entered > 0) == works


@given(attempt=st.integers(1, 10**9))
def test_the_pause_never_shrinks_and_never_passes_its_cap(attempt: int) -> None:
    assert backoff_s(attempt, LIMITS) <= backoff_s(attempt + 1, LIMITS) <= LIMITS.backoff_cap_s
