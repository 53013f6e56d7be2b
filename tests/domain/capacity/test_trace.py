"""Demands from recorded requests."""

from __future__ import annotations

import csv
import json
import os
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.capacity import trace
from controlplane.domain.errors import RefusedError

ROOT = Path(__file__).resolve().parents[3]
TRACES = Path(os.environ.get("HEADWORKS_SHARED", ROOT.parent / "shared")) / "data" / "traces"


def test_mean_and_busiest_window_wherever_it_begins() -> None:
    """100 requests in 100 s, 60 of them within 10 s across a full minute."""
    rows = [(float(n * 2), 100.0, 50.0) for n in range(20)]
    rows += [(55.0 + n / 6, 100.0, 50.0) for n in range(60)]
    rows += [(68.0 + n * 32 / 19, 100.0, 50.0) for n in range(20)]
    found = trace.demand_of(rows, peak_window_s=10)
    assert found.mean_requests_per_s == pytest.approx(1.0)
    assert found.peak_requests_per_s == pytest.approx(6.0)


def test_context_is_that_of_the_requests_that_are_met() -> None:
    """A long answer to a long prompt is met more often than both means say."""
    found = trace.demand_of([(0, 100, 10), (1, 4000, 990)])
    assert found.workload().mean_context_tokens == pytest.approx((10 * 105 + 990 * 4495) / 1000)


def test_a_burst_is_pointed_out() -> None:
    rows = [(float(n), 10.0, 10.0) for n in range(100)] + [(50.0, 10.0, 10.0)] * 30
    assert any("The busiest second brings 31 requests" in sentence for sentence in trace.demand_of(rows).seen)


def test_order_does_not_matter() -> None:
    rows = [(5.0, 10.0, 1.0), (0.0, 20.0, 2.0), (9.0, 30.0, 3.0)]
    assert trace.demand_of(rows) == trace.demand_of(sorted(rows))


@pytest.mark.parametrize(
    ("rows", "field"),
    [
        ([], "trace"),
        ([(0, 1, 1)], "trace"),
        ([(3, 1, 1), (3, 1, 1)], "trace"),
        ("0,1,1", "trace"),
        (None, "trace"),
        ([("0", 1, 1), (1, 1, 1)], "trace[0].arrival_s"),
        ([(0, 1, 1), (1, -1, 1)], "trace[1].input_tokens"),
        ([(0, 1, 1), (1, 1, float("nan"))], "trace[1].output_tokens"),
        ([(0, 1)], "trace"),
        ([{"arrival_s": 0}], "trace"),
    ],
)
def test_rows_that_can_not_be_are_refused_by_name(rows: object, field: str) -> None:
    with pytest.raises(RefusedError) as caught:
        trace.demand_of(rows)  # type: ignore[arg-type]
    assert set(caught.value.fields) == {field}


def test_a_window_that_can_not_be_is_refused_by_name() -> None:
    with pytest.raises(RefusedError) as caught:
        trace.demand_of([(0, 1, 1), (1, 1, 1)], peak_window_s=0)
    assert set(caught.value.fields) == {"peak_window_s"}


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=60), st.floats(0.5, 100))
def test_the_peak_is_never_below_the_mean(arrivals: list[float], window_s: float) -> None:
    if max(arrivals) - min(arrivals) < 1e-3:
        return
    found = trace.demand_of([(arrival, 10, 10) for arrival in arrivals], peak_window_s=window_s)
    assert found.mean_requests_per_s is not None
    assert found.peak_requests_per_s >= found.mean_requests_per_s


@given(st.lists(st.floats(0, 100), min_size=1, max_size=40), st.floats(0.1, 30))
def test_most_within_a_window_is_what_counting_finds(arrivals: list[float], window_s: float) -> None:
    ordered = sorted(arrivals)
    counted = max(sum(1 for other in ordered if arrival - window_s < other <= arrival) for arrival in ordered)
    assert trace.most_within(ordered, window_s) == counted


def rows_of(name: str) -> list[tuple[float, float, float]]:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"{name} is not here: set HEADWORKS_SHARED to a folder with data/traces")
    if name.endswith(".jsonl"):
        requests = [json.loads(line) for line in path.read_text().splitlines()]
        return [(one["timestamp"] / 1e3, one["input_length"], one["output_length"]) for one in requests]
    with path.open() as lines:
        return [
            (
                datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp(),
                float(row["ContextTokens"]),
                float(row["GeneratedTokens"]),
            )
            for row in csv.DictReader(lines)
        ]


def test_a_smooth_trace_of_conversations() -> None:
    """Published: its peak minute is 1.54 times the mean over the whole hour."""
    found = trace.demand_of(rows_of("azure_2023_conv_first_half.csv"))
    assert found.mean_requests_per_s is not None
    assert 1.3 < found.peak_requests_per_s / found.mean_requests_per_s < 1.7
    assert not any("busiest second" in sentence for sentence in found.seen)


def test_a_bursty_trace_of_code_completions() -> None:
    found = trace.demand_of(rows_of("azure_2023_code_first_half.csv"))
    assert any("busiest second" in sentence for sentence in found.seen)
    assert found.input.mean == pytest.approx(2041, rel=0.01)
    assert found.output.mean == pytest.approx(27.5, rel=0.01)


def test_a_trace_of_long_prompts() -> None:
    found = trace.demand_of(rows_of("mooncake_conversation_first_half.jsonl"))
    assert found.input.mean > 5000
    assert found.workload().mean_context_tokens > found.input.mean / 2
