from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.console import decision_words, units

CASES = {
    "rate": [(None, "–"), (0.0, "0"), (0.1234, "0.123"), (9.996, "10.0"), (12.3, "12.3"), (1234.5, "1,230")],
    "count": [(None, "–"), (0.0, "0"), (1.5, "2"), (2.5, "3"), (1234.0, "1,234")],
    "percent": [(None, "–"), (0.0, "0"), (0.436, "44"), (1.0, "100")],
    "gib": [(None, "–"), (1024.0**3, "1.00"), (80 * 1024.0**3, "80.0"), (1007 * 1024.0**3, "1,010")],
    "ms": [(None, "–"), (0.0123, "12.3"), (1.5, "1,500")],
    "latency": [(None, "–"), (0.0123, "12.3 ms"), (0.999, "999 ms"), (1.0, "1.00 s"), (75.0, "75.0 s")],
}  # fmt: skip
DURATIONS = [(0.4, "0 s"), (59, "59 s"), (60, "1 min"), (200, "3 min 20 s"), (7260, "2 h 1 min"), (190_000, "2 d 4 h")]
NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(("form", "value", "text"), [(form, *case) for form, cases in CASES.items() for case in cases])
def test_a_value_is_written_with_three_figures_and_missing_is_a_dash(form: str, value: float | None, text: str) -> None:
    assert units.FORMATS[form](value) == text


@pytest.mark.parametrize(("seconds", "text"), DURATIONS)
def test_a_duration_has_at_most_two_units(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "now"), (12, "12 s ago"), (300, "5 min ago"), (-90, "in 1 min"), (200_000, "2 d ago")]
)
def test_a_moment_is_relative_in_one_unit(seconds: float, text: str) -> None:
    assert units.ago(NOW - timedelta(seconds=seconds), NOW) == text


def test_what_a_decision_did_not_know_is_not_shown() -> None:
    found = decision_words.numbers({"memory_bytes": None, "tiers": "", "cards": [], "attempt": 0, "left_over": 0.0})
    assert found == [("attempt", "0"), ("left over", "0")]
