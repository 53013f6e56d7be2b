"""Minutes of traffic condensed to measured points: one for each kind of load that was there for long enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log
from statistics import median

from controlplane.domain.parallelism.measured import MeasuredPoint

LEAST_RUNNING = 1.0  # below, a minute was idle for a part of it and its mean says little of any moment
LEAST_REQUESTS = 20  # of one point: fewer are chance
FREE_SEATS = 0.9  # share of the seats up to which a first token did not wait for one
MOST_POINTS = 8
_STEP = 1.3  # ratio of concurrencies that count as one kind of load


@dataclass(frozen=True, slots=True)
class Minute:
    """Means of one replica over a minute. `running` requests were in it, `requests` of them ended."""

    running: float
    requests: float
    tpot_s: float
    ttft_s: float | None
    input_tokens: float | None
    output_tokens: float | None


def points(minutes: Iterable[Minute], seats: float) -> tuple[MeasuredPoint, ...]:
    """The loads that served most requests, in rising order; medians, so that one odd minute moves little."""
    kinds: dict[int, list[Minute]] = {}
    for one in minutes:
        if one.running >= LEAST_RUNNING and one.tpot_s > 0:
            kinds.setdefault(round(log(one.running) / log(_STEP)), []).append(one)
    known = [found for found in kinds.values() if _requests(found) >= LEAST_REQUESTS]
    known.sort(key=_requests, reverse=True)
    return tuple(sorted((_point(found, seats) for found in known[:MOST_POINTS]), key=lambda one: one.concurrency))


def _requests(minutes: list[Minute]) -> float:
    return sum(one.requests for one in minutes)


def _point(minutes: list[Minute], seats: float) -> MeasuredPoint:
    running = median(one.running for one in minutes)
    first = _median([one.ttft_s for one in minutes]) if running <= FREE_SEATS * seats else None
    return MeasuredPoint(
        concurrency=running,
        tpot_ms=1e3 * median(one.tpot_s for one in minutes),
        ttft_ms=None if first is None else 1e3 * first,
        input_tokens=_median([one.input_tokens for one in minutes]),
        output_tokens=_median([one.output_tokens for one in minutes]),
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None and value > 0]
    return median(known) if known else None
