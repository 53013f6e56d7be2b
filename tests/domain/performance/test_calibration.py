from __future__ import annotations

from functools import partial
from math import inf

import pytest

from controlplane.domain.performance.calibration import Measured, calibrate
from controlplane.domain.performance.closed_loop import Limits, State, solve
from controlplane.domain.performance.learned import COEFFICIENTS
from controlplane.domain.performance.setup import Workload
from controlplane.domain.performance.step_time import Rates, rates, scaled
from tests.domain.performance.setups import make_format, make_mixture, make_setup

LOAD = Workload(1000, 500)


def make_rates() -> Rates:
    model = make_mixture()
    return rates(model, make_setup(), make_format("bf16", model), COEFFICIENTS)


def at(concurrency: float, speed: Rates) -> State:
    return solve(speed, LOAD, Limits(inf, inf, 8192), concurrency)


def make_point(speed: Rates, concurrency: float) -> Measured:
    return Measured(at(concurrency, speed).tpot_s, partial(at, concurrency))


def test_no_points_change_nothing() -> None:
    speed = make_rates()
    assert calibrate(speed, []) == (speed, {})


def test_a_point_as_predicted_changes_nothing() -> None:
    speed = make_rates()
    _, factors = calibrate(speed, [make_point(speed, 16)])
    assert factors == pytest.approx(dict.fromkeys(factors, 1.0), abs=1e-6)


@pytest.mark.parametrize("concurrency", [1, 16, 128])
def test_a_measured_point_is_nearly_met(concurrency: float) -> None:
    speed = make_rates()
    slow = scaled(speed, {"launch": 1.4, "experts": 1.3, "compute": 1.5})
    better, _ = calibrate(speed, [make_point(slow, concurrency)])
    assert at(concurrency, better).tpot_s == pytest.approx(at(concurrency, slow).tpot_s, rel=0.09)


def test_a_point_at_low_load_speaks_of_launches_more_than_of_prompts() -> None:
    speed = make_rates()
    _, factors = calibrate(speed, [make_point(scaled(speed, {"launch": 1.5}), 1)])
    assert factors["launch"] > factors["interference"]


def test_one_point_takes_most_of_the_error_of_others() -> None:
    speed = make_rates()
    true = scaled(speed, {"launch": 1.3, "experts": 1.3, "kv": 1.2, "compute": 1.3})
    better, _ = calibrate(speed, [make_point(true, 16)])
    for concurrency in (4, 64):
        before = abs(at(concurrency, speed).tpot_s / at(concurrency, true).tpot_s - 1)
        after = abs(at(concurrency, better).tpot_s / at(concurrency, true).tpot_s - 1)
        assert after < before / 2


def test_two_points_are_both_met_better_than_by_one() -> None:
    speed = make_rates()
    true = scaled(speed, {"launch": 0.7, "compute": 1.6})
    points = [make_point(true, 1), make_point(true, 128)]
    both, _ = calibrate(speed, points)
    for concurrency in (1, 128):
        assert at(concurrency, both).tpot_s == pytest.approx(at(concurrency, true).tpot_s, rel=0.08)


def test_an_absurd_point_changes_no_part_without_bound() -> None:
    speed = make_rates()
    _, factors = calibrate(speed, [Measured(1e6, partial(at, 16))])
    assert max(factors.values()) < 5
