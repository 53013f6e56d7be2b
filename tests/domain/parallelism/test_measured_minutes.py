"""Minutes of traffic that become measured points."""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.parallelism import measured_minutes
from controlplane.domain.parallelism.measured_minutes import Minute

MINUTE = Minute(running=8, requests=60, tpot_s=0.02, ttft_s=0.2, input_tokens=900, output_tokens=250)


def test_minutes_of_one_load_become_one_point_of_medians() -> None:
    odd = replace(MINUTE, tpot_s=0.9)
    (point,) = measured_minutes.points([MINUTE, odd, replace(MINUTE, running=8.4)], seats=64)
    assert (point.concurrency, point.tpot_ms, point.ttft_ms) == (8, 20, 200)
    assert (point.input_tokens, point.output_tokens) == (900, 250)


def test_other_loads_become_other_points_in_rising_order() -> None:
    found = measured_minutes.points([replace(MINUTE, running=32), MINUTE, replace(MINUTE, running=2)], seats=64)
    assert [point.concurrency for point in found] == [2, 8, 32]


def test_idle_minutes_and_a_handful_of_requests_say_nothing() -> None:
    assert measured_minutes.points([replace(MINUTE, running=0.4)], seats=64) == ()
    assert measured_minutes.points([replace(MINUTE, requests=19)], seats=64) == ()


def test_a_first_token_that_may_have_waited_for_a_seat_is_left_out() -> None:
    (point,) = measured_minutes.points([MINUTE], seats=8)
    assert point.ttft_ms is None and point.tpot_ms == 20


def test_only_the_loads_that_served_most_requests_count() -> None:
    many = [replace(MINUTE, running=1.4**n, requests=100 + n) for n in range(20)]
    found = measured_minutes.points(many, seats=1000)
    assert len(found) == measured_minutes.MOST_POINTS and found[-1].concurrency == 1.4**19
