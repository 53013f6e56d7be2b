from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime, timedelta

import pytest

from controlplane.domain.rollups import Rollup
from controlplane.lib import sample_store, valkey
from controlplane.telemetry import selectors
from controlplane.telemetry.models import RollupMinute
from controlplane.telemetry.services import partitions, rollups

pytestmark = [pytest.mark.services, pytest.mark.django_db]

SUBJECT = "deployment:chat"


def store(url: str, *made: Rollup) -> None:
    async def go() -> None:
        client = valkey.connect_async(url)
        await sample_store.write_rollups(client, made)
        await client.aclose()

    asyncio.run(go())


def make_rollup(start: datetime, source: str = "gateway:g1", **values: float) -> Rollup:
    return Rollup(
        SUBJECT,
        source,
        int(start.timestamp()),
        {"requests": values.get("requests", 0)},
        {"running": (values.get("running", 1), values.get("peak", 2))},
        {"ttft": {100: int(values.get("requests", 0))}},
    )


@pytest.fixture
def minute() -> datetime:
    """A minute that is over."""
    return datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=2)


def test_six_slots_of_two_producers_become_one_row(valkey_server: str, minute: datetime) -> None:
    for slot in range(6):
        at = minute + timedelta(seconds=10 * slot)
        store(valkey_server, make_rollup(at, requests=5), make_rollup(at, "gateway:g2", requests=1, running=3))
    assert rollups.roll_up(minute + timedelta(minutes=2)) == 1
    row = RollupMinute.objects.get(subject=SUBJECT)
    assert (row.minute, row.covered_s) == (minute, 60)
    assert row.counters == {"requests": 36}
    assert row.gauges == {"running": [4, 4]}
    assert row.histograms == {"ttft": {"100": 36}}


def test_rolling_up_again_changes_nothing_and_takes_in_what_came_late(valkey_server: str, minute: datetime) -> None:
    store(valkey_server, make_rollup(minute, requests=5))
    later = minute + timedelta(minutes=2)
    rollups.roll_up(later)
    rollups.roll_up(later)
    assert RollupMinute.objects.get().counters == {"requests": 5}
    store(valkey_server, make_rollup(minute + timedelta(seconds=10), requests=2))
    rollups.roll_up(later)
    assert RollupMinute.objects.get().counters == {"requests": 7}


def test_a_minute_that_is_not_over_waits(valkey_server: str, minute: datetime) -> None:
    store(valkey_server, make_rollup(minute, requests=5))
    assert rollups.roll_up(minute + timedelta(seconds=59)) == 0
    assert rollups.roll_up(minute + timedelta(seconds=76)) == 1


def test_after_an_outage_hours_are_caught_up(valkey_server: str, minute: datetime) -> None:
    first = minute - timedelta(hours=3)
    client = valkey.connect(valkey_server)
    for at in (first, minute):
        packed = sample_store._ENCODER.encode(make_rollup(at, requests=1))
        client.xadd(f"hwtest:rollup10:{SUBJECT}", {"rollup": packed}, id=f"{int(at.timestamp() * 1000) + 10_000}-0")
    client.zadd("hwtest:subjects", {SUBJECT: minute.timestamp()})
    client.close()
    assert rollups.roll_up(minute + timedelta(minutes=2)) == 2
    assert list(RollupMinute.objects.order_by("minute").values_list("minute", flat=True)) == [first, minute]


def test_partitions_are_made_ahead_and_dropped_when_old() -> None:
    now = datetime(2031, 5, 10, 23, 59, tzinfo=UTC)
    partitions.ensure(first=date(2031, 4, 1), last=date(2031, 4, 2))
    made, dropped = partitions.keep(now=now, keep_days=30)
    assert (made, dropped) == (5, 2)
    assert partitions.keep(now=now, keep_days=30) == (0, 0)
    assert [day for day in partitions.existing() if day.year == 2031] == [date(2031, 5, day) for day in range(9, 14)]


def test_history_of_a_day_shows_percentiles_rates_and_gaps(valkey_server: str, minute: datetime) -> None:
    store(valkey_server, make_rollup(minute, requests=30, running=3))
    now = (minute + timedelta(minutes=2)).timestamp()
    rollups.roll_up(minute + timedelta(minutes=2))
    samples = selectors.history(SUBJECT, 24 * 3600, now=now)
    assert len(samples) == 1440
    by_time = {sample["t"]: sample for sample in samples}
    found = by_time[int(minute.timestamp())]
    assert (found["running"], found["requests_per_s"]) == (3, 3.0)
    assert found["ttft_p95"] == pytest.approx(0.0642, rel=0.01)
    assert by_time[int(minute.timestamp()) - 60]["running"] is None
    assert selectors.usable(samples) == ["running", "requests_per_s", "ttft_p50", "ttft_p95", "ttft_p99"]


def test_history_of_a_week_joins_minutes(valkey_server: str, minute: datetime) -> None:
    for offset in range(2):
        store(valkey_server, make_rollup(minute - timedelta(minutes=offset), requests=10, running=1 + 2 * offset))
    rollups.roll_up(minute + timedelta(minutes=2))
    week = 7 * 24 * 3600
    step = selectors.step_s(week)
    now = float((int(minute.timestamp()) // step + 2) * step)
    samples = [s for s in selectors.history(SUBJECT, week, now=now) if s["running"] is not None]
    assert step == 420
    assert sum(s["requests_per_s"] for s in samples) / len(samples) == 1.0
    assert sum(s["running"] for s in samples) / len(samples) == 2


def test_history_of_an_hour_comes_in_ten_second_steps(valkey_server: str, minute: datetime) -> None:
    store(valkey_server, make_rollup(minute, requests=5))
    samples = selectors.history(SUBJECT, 3600, now=minute.timestamp() + 120)
    assert len(samples) == 360
    assert [s["requests_per_s"] for s in samples if s["requests_per_s"] is not None] == [0.5]
