from __future__ import annotations

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.performance import curve
from controlplane.domain.performance.curve import Curve, Objective
from controlplane.domain.performance.setup import Workload
from tests.domain.performance.setups import make_dense, make_mixture, make_setup

STEPS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def make_curve(objective: Objective | None = None, *, card: str = "H100-SXM", tokens: int | None = None) -> Curve:
    setup = make_setup(card, kv_capacity_tokens=tokens)
    return curve.predict(make_dense(kv_heads=8), setup, Workload(1000, 300), STEPS, objective=objective)


def test_points_come_in_rising_order_whatever_was_asked() -> None:
    found = curve.predict(make_dense(), make_setup(), Workload(), [8, 1, 8, 4])
    assert [point.concurrency for point in found.points] == [1, 4, 8]


def test_throughput_of_the_deployment_is_requests_times_answer() -> None:
    for point in make_curve().points:
        assert point.output_tok_s == pytest.approx(point.requests_s * 300)


def test_two_copies_carry_twice_the_requests_at_the_same_latency() -> None:
    one = curve.predict(make_dense(), make_setup(), Workload(), [8]).points[0]
    two = curve.predict(make_dense(), make_setup(data_parallel=2), Workload(), [16]).points[0]
    assert two.tpot_ms == pytest.approx(one.tpot_ms)
    assert two.output_tok_s == pytest.approx(2 * one.output_tok_s)


def test_the_knee_is_where_throughput_flattens() -> None:
    found = make_curve(tokens=10_000_000)
    assert found.knee.reason == "throughput"
    before = next(point for point in found.points if point.concurrency == found.knee.concurrency)
    after = found.points[found.points.index(before) + 1]
    assert after.output_tok_s / before.output_tok_s < 1.2
    assert "gains only" in found.knee.sentence


def test_the_knee_is_where_the_cache_is_full() -> None:
    found = make_curve(tokens=20_000)
    assert found.knee.reason == "memory"
    assert found.knee.concurrency == 16
    assert found.points[-1].limit == "memory for cache"


def test_the_knee_is_where_an_objective_is_left() -> None:
    by_tpot = make_curve(Objective(tpot_ms=14))
    assert by_tpot.knee.reason == "tpot"
    assert all(point.tpot_ms <= 14 for point in by_tpot.points if point.concurrency <= by_tpot.knee.concurrency)
    assert make_curve(Objective(ttft_ms=250)).knee.reason == "ttft"


def test_a_curve_that_still_rises_says_so() -> None:
    found = curve.predict(make_mixture(), make_setup("H200"), Workload(10, 2000), [1, 2, 4])
    assert found.knee.reason == "end"
    assert found.knee.concurrency == 4


def test_the_slowest_requests_wait_long_once_the_cache_is_full() -> None:
    points = {point.concurrency: point for point in make_curve(tokens=20_000).points}
    assert points[256].latency_p95_s > 10 * points[16].latency_p95_s


def test_throughput_rises_by_22_percent_and_p95_falls_when_concurrency_falls_from_128_to_48() -> None:
    """Worked sum. The cache holds 49 requests: 128 throw each other out, and their prompts are computed again."""
    load = Workload(1000, 1000)
    setup = make_setup("H20", kv_capacity_tokens=round(49 * load.mean_context_tokens))
    calm, crowded = curve.predict(make_dense(), setup, load, [48, 128]).points
    assert calm.output_tok_s / crowded.output_tok_s == pytest.approx(1.22, abs=0.06)
    assert calm.latency_p95_s < 0.5 * crowded.latency_p95_s
    assert calm.limit != "memory for cache" == crowded.limit


@pytest.mark.parametrize("wrong", [[], [0.5], [float("nan")], [float("inf")], [1e30], [1.0] * 501])
def test_concurrencies_that_can_not_be_are_refused(wrong: list[float]) -> None:
    with pytest.raises(RefusedError) as refused:
        curve.predict(make_dense(), make_setup(), Workload(), wrong)
    assert "concurrencies" in refused.value.fields


@pytest.mark.parametrize("load", [Workload(0, 10), Workload(10, -1), Workload(float("nan"), 5), Workload(10, 1e30)])
def test_lengths_that_can_not_be_are_refused(load: Workload) -> None:
    with pytest.raises(RefusedError):
        curve.predict(make_dense(), make_setup(), load, [1])


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        curve.predict(make_dense(), make_setup(weight_format="ternary"), Workload(), [1])
    assert "weight_format" in refused.value.fields
