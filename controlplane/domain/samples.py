"""Live samples: their subjects, their fields, and how the parts that different processes write become one.

A subject is `<kind>:<id>` with kind deployment, replica or node (`replica:7f3a…`, `node:gpu-01`). A *part* is what one
producer (the collector of a node, one gateway process) knows of a subject in one second. Missing is None, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

SubjectKind = Literal["deployment", "replica", "node"]
SUBJECT_KINDS: tuple[SubjectKind, ...] = ("deployment", "replica", "node")

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
    "gateway_queue",
    "gateway_in_flight",
    "gpu_utilization",
    "gpu_memory_used_bytes",
    "gpu_memory_total_bytes",
    "gpu_power_w",
    "gpu_temperature_c",
)

# histogram name in a part -> prefix of the percentile fields; bucket bounds: controlplane.lib.histograms
HISTOGRAMS: tuple[str, ...] = ("ttft", "tpot", "e2e")

PART_STALE_AFTER_S = 5.0


@dataclass(frozen=True, slots=True)
class SamplePart:
    """What one producer wrote about one subject.

    `values` holds fields of `SAMPLE_FIELDS` that add up or are gauges (no percentiles); `histograms` maps ttft, tpot,
    e2e to the sparse counts of the last 60 s (bucket index -> count); latencies are in seconds.
    `members` lists for a deployment the replicas it consists of.
    """

    subject: str
    source: str  # collector:<node> or gateway:<id>
    at: float
    values: Mapping[str, float | None] = field(default_factory=dict)
    histograms: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


# fields of a subject that is the sum of its parts; every other field is the mean of the parts that have it
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
        "gpu_memory_used_bytes",
        "gpu_memory_total_bytes",
        "gpu_power_w",
    }
)


def merge_values(parts: Iterable[Mapping[str, float | None]]) -> dict[str, float | None]:
    """Returns one value a field: the sum of the parts for `SUMMED`, else their mean; None when no part has it."""
    seen: dict[str, list[float]] = {}
    for part in parts:
        for name, value in part.items():
            if value is not None:
                seen.setdefault(name, []).append(value)
    merged: dict[str, float | None] = dict.fromkeys(SAMPLE_FIELDS)
    for name, values in seen.items():
        total = sum(values)
        merged[name] = total if name in SUMMED else total / len(values)
    return merged
