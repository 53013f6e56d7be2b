"""Roll-ups: what stays of the samples. Counters, gauges and bucket counts, never percentiles.

Each producer makes one roll-up a subject every 10 seconds; six slots of all producers become one minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.domain.samples import SUMMED, Counts, Merge, Values, source_kind

SLOT_S = 10
MINUTE_S = 60

# counter of a roll-up -> the rate that it becomes; it goes before a rate that some producer measured
RATE_OF_COUNTER: Mapping[str, str] = {
    "requests": "requests_per_s",
    "errors": "errors_per_s",
    "output_tokens": "tokens_per_s",
    "prompt_tokens": "prompt_tokens_per_s",
}


@dataclass(frozen=True, slots=True)
class Rollup:
    """What one producer saw of one subject in the 10 s from `start_s` (a multiple of 10).

    `counters`: requests, errors, prompt_tokens, output_tokens that happened in the slot. `gauges`: field -> (mean,
    maximum) over the seconds that had a value; a field without any value is absent. `histograms`: observations that
    were made in the slot. `weight` as in SamplePart.
    """

    subject: str
    source: str
    start_s: int
    counters: Mapping[str, float] = field(default_factory=dict)
    gauges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    histograms: Mapping[str, Counts] = field(default_factory=dict)
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Span:
    """One subject over some seconds, merged over all producers. `covered_s` counts the seconds of slots with data."""

    start_s: int
    covered_s: int
    counters: Mapping[str, float]
    gauges: Mapping[str, tuple[float, float]]
    histograms: Mapping[str, Counts]


def slot_of(at: float) -> int:
    """Returns the start of the 10-second slot that holds a time."""
    return int(at) // SLOT_S * SLOT_S


def minute_of(at: float) -> int:
    """Returns the start of the minute that holds a time."""
    return int(at) // MINUTE_S * MINUTE_S


class GaugeWindow:
    """Collects the values of one subject over a slot. One owner; changes in place."""

    __slots__ = ("_seen", "weight")

    def __init__(self) -> None:
        self._seen: dict[str, tuple[float, int, float]] = {}  # field -> (sum, count, maximum)
        self.weight = 1.0

    def add(self, values: Values, weight: float = 1.0) -> None:
        """Adds one second; None counts as absent."""
        self.weight = max(self.weight, weight)
        for name, value in values.items():
            if value is None:
                continue
            total, count, maximum = self._seen.get(name, (0.0, 0, value))
            self._seen[name] = (total + value, count + 1, max(maximum, value))

    def gauges(self) -> dict[str, tuple[float, float]]:
        """Returns field -> (mean, maximum)."""
        return {name: (total / count, maximum) for name, (total, count, maximum) in self._seen.items()}


def merge_span(rollups: Iterable[Rollup], start_s: int) -> Span | None:
    """Returns the roll-ups of one subject as one span, None without any.

    Producers are added slot by slot first (sums and weighted means as for samples), then the slots are averaged. A
    roll-up that was written twice counts once (the later one).
    """
    slots: dict[int, dict[str, Rollup]] = {}  # slot -> source -> roll-up
    for rollup in rollups:
        slots.setdefault(rollup.start_s, {})[rollup.source] = rollup
    if not slots:
        return None
    counters: dict[str, float] = {}
    histograms: dict[str, dict[int, int]] = {}
    over_time: dict[str, list[tuple[float, float]]] = {}
    for sources in slots.values():
        for rollup in sources.values():
            for name, count in rollup.counters.items():
                counters[name] = counters.get(name, 0.0) + count
            for name, counts in rollup.histograms.items():
                into = histograms.setdefault(name, {})
                for bucket, count_in in counts.items():
                    into[bucket] = into.get(bucket, 0) + count_in
        for name, pair in _merge_gauges(sources.values()).items():
            over_time.setdefault(name, []).append(pair)
    gauges = {
        name: (sum(mean for mean, _ in pairs) / len(pairs), max(maximum for _, maximum in pairs))
        for name, pairs in over_time.items()
    }
    return Span(start_s, len(slots) * SLOT_S, counters, gauges, histograms)


def _merge_gauges(rollups: Iterable[Rollup]) -> dict[str, tuple[float, float]]:
    means, maxima = Merge(), Merge()
    highest: dict[str, float] = {}
    for rollup in rollups:
        kind = source_kind(rollup.source)
        means.add_values({name: mean for name, (mean, _) in rollup.gauges.items()}, kind, rollup.weight)
        maxima.add_values({name: top for name, (_, top) in rollup.gauges.items()}, kind, rollup.weight)
        for name, (_, top) in rollup.gauges.items():
            highest[name] = max(highest.get(name, top), top)
    summed = maxima.values()
    # the sum of the maxima is an upper bound: the producers need not have peaked in the same second
    return {name: (mean, summed[name] if name in SUMMED else highest[name]) for name, mean in means.values().items()}


def rates_of(span: Span) -> dict[str, float]:
    """Returns the rates that follow from the span's counters."""
    if span.covered_s <= 0:
        return {}
    return {
        rate: span.counters[name] / span.covered_s for name, rate in RATE_OF_COUNTER.items() if name in span.counters
    }


def values_of(span: Span) -> dict[str, float]:
    """Returns the mean of each field; a rate for which there is a counter is worked out from it."""
    return {**{name: mean for name, (mean, _) in span.gauges.items()}, **rates_of(span)}
