from __future__ import annotations

import pytest

from controlplane.domain.admission.in_time import Flow
from controlplane.domain.admission.rate import Rate
from controlplane.domain.admission.seats import DOWN_PAUSE_S, SeatLimits, Seats, Signals
from controlplane.domain.admission.tiers import BATCH, INTERACTIVE, longest_wait_s, total_limit_s

LIMITS = SeatLimits(16, 48)


def make_flow(tpot_s: float, streams: int = 20) -> Flow:
    return Flow(streams, round(streams / tpot_s), decode_s=2.0)


@pytest.mark.parametrize(
    ("signals", "why"),
    [
        (Signals(40, kv_usage=0.95), "95% of the KV cache"),
        (Signals(40, preemptions=2), "preempted 2 requests"),
    ],
)
def test_a_replica_that_suffers_gets_an_eighth_less(signals: Signals, why: str) -> None:
    change = Seats(LIMITS, 40).adjust(signals, 0.0)
    assert (change.before, change.after) == (40, 35) and why in change.why


def test_requests_that_wait_in_the_engine_for_longer_than_a_step_mean_too_many_seats() -> None:
    seats, waits = Seats(LIMITS, 40), Signals(40, engine_waiting=6)
    assert seats.adjust(waits, 0.0).after == 40
    assert seats.adjust(Signals(40, engine_waiting=0), 1.0).after == 41
    assert seats.adjust(waits, 2.0).after == 41
    change = seats.adjust(waits, 3.0)
    assert (change.before, change.after) == (41, 36) and "6 requests wait in the engine" in change.why


def test_a_few_that_wait_for_the_next_step_mean_nothing() -> None:
    seats = Seats(SeatLimits(4, 40), 40)
    for at in range(10):
        seats.adjust(Signals(40, engine_waiting=3), float(at))
    assert seats.now == 40


def test_it_is_lowered_once_in_a_while_for_what_runs_takes_time_to_end() -> None:
    seats = Seats(LIMITS, 40)
    for at in range(int(DOWN_PAUSE_S)):
        seats.adjust(Signals(40, kv_usage=0.95), float(at))
    assert seats.now == 35
    seats.adjust(Signals(40, kv_usage=0.95), DOWN_PAUSE_S)
    assert seats.now == 31


def test_with_every_seat_taken_and_room_it_gets_one_more_a_second() -> None:
    seats = Seats(LIMITS, 16)
    for at in range(10):
        seats.adjust(Signals(seats.now, kv_usage=0.5, flow=make_flow(0.02), tpot_target_s=0.05), float(at))
    assert seats.now == 26


@pytest.mark.parametrize(
    "signals",
    [Signals(10), Signals(20, kv_usage=0.85), Signals(20, flow=make_flow(0.04), tpot_target_s=0.05)],
    ids=["free seats", "no memory", "no time"],
)
def test_without_need_or_room_nothing_changes(signals: Signals) -> None:
    assert Seats(LIMITS, 20).adjust(signals, 0.0).after == 20


def test_it_stays_between_floor_and_ceiling() -> None:
    seats = Seats(LIMITS, 17)
    for at in range(0, 100, 5):
        seats.adjust(Signals(17, kv_usage=0.99), float(at))
    assert seats.now == 16
    seats.limits = SeatLimits(1, 8)
    assert seats.adjust(Signals(8), 200.0).after == 8


@pytest.mark.parametrize(
    ("known", "limits"),
    [
        ({}, SeatLimits(16, 48)),
        ({"knee": 96, "kv_tokens": 10_000, "mean_tokens": 500.0}, SeatLimits(16, 96)),
        ({"kv_tokens": 46_592, "mean_tokens": 150.0, "max_num_seqs": 16}, SeatLimits(5, 16)),
        ({"kv_tokens": 1000, "mean_tokens": 500.0, "max_num_seqs": 256}, SeatLimits(1, 2)),
        ({"kv_tokens": 100, "mean_tokens": 500.0}, SeatLimits(16, 48)),
    ],
)
def test_the_ceiling_is_the_knee_and_until_there_is_one_the_ledger_s(
    known: dict[str, float], limits: SeatLimits
) -> None:
    base: dict[str, float | None] = {"knee": None, "kv_tokens": None, "mean_tokens": None, "max_num_seqs": None}
    assert SeatLimits.of(**(base | known)) == limits  # type: ignore[arg-type]


def test_a_wait_leaves_time_for_the_prefill() -> None:
    assert longest_wait_s(INTERACTIVE, None) == 2.0
    assert longest_wait_s(INTERACTIVE, 1.0, 0.3) == pytest.approx(0.7)
    assert longest_wait_s(INTERACTIVE, 1.0, 3.0) == 0.0
    assert longest_wait_s(BATCH, 1.0) == 1.0


def test_the_time_a_request_may_take_grows_with_its_tokens() -> None:
    assert total_limit_s(INTERACTIVE, 100) == 55.0
    assert total_limit_s(BATCH, 10_000) > 20_000


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rate = Rate()
    assert rate.per_s(0.0) is None
    for step in range(200):
        rate.add(step * 0.1)
    assert rate.per_s(20.0) == pytest.approx(10.0, rel=0.05)
    assert (rate.per_s(80.0) or 0) < 0.1


def run_replica(knee: int, seconds: int, *, running: int = 1000) -> Seats:
    """A replica whose output grows with what runs up to its knee, and is flat from there on."""
    seats = Seats.start(SeatLimits(4, 256), is_promised=True)
    for at in range(seconds):
        taken = min(running, seats.now)
        seats.adjust(Signals(taken, tokens_per_s=25.0 * min(taken, knee)), float(at))
    return seats


@pytest.mark.parametrize("knee", [16, 24, 64, 200])
def test_the_knee_is_found_by_trial(knee: int) -> None:
    seats = run_replica(knee, 600)
    assert 0.75 * knee <= seats.now <= 2.0 * knee, seats


def test_seats_that_nobody_takes_are_no_trial() -> None:
    assert run_replica(64, 300, running=10).now == 16


def test_seats_that_bring_nothing_are_taken_back_and_not_tried_again_at_once() -> None:
    seats = run_replica(16, 30)
    assert (seats.now, seats.knee) == (16, 16)


def run_streams(knee: int, seconds: int) -> Seats:
    """As above, all of it streams: from the knee on each of them gets slower."""
    seats = Seats.start(SeatLimits(4, 512), is_promised=True)
    for at in range(seconds):
        tokens_per_s = 25.0 * min(seats.now, knee)
        seats.adjust(Signals(seats.now, tokens_per_s=tokens_per_s, flow=Flow(seats.now, int(tokens_per_s))), float(at))
    return seats


def test_seats_double_every_second_while_streams_are_as_fast_as_before() -> None:
    assert run_streams(1000, 6).now == 512


@pytest.mark.parametrize("knee", [16, 64, 200])
def test_the_knee_is_found_as_well_where_streams_show_their_pace(knee: int) -> None:
    assert 0.75 * knee <= run_streams(knee, 600).now <= 2.0 * knee


def test_late_tokens_lower_the_seats_at_once_and_by_as_much_as_they_are_late() -> None:
    seats = Seats(SeatLimits(4, 64), 40)
    change = seats.adjust(Signals(40, flow=make_flow(0.1), tpot_target_s=0.05), 0.0)
    assert change.after == 15 and "100 ms, the target is 50 ms" in change.why


def test_they_are_lowered_once_until_those_who_run_beyond_them_have_ended() -> None:
    seats = Seats(SeatLimits(4, 64), 40)
    for at in range(5):
        seats.adjust(Signals(40 - 4 * at, flow=make_flow(0.1), tpot_target_s=0.05), float(at))
    assert seats.now == 15
    for at in range(5, 9):
        seats.adjust(Signals(15, flow=make_flow(0.08), tpot_target_s=0.05), float(at))
    assert seats.now == 7, "still late with what may run: lowered again"


def test_when_tokens_come_in_time_again_seats_come_back_within_seconds() -> None:
    seats = Seats(SeatLimits(4, 64), 40)
    seats.adjust(Signals(40, flow=make_flow(0.1), tpot_target_s=0.05), 0.0)
    for at in range(1, 12):
        seats.adjust(Signals(seats.now, flow=make_flow(0.02), tpot_target_s=0.05), float(at))
    assert seats.now >= 40


def test_without_a_promise_late_tokens_lower_nothing() -> None:
    seats = Seats(SeatLimits(4, 64), 40)
    seats.adjust(Signals(40, flow=make_flow(9.0)), 0.0)
    assert seats.now >= 40


def test_one_second_with_a_long_prompt_in_it_is_none_to_judge_long_streams_by() -> None:
    """Streams of 12 s: a second in which hardly a token came leaves the mean of each of them in time."""
    seats = Seats(SeatLimits(4, 16), 16)
    for at in range(60):
        tpot_s = 0.25 if at % 10 == 9 else 0.03
        flow = Flow(16, round(16 / tpot_s), decode_s=12.0)
        seats.adjust(Signals(16, flow=flow, tpot_target_s=0.08), float(at))
    assert seats.now == 16


def test_seats_stay_where_they_are_while_nothing_may_change() -> None:
    seats = run_replica(64, 600)
    before = seats.now
    assert [seats.hold().after for _ in range(600)] == [before] * 600
    assert seats.trial is None


def test_lowered_seats_do_not_come_back_while_nothing_may_change() -> None:
    seats = Seats(SeatLimits(4, 64), 32)
    seats.adjust(Signals(32, flow=make_flow(0.2, streams=32), tpot_target_s=0.1), 0.0)
    lowered = seats.now
    assert lowered < 32
    assert [seats.hold().after for _ in range(60)] == [lowered] * 60


def test_what_is_on_trial_when_changes_are_switched_off_is_taken_back() -> None:
    seats = Seats.start(SeatLimits(4, 256), is_promised=True)
    at = 0.0
    while seats.trial is None:
        seats.adjust(Signals(seats.now, tokens_per_s=25.0 * seats.now), at)
        at += 1.0
    assert seats.now > seats.trial.seats == 16
    change = seats.hold()
    assert (change.after, seats.now, change.why) == (16, 16, "Nothing may be tried now.")
    assert seats.hold().why == ""


def test_whoever_takes_over_while_nothing_may_change_goes_to_the_knee_that_was_found() -> None:
    seats = Seats.start(SeatLimits(4, 256), is_promised=True)
    seats.inherit(64, 0.0)
    assert seats.hold().after == 64


def test_a_knee_that_is_confirmed_is_questioned_ever_more_seldom() -> None:
    seats = Seats.start(SeatLimits(4, 256), is_promised=True)
    trials: list[float] = []
    for at in range(2000):
        seats.adjust(Signals(seats.now, tokens_per_s=25.0 * min(seats.now, 16)), float(at))
        if seats.trial is not None and (not trials or trials[-1] != seats.trial.since):
            trials.append(seats.trial.since)
    assert 3 <= len(trials) <= 8, trials


@pytest.mark.parametrize(
    ("given", "seats"),
    [
        ({}, 48),
        ({"is_promised": True}, 16),
        ({"is_known": False}, 256),
        ({"is_known": False, "is_promised": True}, 256),
    ],
)
def test_where_a_replica_begins(given: dict[str, bool], seats: int) -> None:
    assert Seats.start(SeatLimits(4, 256), **given).now == seats
    assert Seats.start(SeatLimits(2, 8)).now == 8
