from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.quotas.windows import window_of

SECONDS = st.integers(min_value=0, max_value=4_102_444_800)  # until the year 2100


@given(SECONDS)
def test_a_day_ends_at_midnight_utc(at: int) -> None:
    number, ends_at = window_of("day", float(at))
    day = datetime.fromtimestamp(at, UTC)
    assert number == day.toordinal() - datetime(1970, 1, 1, tzinfo=UTC).toordinal()
    assert window_of("day", ends_at) == (number + 1, ends_at + 86_400)


@given(SECONDS)
def test_a_month_ends_where_the_calendar_says(at: int) -> None:
    number, ends_at = window_of("month", float(at))
    day = datetime.fromtimestamp(at, UTC)
    assert (number // 12, number % 12 + 1) == (day.year, day.month)
    following = datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC)
    assert ends_at == following.timestamp()
