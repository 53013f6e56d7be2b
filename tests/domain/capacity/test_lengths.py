"""Distributions of lengths."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.capacity import demand, lengths
from controlplane.domain.errors import RefusedError


def test_values_give_mean_mean_square_and_95th_percentile() -> None:
    found = lengths.of_values(range(1, 101))
    assert (found.mean, found.p95) == (50.5, 96.0)
    assert found.mean_square == pytest.approx(fmean(n * n for n in range(1, 101)))


def test_percentiles_are_joined_by_straight_lines() -> None:
    """0 to 100 tokens evenly: mean 50, mean square 100 x 100 / 3."""
    found = lengths.of_percentiles({100: 100.0})
    assert found.mean == pytest.approx(50.5)
    assert found.mean_square == pytest.approx((1 + 100 + 100 * 100) / 3)
    assert found.p95 == pytest.approx(95.05)


def test_percentiles_of_a_sample_give_nearly_its_mean() -> None:
    sample = [round(1.012**n) for n in range(1, 601)]
    percentiles = {p: float(sorted(sample)[int(p / 100 * (len(sample) - 1))]) for p in range(0, 101, 5)}
    assert lengths.of_percentiles(percentiles).mean == pytest.approx(fmean(sample), rel=0.02)


def test_long_answers_are_met_more_often_than_they_are_asked() -> None:
    alike = demand.of_rates(1, None, lengths.of_mean(1000), lengths.of_mean(300))
    spread = demand.of_rates(1, None, lengths.of_mean(1000), lengths.of_values([100] * 9 + [2100]))
    assert alike.workload().mean_context_tokens == pytest.approx(1150)
    assert spread.output.mean == pytest.approx(300)
    assert spread.workload().mean_context_tokens > 1700


def test_an_empty_answer_counts_as_one_token() -> None:
    assert lengths.of_values([0, 0]).mean == 1.0


@pytest.mark.parametrize(
    "percentiles",
    [{}, {50: -1}, {101: 5}, {50: 100, 95: 50}, {"half": 5}, {50: "many"}, {50: float("nan")}, [1], "p50", None],
)
def test_percentiles_that_can_not_be_are_refused_by_name(percentiles: object) -> None:
    with pytest.raises(RefusedError) as caught:
        lengths.of_percentiles(percentiles, "input_tokens")  # type: ignore[arg-type]
    assert any(field.startswith("input_tokens") for field in caught.value.fields)


@pytest.mark.parametrize("mean", [0, -5, float("inf"), "long", None, 1e30])
def test_a_mean_that_can_not_be_is_refused_by_name(mean: object) -> None:
    with pytest.raises(RefusedError) as caught:
        lengths.of_mean(mean, "output_tokens")  # type: ignore[arg-type]
    assert set(caught.value.fields) == {"output_tokens"}


@given(st.lists(st.floats(1, 1e5), min_size=1, max_size=50))
def test_a_mean_square_is_at_least_the_square_of_the_mean(values: list[float]) -> None:
    found = lengths.of_values(values)
    assert found.mean_square >= found.mean**2 * (1 - 1e-9)
