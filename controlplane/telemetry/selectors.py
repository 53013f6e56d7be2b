"""History of one subject over any window: seconds from Valkey's ring, 10-second steps from its roll-ups, minutes from
PostgreSQL. Percentiles are worked out from bucket counts for each step; a step without data is a sample of None.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from controlplane.domain.rollups import MINUTE_S, SLOT_S, Rollup, Span, merge_span, values_of
from controlplane.domain.samples import SAMPLE_FIELDS
from controlplane.lib import sample_store, valkey
from controlplane.lib.sample_store import RING_S, Sample
from controlplane.telemetry.models import RollupMinute

ROLLUPS_UP_TO_S = 3600
LONGEST_S = 31 * 24 * 3600
MOST_STEPS = 1500  # longer windows of minutes are thinned by joining minutes


def step_s(window_s: int) -> int:
    """Returns the distance of the samples of a window: 1 s, 10 s, or a number of minutes."""
    if window_s <= RING_S:
        return 1
    if window_s <= ROLLUPS_UP_TO_S:
        return SLOT_S
    minutes = -(-window_s // MINUTE_S)
    return MINUTE_S * max(1, -(-minutes // MOST_STEPS))


def history(subject: str, window_s: int, *, now: float | None = None) -> list[Sample]:
    """Returns the samples of the last `window_s` seconds, the oldest first, one a step; a gap's fields are None.

    Up to an hour it asks Valkey and may raise one of `valkey.ERRORS`; longer windows come from PostgreSQL alone.
    """
    at = time.time() if now is None else now
    window_s = min(max(1, window_s), LONGEST_S)
    if window_s > ROLLUPS_UP_TO_S:
        return _minutes(subject, window_s, at)
    client = valkey.connect()
    try:
        if window_s <= RING_S:
            return sample_store.history(client, subject, at - window_s, at)
        first, last = _grid(at, window_s, SLOT_S)
        found = sample_store.rollups(client, subject, first, last)
    finally:
        client.close()
    return _steps(_spans(found), first, last, SLOT_S)


def busy_minutes(
    subjects: Sequence[str], now: datetime, *, days: int, requests: int, most: int
) -> list[tuple[str, Span]]:
    """Returns the newest `most` minutes of the last days in which one of the subjects served at least `requests`.

    Days are asked one after another, as a table of two weeks takes a second and one day is mostly enough.
    """
    found: list[tuple[str, Span]] = []
    until = now
    for _ in range(days):
        since = until - timedelta(days=1)
        rows = RollupMinute.objects.filter(
            subject__in=subjects, minute__gte=since, minute__lt=until, counters__requests__gte=requests
        )
        found += [(row.subject, _span(row)) for row in rows.order_by("-minute")[: most - len(found)]]
        if len(found) >= most:
            break
        until = since
    return found


def usable(samples: Sequence[Sample]) -> list[str]:
    """Returns the fields that have a value anywhere in the samples, in the order of SAMPLE_FIELDS."""
    return [name for name in SAMPLE_FIELDS if any(sample.get(name) is not None for sample in samples)]


def _minutes(subject: str, window_s: int, at: float) -> list[Sample]:
    step = step_s(window_s)
    first, last = _grid(at, window_s, step)
    rows = RollupMinute.objects.filter(
        subject=subject, minute__gte=datetime.fromtimestamp(first, UTC), minute__lt=datetime.fromtimestamp(last, UTC)
    ).order_by("minute")
    return _steps(_joined((_span(row) for row in rows), step), first, last, step)


def _grid(at: float, window_s: int, step: int) -> tuple[int, int]:
    """The first and the end of whole steps; the step that is still running is left out."""
    last = int(at) // step * step
    return last - window_s // step * step, last


def _steps(spans: Mapping[int, Span], first: int, last: int, step: int) -> list[Sample]:
    return [_sample(start, spans.get(start)) for start in range(first, last, step)]


def _sample(start_s: int, span: Span | None) -> Sample:
    sample: Sample = {"t": start_s, **dict.fromkeys(SAMPLE_FIELDS)}
    if span is not None:
        sample.update({name: value for name, value in values_of(span).items() if name in sample})
        sample.update(sample_store.percentile_fields(span.histograms))
    return sample


def _spans(rollups: Iterable[Rollup]) -> dict[int, Span]:
    by_slot: dict[int, list[Rollup]] = {}
    for rollup in rollups:
        by_slot.setdefault(rollup.start_s, []).append(rollup)
    merged = (merge_span(members, slot) for slot, members in by_slot.items())
    return {span.start_s: span for span in merged if span is not None}


def _span(row: RollupMinute) -> Span:
    histograms = {
        name: {int(bucket): count for bucket, count in counts.items()} for name, counts in row.histograms.items()
    }
    gauges = {name: (mean, maximum) for name, (mean, maximum) in row.gauges.items()}
    return Span(int(row.minute.timestamp()), row.covered_s, row.counters, gauges, histograms)


def _joined(spans: Iterable[Span], step: int) -> dict[int, Span]:
    """Joins the minutes of each step: counts add up, means are weighted by the seconds they cover."""
    groups: dict[int, list[Span]] = {}
    for span in spans:
        groups.setdefault(span.start_s // step * step, []).append(span)
    return {start: members[0] if len(members) == 1 else _join(start, members) for start, members in groups.items()}


def _join(start_s: int, members: Sequence[Span]) -> Span:
    counters: dict[str, float] = {}
    histograms: dict[str, dict[int, int]] = {}
    sums: dict[str, tuple[float, float, float]] = {}  # field -> (mean times seconds, seconds, maximum)
    for span in members:
        for name, count in span.counters.items():
            counters[name] = counters.get(name, 0.0) + count
        for name, counts in span.histograms.items():
            into = histograms.setdefault(name, {})
            for bucket, seen in counts.items():
                into[bucket] = into.get(bucket, 0) + seen
        for name, (mean, maximum) in span.gauges.items():
            total, seconds, top = sums.get(name, (0.0, 0.0, maximum))
            sums[name] = (total + mean * span.covered_s, seconds + span.covered_s, max(top, maximum))
    gauges = {name: (total / seconds, top) for name, (total, seconds, top) in sums.items() if seconds}
    return Span(start_s, sum(span.covered_s for span in members), counters, gauges, histograms)
