"""Mergeable latency histograms with logarithmic bounds at most 5 % apart.

Bucket `i` covers (MIN_S · GROWTH^(i-1), MIN_S · GROWTH^i] seconds; bucket 0 everything up to MIN_S; the last one
everything above. Counts are sparse: bucket index -> count. Two histograms are merged by adding counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

MIN_S = 0.0005
GROWTH = 1.05
LAST_BUCKET = 300  # MIN_S · GROWTH^300 is 1,136 s
_LOG_GROWTH = math.log(GROWTH)


def bucket_of(seconds: float) -> int:
    """Returns the index of the bucket that holds a duration in seconds."""
    if seconds <= MIN_S:
        return 0
    return min(LAST_BUCKET, math.ceil(math.log(seconds / MIN_S) / _LOG_GROWTH - 1e-9))


def upper_bound_s(bucket: int) -> float:
    """Returns the upper bound of a bucket in seconds (infinity for the last)."""
    if bucket >= LAST_BUCKET:
        return math.inf
    return MIN_S * GROWTH**bucket


def add(into: dict[int, int], counts: Mapping[int, int]) -> None:
    """Adds `counts` to `into` in place."""
    for bucket, count in counts.items():
        into[bucket] = into.get(bucket, 0) + count


def merge(many: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Returns the sum of several histograms."""
    out: dict[int, int] = {}
    for counts in many:
        add(out, counts)
    return out


def percentiles_s(counts: Mapping[int, int], shares: Sequence[float]) -> list[float | None]:
    """Returns for each share (0..1, rising) the latency below which that share lies; None for an empty histogram.

    Within the bucket the value is taken as its geometric middle, so the error is at most 2.5 %.
    """
    total = sum(counts.values())
    if total <= 0:
        return [None] * len(shares)
    found: list[float | None] = []
    ranks = [max(1, math.ceil(share * total)) for share in shares]
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        while len(found) < len(ranks) and seen >= ranks[len(found)]:
            found.append(_middle_s(bucket))
        if len(found) == len(ranks):
            return found
    raise AssertionError("the ranks of a histogram end before its total")


def percentile_s(counts: Mapping[int, int], share: float) -> float | None:
    """Returns the latency below which `share` (0..1) of the observations lie, None for an empty histogram."""
    return percentiles_s(counts, (share,))[0]


def mean_s(counts: Mapping[int, int]) -> float | None:
    """Returns the mean of the observations, each taken as the geometric middle of its bucket; None without any."""
    total = sum(counts.values())
    return sum(_middle_s(bucket) * count for bucket, count in counts.items()) / total if total > 0 else None


def _middle_s(bucket: int) -> float:
    return MIN_S * GROWTH ** (min(bucket, LAST_BUCKET) - 0.5) if bucket > 0 else MIN_S
