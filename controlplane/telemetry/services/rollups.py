"""One-minute rows from the 10-second roll-ups in Valkey.

Guarantees
    Safe to run twice and at any time: a minute is always worked out as a whole and overwrites its row. After an
    outage it catches up from the day that Valkey keeps. A minute is taken when it is over for `SETTLE_S`, and the
    last `AGAIN_S` are taken again each time, for producers that were late.
Concurrency
    Several at once do the same work twice and agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime

import redis
from django.db import connection, transaction
from django.db.models import Max

from controlplane.domain.rollups import MINUTE_S, Rollup, Span, merge_span, minute_of
from controlplane.lib import sample_store, valkey
from controlplane.telemetry.models import RollupMinute
from controlplane.telemetry.services import partitions

SETTLE_S = 15
AGAIN_S = 300
CHUNK_S = 600  # one transaction each, the oldest first: what is committed is whole, and the next run goes on from there
ROWS_A_STATEMENT = 500

_UPSERT = """
INSERT INTO telemetry_rollup_minute (minute, subject, covered_s, counters, gauges, histograms)
VALUES {rows}
ON CONFLICT (subject, minute) DO UPDATE SET covered_s = EXCLUDED.covered_s, counters = EXCLUDED.counters,
    gauges = EXCLUDED.gauges, histograms = EXCLUDED.histograms
"""


def roll_up(now: datetime) -> int:
    """Writes the rows of all minutes that are finished at `now`; returns how many rows were written."""
    until_s = minute_of(now.timestamp() - SETTLE_S)
    since_s = _since_s(until_s)
    if since_s >= until_s:
        return 0
    partitions.ensure(first=_date(since_s), last=_date(until_s))
    client = valkey.connect()
    try:
        return sum(
            _roll_up_chunk(client, start_s, min(start_s + CHUNK_S, until_s))
            for start_s in range(since_s, until_s, CHUNK_S)
        )
    finally:
        client.close()


@transaction.atomic
def _roll_up_chunk(client: redis.Redis, since_s: int, until_s: int) -> int:
    written = 0
    batch: list[tuple[str, Span]] = []
    for subject in sample_store.subjects(client, since_s):
        batch += [(subject, span) for span in _minutes(sample_store.rollups(client, subject, since_s, until_s))]
        while len(batch) >= ROWS_A_STATEMENT:
            written += _write(batch[:ROWS_A_STATEMENT])
            del batch[:ROWS_A_STATEMENT]
    return written + _write(batch)


def _since_s(until_s: int) -> int:
    """From where on: a little before the newest row, at most the day that Valkey keeps."""
    oldest = until_s - sample_store.ROLLUPS_S
    newest = RollupMinute.objects.filter(minute__gte=_time(oldest)).aggregate(newest=Max("minute"))["newest"]
    if newest is None:
        return minute_of(oldest) + MINUTE_S
    return max(minute_of(oldest) + MINUTE_S, int(newest.timestamp()) + MINUTE_S - AGAIN_S)


def _minutes(rollups: Iterable[Rollup]) -> Iterator[Span]:
    by_minute: dict[int, list[Rollup]] = {}
    for rollup in rollups:
        by_minute.setdefault(minute_of(rollup.start_s), []).append(rollup)
    for minute, members in by_minute.items():
        span = merge_span(members, minute)
        if span is not None:
            yield span


def _write(rows: list[tuple[str, Span]]) -> int:
    if not rows:
        return 0
    values: list[datetime | str | int] = []
    for subject, span in rows:
        values += [_time(span.start_s), subject, span.covered_s]
        values += [json.dumps(span.counters), json.dumps(span.gauges), json.dumps(span.histograms)]
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT.format(rows=", ".join(["(%s, %s, %s, %s, %s, %s)"] * len(rows))), values)
    return len(rows)


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _date(at_s: float) -> date:
    return _time(at_s).date()
