"""A reader for an engine's Prometheus text that looks for the wanted series alone.

A vLLM scrape has about 700 lines, of which some sixty matter. A general parser reads all of them (milliseconds); this
one jumps to the start of each wanted family with `bytes.find` and reads only that block.

Guarantees
    A series that is absent, declared without samples or NaN is None, never 0. Samples of one family that differ in
    labels (data-parallel `engine`, Ray's `WorkerId`) are added up, or averaged for a mean such as the use of the KV
    cache. Of several spellings the first that has samples wins.
Concurrency
    A reader keeps no state between scrapes and may serve all engines of one version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

How = Literal["sum", "mean"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One value to read: under which role, from which spellings (the first with samples wins), and how it adds up."""

    role: str
    names: tuple[str, ...]
    how: How = "sum"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one scrape said. `values`: role -> value or None. `histograms`: role -> (upper bound, count up to it)."""

    values: Mapping[str, float | None]
    histograms: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)

    def missing(self, required: Sequence[str]) -> list[str]:
        """Returns the required roles that the scrape had no value for."""
        return [role for role in required if self.values.get(role) is None]


# (needle that starts the family's first sample, pattern of one sample)
_Family = tuple[bytes, re.Pattern[bytes]]


class Reader:
    """Reads the wanted values and histograms out of scrapes of one engine version."""

    __slots__ = ("_histograms", "_values")

    def __init__(self, values: Sequence[Wanted], histograms: Sequence[Wanted] = ()) -> None:
        self._values = [(w.role, w.how, [_scalar_family(name) for name in w.names]) for w in values]
        self._histograms = [(w.role, [_bucket_family(name) for name in w.names]) for w in histograms]

    def read(self, text: bytes) -> Reading:
        """Returns what the text says about the wanted series."""
        text = b"\n" + text  # a text may begin with a sample, and samples are found by the line break before them
        values = {role: _first_value(text, families, how) for role, how, families in self._values}
        buckets = {}
        for role, families in self._histograms:
            found = _first_buckets(text, families)
            if found:
                buckets[role] = found
        return Reading(values, buckets)


def labels_of(text: bytes, names: Sequence[str]) -> dict[str, str]:
    """Returns the labels of the first sample of the first name that has one (for info series, not for the loop)."""
    for name in names:
        match = re.search(rb"^" + re.escape(name.encode()) + rb"\{([^\n]*)\} ", text, re.MULTILINE)
        if match is not None:
            pairs = re.findall(r'([A-Za-z_][A-Za-z0-9_]*)="((?:[^"\\]|\\.)*)"', match[1].decode("utf-8", "replace"))
            return dict(pairs)
    return {}


def percentile_of_buckets(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """Returns a percentile of cumulative (upper bound, count) pairs, linear within the bucket; None when empty.

    As coarse as the engine's buckets. In the last, unbounded bucket it is that bucket's lower bound.
    """
    if not buckets or buckets[-1][1] <= 0:
        return None
    rank = share * buckets[-1][1]
    lower, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank and count > below:
            if math.isinf(bound):
                return lower
            return lower + (bound - lower) * (rank - below) / (count - below)
        lower, below = bound, count
    return lower


def _scalar_family(name: str) -> _Family:
    start = b"\n" + name.encode()
    return start, re.compile(re.escape(start) + rb"(?:\{[^\n]*\})? +(\S+)")


def _bucket_family(name: str) -> _Family:
    start = b"\n" + name.encode() + b"_bucket{"
    # `le` may stand anywhere among the labels
    return start, re.compile(re.escape(start) + rb'(?:[^\n]*?,)?le="([^"]+)"[^\n]*\} +(\S+)')


def _block(text: bytes, start: bytes, begin: int) -> tuple[int, int]:
    """Where the family's samples lie: from its first sample to the next comment line; (-1, -1) without samples."""
    at = text.find(start, begin)
    if at < 0:
        return (-1, -1)
    end = text.find(b"\n#", at + 1)
    return at, len(text) if end < 0 else end


def _first_value(text: bytes, families: Sequence[_Family], how: How) -> float | None:
    for start, pattern in families:
        numbers: list[float] = []
        begin = 0
        while not numbers:
            at, end = _block(text, start, begin)
            if at < 0:
                break
            # a longer name may begin with this one (num_requests_waiting_by_reason): then look on
            numbers = [number for raw in pattern.findall(text, at, end) if (number := _number(raw)) is not None]
            begin = end
        if numbers:
            return sum(numbers) / len(numbers) if how == "mean" else sum(numbers)
    return None


def _first_buckets(text: bytes, families: Sequence[_Family]) -> tuple[tuple[float, float], ...]:
    for start, pattern in families:
        at, end = _block(text, start, 0)
        if at < 0:
            continue
        counts: dict[float, float] = {}
        for raw_bound, raw_count in pattern.findall(text, at, end):
            bound, count = float(raw_bound), _number(raw_count)
            if count is not None:
                counts[bound] = counts.get(bound, 0.0) + count
        if counts:
            return tuple(sorted(counts.items()))
    return ()


def _number(raw: bytes) -> float | None:
    try:
        number = float(raw)
    except ValueError:
        return None
    return None if math.isnan(number) else number
