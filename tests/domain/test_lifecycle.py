from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.lifecycle import Limits, Reason
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
    Progressed,
    SignalGroup,
    Tick,
    TryGeneration,
    Unhealthy,
    WarmedUp,
    WarmUp,
    WarmUpFailed,
)
from controlplane.domain.replica_machine import ReplicaMachine
from controlplane.domain.replica_state import KEPT_TRANSITIONS, InvalidTransitionError, backoff_s, first_seq

LIMITS = Limits(
    start_timeout_s=100, warmup_timeout_s=50, drain_settle_s=2, drain_timeout_s=30, term_grace_s=10, kill_grace_s=5,
    backoff_base_s=1, backoff_cap_s=60, backoff_reset_after_s=600, health_lost_after_s=20,
)  # fmt: skip
DIED = Exited(0, Reason("engine_ended", "The engine ended (signal SIGKILL)."))


class Driver:
    """A machine with its clock; every step checks the invariants."""

    def __init__(self, machine: ReplicaMachine | None = None) -> None:
        self.machine = machine or ReplicaMachine("r1", LIMITS, drain_timeout_s=30)
        self.now = 1000.0

    def __call__(self, event: Event) -> list[Instruction]:
        if not isinstance(event, GoalSet | Tick) and event.launch == 0:
            event = replace(event, launch=self.machine.launch)
        answer = self.machine.handle(event, self.now)
        self.machine.check_invariants()
        return answer

    def tick(self, after_s: float = 0.0) -> list[Instruction]:
        self.now += after_s
        return self(Tick())

    @property
    def state(self) -> str:
        return self.machine.state

    def story(self) -> list[str]:
        return [one.to_state for one in self.machine.transitions]


def make_starting(pid: int = 100) -> Driver:
    driver = Driver()
    driver.tick()
    driver(Launched(0, pid))
    return driver


def make_warming() -> Driver:
    driver = make_starting()
    driver(Healthy(0))
    driver.tick()
    return driver


def make_ready() -> Driver:
    driver = make_warming()
    driver(WarmedUp(0, 2, 0.5))
    return driver


def make_failed(driver: Driver | None = None) -> Driver:
    driver = driver or make_ready()
    driver(DIED)
    driver(GroupGone(0))
    return driver


MAKERS = {"starting": make_starting, "warming": make_warming, "ready": make_ready, "failed": make_failed}


# -- the straight way ------------------------------------------------------------------------------------------------


def test_a_replica_goes_from_placed_to_ready() -> None:
    driver = Driver()
    assert driver.tick() == [Launch(1, 1)]
    assert driver.tick() == [], "nothing is probed before the process exists"
    driver(Launched(0, 100))
    assert driver.tick() == [ProbeHealth()]
    driver(Healthy(0))
    assert driver.tick() == [WarmUp(50)]
    assert driver.tick() == [], "one generation at a time"
    driver(WarmedUp(0, 2, 0.5))
    assert driver.tick() == [ProbeHealth(), CountProgress()]
    assert driver.story() == ["starting", "warming", "ready"]


def test_health_alone_never_makes_it_ready() -> None:
    driver = make_starting()
    for _ in range(20):
        driver(Healthy(0))
        driver.tick(1)
    assert driver.state == "warming"


def test_a_generation_without_a_healthy_answer_before_it_changes_nothing() -> None:
    driver = make_starting()
    driver(WarmedUp(0, 2, 0.5))
    assert driver.state == "starting"


def test_a_health_answer_before_the_process_is_known_changes_nothing() -> None:
    driver = Driver()
    driver.tick()
    driver(Healthy(0))
    assert driver.state == "starting"


# -- failing and trying again ----------------------------------------------------------------------------------------


def test_a_failed_warm_up_ends_the_process() -> None:
    driver = make_warming()
    assert driver(WarmUpFailed(0, Reason("warm_up_failed", "500"))) == [SignalGroup("TERM"), ConfirmGone()]
    assert driver.state == "failed"


def test_a_start_that_takes_too_long_fails() -> None:
    driver = make_starting()
    assert driver.tick(101) == [SignalGroup("TERM"), ConfirmGone()]
    assert driver.machine.transitions[-1].reason.code == "start_timeout"


def test_a_warm_up_that_takes_too_long_fails() -> None:
    driver = make_warming()
    driver.tick(51)
    assert driver.machine.transitions[-1].reason.code == "warmup_timeout"


@pytest.mark.parametrize("state", ["starting", "warming", "ready"])
def test_a_dead_leader_fails_the_replica_and_its_group_is_killed(state: str) -> None:
    driver = MAKERS[state]()
    assert driver(DIED) == [SignalGroup("KILL"), ConfirmGone()]
    assert driver.state == "failed"
    assert driver.machine.transitions[-1].reason == DIED.reason


def test_nothing_is_launched_while_a_process_of_the_failed_engine_lives() -> None:
    driver = make_ready()
    driver(DIED)
    for _ in range(50):
        assert Launch not in {type(one) for one in driver.tick(10)}
    assert driver.state == "failed"
    driver(GroupGone(0))
    driver.tick()
    assert driver.state == "placed"


def test_a_group_that_survives_a_kill_is_killed_again() -> None:
    driver = make_ready()
    driver(DIED)
    assert driver.tick(1) == [ConfirmGone()]
    assert driver.tick(5) == [SignalGroup("KILL"), ConfirmGone()]
    assert driver.tick(5) == [SignalGroup("KILL"), ConfirmGone()]


def test_a_failed_launch_is_tried_again_after_a_pause() -> None:
    driver = Driver()
    driver.tick()
    driver(LaunchFailed(0, Reason("launch_failed", "no such program")))
    assert driver.state == "failed"
    driver.tick(0.9)
    assert driver.state == "failed"
    driver.tick(0.2)
    assert driver.state == "placed"
    assert [type(one) for one in driver.tick()] == [Launch]


def test_the_pause_doubles_and_is_capped() -> None:
    pauses = [backoff_s(attempt, LIMITS) for attempt in range(0, 10)]
    assert pauses == [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert backoff_s(10**6, LIMITS) == 60


def test_the_pauses_of_one_replica_grow() -> None:
    driver = Driver()
    pauses = []
    for _ in range(9):
        driver.tick()
        driver(LaunchFailed(0, Reason("launch_failed", "x")))
        pauses.append((driver.machine.retry_at or 0) - driver.now)
        driver.tick(61)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_a_long_time_in_ready_forgives_earlier_failures() -> None:
    driver = make_failed()
    driver.tick(2)
    driver.tick()
    driver(Launched(0, 101))
    driver(Healthy(0))
    driver.tick()
    driver(WarmedUp(0, 2, 0.5))
    driver.tick(599)
    assert driver.machine.attempt == 1
    driver.tick(1)
    assert driver.machine.attempt == 0


def test_an_engine_that_dies_after_a_long_time_in_ready_starts_counting_anew() -> None:
    driver = make_failed()
    driver.tick(2)
    driver.tick()
    driver(Launched(0, 101))
    driver(Healthy(0))
    driver.tick()
    driver(WarmedUp(0, 2, 0.5))
    driver.now += 700
    driver(DIED)
    assert driver.machine.attempt == 1


def test_a_crash_loop_does_not_grow_without_bound() -> None:
    driver = Driver()
    for _ in range(200):
        driver.tick(61)
        driver(LaunchFailed(0, Reason("launch_failed", "x")))
        driver.tick(61)
    assert len(driver.machine.transitions) == KEPT_TRANSITIONS
    assert driver.machine.seq == 600


# -- a ready engine that no longer answers -----------------------------------------------------------------------------


def test_an_engine_that_answers_no_probe_for_long_fails() -> None:
    driver = make_ready()
    driver(Unhealthy(0))
    driver.now += 19
    assert driver(Unhealthy(0)) == []
    driver.now += 1
    assert driver(Unhealthy(0)) == [SignalGroup("TERM"), ConfirmGone()]
    assert driver.machine.transitions[-1].reason.code == "health_lost"


def test_one_good_answer_starts_the_count_anew() -> None:
    driver = make_ready()
    driver(Unhealthy(0))
    driver.now += 19
    driver(Healthy(0))
    driver.now += 19
    driver(Unhealthy(0))
    assert driver.state == "ready"


def test_a_machine_that_slept_does_not_fail_its_engines() -> None:
    driver = make_ready()
    driver(Healthy(0))
    driver.now += 8 * 3600
    driver(Unhealthy(0))
    assert driver.state == "ready"


# -- a ready engine in which nothing moves ----------------------------------------------------------------------------


def make_quiet(count: float | None = 5.0) -> Driver:
    """A ready replica whose counters have rested until a generation is tried."""
    driver = make_ready()
    driver(Progressed(0, count))
    assert driver.tick(LIMITS.quiet_after_s - 1) == [ProbeHealth(), CountProgress()]
    assert driver.tick(1) == [ProbeHealth(), CountProgress(), TryGeneration(LIMITS.quiet_generation_s)]
    return driver


def test_an_engine_that_gives_no_token_when_asked_has_stalled_although_it_is_healthy() -> None:
    driver = make_quiet()
    driver.now += LIMITS.quiet_generation_s
    driver(Healthy(0))
    assert driver(NotGenerated(0, "timed out")) == []
    assert TryGeneration(LIMITS.quiet_generation_s) in driver.tick()
    driver.now += LIMITS.quiet_generation_s
    assert driver(NotGenerated(0, "timed out")) == [SignalGroup("TERM"), ConfirmGone()]
    reason = driver.machine.transitions[-1].reason
    assert reason.code == "stalled" and "90 s" in reason.message and "timed out" in reason.message


def test_one_generation_is_tried_at_a_time() -> None:
    driver = make_quiet()
    assert TryGeneration(LIMITS.quiet_generation_s) not in driver.tick(1)


@pytest.mark.parametrize("sign", [Generated(0), Progressed(0, 6.0)])
def test_a_sign_of_progress_starts_the_count_anew(sign: Event) -> None:
    driver = make_quiet()
    driver(NotGenerated(0, "timed out"))
    driver.tick(LIMITS.stalled_after_s)
    driver(sign)
    driver(NotGenerated(0, "timed out"))
    assert driver.state == "ready"


@pytest.mark.parametrize("reading", [5.0, None])
def test_counters_that_rest_or_can_not_be_read_are_no_progress(reading: float | None) -> None:
    driver = make_quiet()
    for _ in range(2):
        driver(Progressed(0, reading))
        driver(NotGenerated(0, "timed out"))
        driver.tick(LIMITS.stalled_after_s)
    assert driver.state == "failed"


def test_a_busy_engine_is_never_asked() -> None:
    driver = make_ready()
    for count in range(100):
        driver(Progressed(0, float(count)))
        assert driver.tick(5) == [ProbeHealth(), CountProgress()]


def test_a_generation_that_a_sleep_cut_fails_no_engine() -> None:
    driver = make_quiet()
    driver.now += 8 * 3600
    driver(NotGenerated(0, "timed out"))
    assert driver.state == "ready"


def test_a_new_engine_of_the_replica_begins_with_no_count() -> None:
    driver = make_quiet()
    make_failed(driver)
    driver.tick(60)
    driver.tick()
    driver(Launched(0, 101))
    driver(Healthy(0))
    driver.tick()
    driver(WarmedUp(0, 2, 0.5))
    assert driver.tick() == [ProbeHealth(), CountProgress()]


def set_clock(driver: Driver, by_s: float) -> None:
    driver.now += by_s
    driver.machine.clock_set(by_s)


@pytest.mark.parametrize("by_s", [7200.0, -7200.0])
def test_a_clock_that_is_set_changes_no_limit(by_s: float) -> None:
    starting, warming, draining, silent = make_starting(), make_warming(), make_ready(), make_ready()
    draining(GoalSet("stop", 30))
    silent(Unhealthy(0))
    for driver in (starting, warming, draining, silent):
        set_clock(driver, by_s)
        driver.tick(1)
    silent(Unhealthy(0))
    assert [one.state for one in (starting, warming, draining, silent)] == ["starting", "warming", "draining", "ready"]
    draining.tick(28)
    assert draining.tick(1) == [SignalGroup("TERM"), ConfirmGone()]
    silent.now += 19
    silent(Unhealthy(0))
    starting.tick(100)
    warming.tick(50)
    assert [one.state for one in (starting, warming, silent)] == ["failed"] * 3


@pytest.mark.parametrize("by_s", [7200.0, -7200.0])
def test_a_retry_comes_when_it_would_have_come_before_the_clock_was_set(by_s: float) -> None:
    driver = Driver()
    driver.tick()
    driver(LaunchFailed(0, Reason("x", "x")))
    set_clock(driver, by_s)
    driver.tick(0.5)
    assert driver.state == "failed"
    driver.tick(0.5)
    assert driver.state == "placed"


def test_an_unanswered_probe_before_ready_is_normal() -> None:
    driver = make_starting()
    for _ in range(9):
        driver.now += 10
        driver(Unhealthy(0))
    assert driver.state == "starting"


# -- stopping ------------------------------------------------------------------------------------------------------


def test_a_ready_replica_waits_for_its_requests_before_it_is_ended() -> None:
    driver = make_ready()
    driver(GoalSet("stop"))
    assert driver.tick(3) == [CountInFlight()]
    assert driver(InFlight(0, 2)) == []
    assert driver.tick(3) == [CountInFlight()]
    assert driver(InFlight(0, 0)) == [SignalGroup("TERM"), ConfirmGone()]
    driver(GroupGone(0))
    assert driver.story()[-2:] == ["draining", "stopped"]


def test_no_requests_right_after_the_wish_may_mean_that_the_gateways_have_not_heard() -> None:
    driver = make_ready()
    driver(GoalSet("stop"))
    driver.now += 1
    assert driver(InFlight(0, 0)) == []
    driver.now += 1
    assert driver(InFlight(0, 0)) == [SignalGroup("TERM"), ConfirmGone()]


def test_an_engine_that_does_not_say_is_given_the_whole_limit() -> None:
    driver = make_ready()
    driver(GoalSet("stop"))
    driver.now += 5
    assert driver(InFlight(0, None)) == []
    assert driver.tick(24) == [CountInFlight()]
    assert driver.tick(1) == [SignalGroup("TERM"), ConfirmGone()]


@pytest.mark.parametrize(
    ("requests", "text"),
    [(2, "with 2 requests"), (1, "with 1 request still"), (None, "unknown number"), (0, "had finished")],
)
def test_the_end_tells_what_a_drain_limit_has_cut_off(requests: int | None, text: str) -> None:
    driver = make_ready()
    driver(GoalSet("stop"))
    driver(InFlight(0, requests))
    driver.tick(31)
    driver(GroupGone(0))
    assert text in driver.machine.transitions[-1].reason.message


def test_who_ignores_sigterm_gets_sigkill() -> None:
    driver = make_ready()
    driver(GoalSet("stop", drain_timeout_s=0))
    assert driver.tick() == [SignalGroup("TERM"), ConfirmGone()]
    assert driver.tick(9) == [ConfirmGone()]
    assert driver.tick(1) == [SignalGroup("KILL"), ConfirmGone()]
    driver(GroupGone(0))
    assert driver.state == "stopped"


def test_a_shorter_limit_shortens_a_drain_that_has_begun() -> None:
    driver = make_ready()
    driver(GoalSet("stop", drain_timeout_s=3600))
    assert driver.tick(60) == [CountInFlight()]
    driver(GoalSet("stop", drain_timeout_s=0))
    assert driver.tick() == [SignalGroup("TERM"), ConfirmGone()]


@pytest.mark.parametrize("state", ["starting", "warming"])
def test_what_serves_nothing_yet_is_ended_at_once(state: str) -> None:
    driver = MAKERS[state]()
    driver(GoalSet("stop"))
    assert driver.state == "draining"
    assert driver.tick() == [SignalGroup("TERM"), ConfirmGone()]


def test_a_placed_replica_stops_without_ever_starting() -> None:
    driver = Driver()
    driver(GoalSet("stop"))
    assert driver.state == "stopped"


def test_a_replica_that_is_made_with_the_goal_stop_never_starts() -> None:
    driver = Driver(ReplicaMachine("r1", LIMITS, goal="stop"))
    assert driver.tick() == []
    assert driver.state == "stopped"


def test_a_stop_while_the_launch_is_under_way_ends_the_process_that_comes() -> None:
    driver = Driver()
    driver.tick()
    driver(GoalSet("stop"))
    assert driver.tick() == [], "the launch answers first"
    assert driver(Launched(0, 100)) == [SignalGroup("TERM"), ConfirmGone()]
    driver(GroupGone(0))
    assert driver.state == "stopped"


def test_a_stop_while_the_launch_fails_ends_in_stopped() -> None:
    driver = Driver()
    driver.tick()
    driver(GoalSet("stop"))
    driver(LaunchFailed(0, Reason("launch_failed", "x")))
    driver.tick()
    assert driver.state == "stopped"


def test_a_stop_after_the_start_timed_out_during_the_launch_loses_no_process() -> None:
    driver = Driver()
    driver.tick()
    driver.tick(101)
    assert driver.state == "failed"
    driver(GoalSet("stop"))
    assert driver.state == "draining"
    assert driver(Launched(0, 100)) == [SignalGroup("TERM"), ConfirmGone()]


def test_a_failed_replica_without_process_stops_at_once_and_never_retries() -> None:
    driver = make_failed()
    driver(GoalSet("stop"))
    assert driver.state == "stopped"
    assert driver.tick(3600) == []


def test_a_failed_replica_with_a_living_group_stops_after_the_group_is_gone() -> None:
    driver = make_ready()
    driver(DIED)
    driver(GoalSet("stop"))
    assert driver.state == "draining"
    assert driver.tick(5) == [SignalGroup("KILL"), ConfirmGone()]
    driver(GroupGone(0))
    assert driver.state == "stopped"


def test_an_engine_that_dies_while_it_drains_leaves_its_reason() -> None:
    driver = make_ready()
    driver(GoalSet("stop"))
    driver.tick(1)
    assert driver(DIED) == [SignalGroup("KILL"), ConfirmGone()]
    driver(GroupGone(0))
    reason = driver.machine.transitions[-1].reason
    assert driver.state == "stopped"
    assert reason.code == "engine_ended" and "while it was draining" in reason.message


def test_a_drain_that_has_begun_is_carried_through() -> None:
    driver = make_ready()
    driver(GoalSet("stop", drain_timeout_s=0))
    driver(GoalSet("run"))
    driver.tick()
    driver(GroupGone(0))
    assert driver.state == "stopped"
    driver(GoalSet("run"))
    assert driver.tick() == []


# -- late and repeated events ------------------------------------------------------------------------------------------


def test_answers_of_an_earlier_process_change_nothing() -> None:
    driver = make_failed(make_warming())
    earlier = driver.machine.launch
    driver.tick(2)
    driver.tick()
    driver(Launched(0, 101))
    driver(Healthy(earlier))
    assert driver.state == "starting"
    driver(Healthy(0))
    driver.tick()
    driver(WarmedUp(earlier, 2, 0.5))
    assert driver.state == "warming", "a generation of the dead process proves nothing about this one"
    driver(WarmUpFailed(earlier, Reason("warm_up_failed", "connection reset")))
    driver(Exited(earlier, DIED.reason))
    driver(GroupGone(earlier))
    assert driver.state == "warming" and driver.machine.pid == 101


def test_a_second_answer_to_one_launch_is_ignored() -> None:
    driver = make_ready()
    driver(Launched(0, 555))
    driver(LaunchFailed(0, Reason("launch_failed", "x")))
    assert (driver.state, driver.machine.pid) == ("ready", 100)


def test_a_group_is_not_called_gone_while_it_serves() -> None:
    driver = make_ready()
    driver(GroupGone(0))
    assert (driver.state, driver.machine.pid) == ("ready", 100)


def test_a_cause_travels_into_the_transition() -> None:
    driver = make_ready()
    driver(GoalSet("stop", cause="ev-17"))
    assert driver.machine.transitions[-1].cause == "ev-17"


def test_a_move_that_does_not_exist_tells_the_story() -> None:
    driver = make_ready()
    with pytest.raises(InvalidTransitionError, match=r"ready can't become placed; story: placed>starting\(launch\)"):
        driver.machine._move("placed", Reason("x", "x"), driver.now)


# -- after the worker was killed ---------------------------------------------------------------------------------------


def make_restored(driver: Driver) -> Driver:
    """What a record keeps, in a new machine."""
    old = driver.machine
    machine = ReplicaMachine(
        "r1", LIMITS, old.state, old.since, old.goal, old.seq, old.attempt, old.retry_at, old.pid, old.launch,
        old.exit_phase, old.exit_since, old.drain_timeout_s, list(old.transitions),
    )  # fmt: skip
    machine.resume(driver.now + 5)
    again = Driver(machine)
    again.now = driver.now + 5
    machine.check_invariants()
    return again


def test_a_ready_replica_stays_ready_over_a_restart_of_the_worker() -> None:
    driver = make_restored(make_ready())
    assert driver.tick() == [ProbeHealth(), CountProgress()]
    assert (driver.state, driver.machine.pid) == ("ready", 100)


def test_a_warm_up_is_begun_anew_after_a_restart() -> None:
    assert make_restored(make_warming()).tick() == [WarmUp(50)]


def test_a_drain_goes_on_where_it_was() -> None:
    driver = make_ready()
    driver(GoalSet("stop"))
    driver = make_restored(driver)
    assert driver.tick(24) == [CountInFlight()]
    assert driver.tick(1) == [SignalGroup("TERM"), ConfirmGone()]


def test_a_launch_without_a_recorded_process_is_resolved_first() -> None:
    driver = Driver()
    driver.tick()
    found = make_restored(driver)
    found(Launched(0, 77))
    assert found.tick() == [ProbeHealth()]
    lost = make_restored(driver)
    lost(LaunchFailed(0, Reason("worker_restarted", "x")))
    assert lost.state == "failed"


def test_a_process_that_was_never_recorded_is_ended_when_it_should_stop() -> None:
    driver = Driver()
    driver.tick()
    driver(GoalSet("stop"))
    driver = make_restored(driver)
    assert driver.tick() == []
    assert driver(Launched(0, 77)) == [SignalGroup("TERM"), ConfirmGone()]


def test_a_replica_that_was_never_launched_needs_no_resolving() -> None:
    driver = make_restored(Driver())
    assert [type(one) for one in driver.tick()] == [Launch]


def test_sequence_numbers_of_a_node_that_lost_its_records_go_on_above_the_old_ones() -> None:
    machine = ReplicaMachine("r1", LIMITS, seq=first_seq(1_800_000_000.7))
    machine.handle(Tick(), 1_800_000_001.0)
    assert machine.transitions[0].seq == 1_800_000_001
