"""Lengths of prompts or answers: what a plan needs of their distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism.bounds import Bounds

MOST_TOKENS = 2e7
MOST_PERCENTILES = 100


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens. `mean_square` is the mean of squares: long answers stay longer, so they are met more often than asked.

    Percentiles where they are known.
    """

    mean: float
    mean_square: float
    p95: float | None = None
    assumption: str = ""
    p50: float | None = None
    p99: float | None = None


def of_mean(mean: float, field: str = "output_tokens") -> Lengths:
    """Only the mean is known: all are taken to be alike, which is the kindest case."""
    bounds = Bounds("capacity")
    bounds.number(field, mean, 1, MOST_TOKENS)
    bounds.settle()
    note = f"Only the mean of {field} is known; all were taken to be alike. A spread makes them hold more cache."
    return Lengths(float(mean), float(mean) ** 2, None, note)


def of_percentiles(percentiles: Mapping[float, float] | Mapping[int, float], field: str = "output_tokens") -> Lengths:
    """From percentile → tokens, such as {50: 180, 95: 900, 99: 2000}: straight lines between them.

    Below the lowest percentile the line goes on to one token at 0, above the highest it stays level: rare, even longer
    ones are not known, so the mean is a little low where the highest percentile is.
    """
    knots = _knots(percentiles, field)
    mean = square = 0.0
    for (low, short), (high, long) in pairwise(knots):
        share = (high - low) / 100
        mean += share * (short + long) / 2
        square += share * (short * short + short * long + long * long) / 3
    highest = max(percentiles)
    note = f"{field} above the {highest:g}th percentile were taken to be as long as it."
    p50, p95, p99 = (_at(knots, one) if one <= highest else None for one in (50.0, 95.0, 99.0))
    return Lengths(mean, square, p95, note if highest < 100 else "", p50, p99)


def of_values(values: Sequence[float], field: str = "output_tokens") -> Lengths:
    """From single requests. At least one value, each from 0; an empty answer counts as one token."""
    if not values:
        raise RefusedError("capacity", f"{field} is empty.", fields={field: "lengths of at least one request"})
    bounds = Bounds("capacity")
    for value in values:
        bounds.number(field, value, 0, MOST_TOKENS)
        if bounds.wrong:
            break
    bounds.settle()
    tokens = sorted(max(1.0, float(value)) for value in values)
    count = len(tokens)
    p50, p95, p99 = (tokens[min(count - 1, int(share * count))] for share in (0.5, 0.95, 0.99))
    square = sum(value * value for value in tokens) / count
    return Lengths(sum(tokens) / count, square, p95, "", p50, p99)


def _knots(percentiles: object, field: str) -> list[tuple[float, float]]:
    right = f'percentiles and their tokens, rising, such as {{"50": 180, "95": 900}}; at most {MOST_PERCENTILES}'
    bounds = Bounds("capacity")
    if not isinstance(percentiles, Mapping) or not 1 <= len(percentiles) <= MOST_PERCENTILES:
        bounds.refuse(field, percentiles, right)
        bounds.settle()
        return []
    for percentile, tokens in percentiles.items():
        bounds.number(f"{field}.percentile", percentile, 0, 100)
        bounds.number(field, tokens, 1, MOST_TOKENS)
    bounds.settle()
    found = sorted((float(percentile), float(tokens)) for percentile, tokens in percentiles.items())
    if any(later[1] < earlier[1] for earlier, later in pairwise(found)):
        bounds.refuse(field, percentiles, right)
        bounds.settle()
    first = [] if found[0][0] == 0 else [(0.0, 1.0)]
    last = [] if found[-1][0] == 100 else [(100.0, found[-1][1])]
    return [*first, *found, *last]


def _at(knots: list[tuple[float, float]], percentile: float) -> float:
    for (low, short), (high, long) in pairwise(knots):
        if low <= percentile <= high and high > low:
            return short + (long - short) * (percentile - low) / (high - low)
    return knots[-1][1]
