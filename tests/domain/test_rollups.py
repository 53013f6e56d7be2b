from __future__ import annotations

from controlplane.domain.rollups import GaugeWindow, Rollup, merge_span, minute_of, rates_of, slot_of, values_of


def make_rollup(start_s: int, source: str = "collector:n1", **fields: object) -> Rollup:
    return Rollup("deployment:chat", source, start_s, **fields)  # type: ignore[arg-type]


def test_slots_and_minutes() -> None:
    assert (slot_of(1234.9), minute_of(1234.9)) == (1230, 1200)


def test_nothing_gives_nothing() -> None:
    assert merge_span([], 0) is None


def test_producers_are_added_within_a_slot_and_slots_averaged() -> None:
    span = merge_span(
        [
            make_rollup(0, "collector:n1", gauges={"running": (2.0, 4.0), "kv_usage": (0.2, 0.5)}, weight=3.0),
            make_rollup(0, "collector:n2", gauges={"running": (3.0, 3.0), "kv_usage": (0.6, 0.6)}),
            make_rollup(10, "collector:n1", gauges={"running": (1.0, 1.0)}),
        ],
        0,
    )
    assert span is not None
    assert span.gauges["running"] == (3.0, 7.0)  # (2+3 and 1) averaged; the peak is the sum of the peaks
    assert round(span.gauges["kv_usage"][0], 9) == 0.3
    assert span.gauges["kv_usage"][1] == 0.6
    assert span.covered_s == 20


def test_a_rollup_that_was_written_twice_counts_once() -> None:
    twice = make_rollup(0, counters={"requests": 5.0}, histograms={"ttft": {7: 5}})
    span = merge_span([twice, twice], 0)
    assert span is not None
    assert (span.counters, span.histograms) == ({"requests": 5.0}, {"ttft": {7: 5}})


def test_rates_follow_from_the_counters_of_the_gateway_and_else_from_what_was_measured() -> None:
    span = merge_span([make_rollup(0, counters={"requests": 20.0, "output_tokens": 100.0})], 0)
    assert span is not None
    assert rates_of(span) == {"requests_per_s": 2.0, "tokens_per_s": 10.0}
    measured = merge_span(
        [
            make_rollup(0, "gateway:g1", counters={"output_tokens": 100.0}),
            make_rollup(0, gauges={"tokens_per_s": (11.0, 15.0)}),
        ],
        0,
    )
    assert measured is not None
    assert values_of(measured) == {"tokens_per_s": 10.0}
    alone = merge_span([make_rollup(0, gauges={"tokens_per_s": (11.0, 15.0)})], 0)
    assert alone is not None and values_of(alone) == {"tokens_per_s": 11.0}


def test_a_window_averages_only_the_seconds_that_have_a_value() -> None:
    window = GaugeWindow()
    window.add({"running": 2.0, "waiting": None})
    window.add({"running": None})
    window.add({"running": 4.0})
    assert window.gauges() == {"running": (3.0, 4.0)}
