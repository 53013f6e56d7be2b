"""Live samples: their subjects, their fields, and how the parts that different processes write become one.

A subject is `<kind>:<id>` with kind deployment, replica, node or gateway (`replica:7f3a…`, `node:gpu-01`,
`gateway:chat`: the admission of a deployment). A *part* is what one producer (the collector of a node, one gateway
process) knows of a subject in one second. Missing is None, never 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isnan
from typing import Literal

SubjectKind = Literal["deployment", "replica", "node", "gateway"]
SUBJECT_KINDS: tuple[SubjectKind, ...] = ("deployment", "replica", "node", "gateway")

# what gateways did with requests, and who waits
ADMISSION: tuple[str, ...] = (
    "admitted_per_s",
    "refused_room_per_s",
    "refused_wait_per_s",
    "refused_quota_per_s",
    "refused_shed_per_s",
    "refused_other_per_s",
    "queued_interactive",
    "queued_standard",
    "queued_batch",
)

SAMPLE_FIELDS: tuple[str, ...] = (
    "kv_usage",
    "kv_tokens_reserved",
    "running",
    "waiting",
    "batch_size",
    "preemptions",
    "requests_per_s",
    "errors_per_s",
    "tokens_per_s",
    "prompt_tokens_per_s",
    "ttft_p50",
    "ttft_p95",
    "ttft_p99",
    "tpot_p50",
    "tpot_p95",
    "tpot_p99",
    "e2e_p50",
    "e2e_p95",
    "e2e_p99",
    "engine_ttft_p50",
    "engine_ttft_p95",
    "engine_itl_p50",
    "engine_itl_p95",
    "prefix_hit_rate",
    "gateway_queue",
    "gateway_in_flight",
    "saturation",
    *ADMISSION,
    "gpu_utilization",
    "gpu_memory_used_bytes",
    "gpu_memory_total_bytes",
    "gpu_power_w",
    "gpu_temperature_c",
)

# histogram name in a part -> prefix of the percentile fields; bucket bounds: controlplane.lib.histograms
HISTOGRAMS: tuple[str, ...] = ("ttft", "tpot", "e2e")
PERCENTILES: tuple[tuple[str, float], ...] = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))

PART_STALE_AFTER_S = 5.0

# fields of a subject that is the sum of its parts; every other field is the weighted mean of the parts that have it
SUMMED: frozenset[str] = frozenset(
    {
        "kv_tokens_reserved",
        "running",
        "waiting",
        "batch_size",
        "preemptions",
        "requests_per_s",
        "errors_per_s",
        "tokens_per_s",
        "prompt_tokens_per_s",
        "gateway_queue",
        "gateway_in_flight",
        *ADMISSION,
        "gpu_memory_used_bytes",
        "gpu_memory_total_bytes",
        "gpu_power_w",
    }
)

COLLECTOR = "collector"
GATEWAY = "gateway"
# Counted by the engine (through the collector) and by the gateway: the same tokens, so one count is taken, and the
# other only where that one is missing. It is the gateway's: an engine counts also what nobody asked for, the small
# generations by which an idle one is looked after, and reservations are made by the gateway.
COUNTED_TWICE: Mapping[str, str] = {
    "tokens_per_s": GATEWAY,
    "prompt_tokens_per_s": GATEWAY,
    "kv_tokens_reserved": GATEWAY,
}

_SUBJECT = re.compile(r"(deployment|replica|node|gateway):[A-Za-z0-9][A-Za-z0-9._-]{0,79}")

Values = Mapping[str, float | None]
Counts = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class SamplePart:
    """What one producer wrote about one subject.

    `values` holds fields of `SAMPLE_FIELDS` that add up or are gauges (no percentiles of the gateway); `histograms`
    maps ttft, tpot, e2e to the sparse counts of the last 60 s (bucket index -> count); latencies are in seconds.
    `weight` is the number of replicas or cards behind a mean. `problems` says what the producer could not read.
    """

    subject: str
    source: str  # collector:<node> or gateway:<id>
    at: float
    values: Values = field(default_factory=dict)
    histograms: Mapping[str, Counts] = field(default_factory=dict)
    weight: float = 1.0
    problems: tuple[str, ...] = ()


def is_subject(text: str) -> bool:
    """Returns whether `text` has the shape of a subject."""
    return _SUBJECT.fullmatch(text) is not None


def source_kind(source: str) -> str:
    """Returns `collector` or `gateway` of a part's source."""
    return source.partition(":")[0]


class Merge:
    """Parts of one subject on their way to one sample.

    Guarantees
        The order in which parts or other merges are added does not matter (float rounding aside), and a field that no
        part has stays absent from `values()`; it never becomes 0.
    Concurrency
        One owner; changes in place.
    """

    __slots__ = ("_histograms", "_problems", "_sums")

    def __init__(self) -> None:
        # (field, source kind for COUNTED_TWICE else "") -> (sum, weight)
        self._sums: dict[tuple[str, str], tuple[float, float]] = {}
        self._histograms: dict[str, dict[int, int]] = {}
        self._problems: set[str] = set()

    def add(self, part: SamplePart) -> None:
        """Adds one part."""
        self.add_values(part.values, source_kind(part.source), part.weight)
        for name, counts in part.histograms.items():
            self._add_counts(name, counts)
        self._problems.update(part.problems)

    def add_values(self, values: Values, kind: str = "", weight: float = 1.0) -> None:
        """Adds the values of one part; None counts as absent."""
        for name, value in values.items():
            if value is None or isnan(value):
                continue
            share = 1.0 if name in SUMMED else weight
            self._add_sum((name, kind if name in COUNTED_TWICE else ""), value * share, share)

    def combine(self, other: Merge) -> None:
        """Adds everything that was added to another merge."""
        for key, (total, weight) in other._sums.items():
            self._add_sum(key, total, weight)
        for name, counts in other._histograms.items():
            self._add_counts(name, counts)
        self._problems |= other._problems

    def values(self) -> dict[str, float]:
        """Returns one value for each field that any part has: the sum for `SUMMED`, else the weighted mean."""
        merged: dict[str, float] = {}
        for (name, kind), (total, weight) in self._sums.items():
            if kind and kind != COUNTED_TWICE[name] and (name, COUNTED_TWICE[name]) in self._sums:
                continue
            if name in SUMMED:
                merged[name] = merged.get(name, 0.0) + total
            elif weight > 0:
                merged[name] = total / weight
        return merged

    @property
    def histograms(self) -> Mapping[str, Counts]:
        """Returns the added counts by histogram."""
        return self._histograms

    @property
    def problems(self) -> list[str]:
        """Returns what any producer could not read, in order."""
        return sorted(self._problems)

    def _add_sum(self, key: tuple[str, str], total: float, weight: float) -> None:
        before = self._sums.get(key)
        self._sums[key] = (total, weight) if before is None else (before[0] + total, before[1] + weight)

    def _add_counts(self, name: str, counts: Counts) -> None:
        into = self._histograms.setdefault(name, {})
        for bucket, count in counts.items():
            into[bucket] = into.get(bucket, 0) + count


def merge_values(parts: Iterable[Values]) -> dict[str, float | None]:
    """Returns one value a field: the sum of the parts for `SUMMED`, else their mean; None when no part has it."""
    merge = Merge()
    for values in parts:
        merge.add_values(values)
    merged: dict[str, float | None] = dict.fromkeys(SAMPLE_FIELDS)
    merged.update(merge.values())
    return merged


def fresh(parts: Iterable[SamplePart], now: float) -> list[SamplePart]:
    """Returns the parts that are not older than `PART_STALE_AFTER_S`."""
    return [part for part in parts if now - part.at <= PART_STALE_AFTER_S]


def merge_parts(parts: Iterable[SamplePart]) -> Merge:
    """Returns the merge of several parts of one subject."""
    merge = Merge()
    for part in parts:
        merge.add(part)
    return merge
