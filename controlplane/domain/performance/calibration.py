"""Measured points of a series correct the prediction of its other points.

Each part of a step (`step_time.PARTS`) may be slower or faster on this machine than the class says, by a factor whose
logarithm is normal around 0 with the spread below. A measured time per token then says most about the part that was
both large at that load and uncertain: a point at low load corrects launches and the reading of weights, a point at high
load corrects cache, compute and the interference of prompts. That is the usual update of a linear Gaussian model,
repeated a few times because shares of the time change with the factors. With several points all of them are met as
well as their noise allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log

from controlplane.domain.performance.closed_loop import State
from controlplane.domain.performance.step_time import PARTS, Rates, scaled

# Found by trial of factors of two and the root of two on 145 published series, each predicted from its first, its
# middle and its last point alone: mean error of the others from 10.0 % before to 9.3 %. Exact values matter little.
SPREAD: dict[str, float] = {
    "memory": 0.2,
    "experts": 0.1,
    "kv": 0.4,
    "compute": 0.8,
    "communication": 0.2,
    "launch": 0.25,
    "host": 0.25,
    "requests": 0.2,
    "interference": 0.8,
}
COMMON = 0.02  # of a factor that all parts share
NOISE = 0.06  # of one measured point
ROUNDS = 4
MOST = 1.5  # largest logarithm of a factor: beyond, the point is of another set-up


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured point: seconds per output token at a load that `at` solves."""

    tpot_s: float
    at: Callable[[Rates], State]


def calibrate(speed: Rates, points: Sequence[Measured]) -> tuple[Rates, dict[str, float]]:
    """Rates corrected by the points, and the factor of each part; the same rates and no factors without points."""
    if not points:
        return speed, {}
    logs = dict.fromkeys(PARTS, 0.0)
    for _ in range(ROUNDS):
        now = scaled(speed, {part: exp(value) for part, value in logs.items()})
        states = [point.at(now) for point in points]
        shares = [_shares(state) for state in states]
        # the residual as seen from the prior mean (all logs 0): what is left plus what the factors already explain
        rests = [
            log(point.tpot_s / state.tpot_s) + sum(share[part] * logs[part] for part in PARTS)
            for point, state, share in zip(points, states, shares, strict=True)
        ]
        weights = _solve(_covariance(shares), rests)
        logs = {part: _clamped(_gain(part, shares, weights)) for part in PARTS}
    factors = {part: exp(value) for part, value in logs.items()}
    return scaled(speed, factors), factors


def _clamped(value: float) -> float:
    return max(-MOST, min(MOST, value))


def _shares(state: State) -> dict[str, float]:
    """Shares of the parts in the time per token, with that of prompts that were taken along."""
    step = state.step
    plain = {part: max(0.0, float(getattr(step, part))) for part in PARTS if part != "interference"}
    total = sum(plain.values())
    own = min(1.0, total / (state.step_s or total))
    shares = {part: value / total * own for part, value in plain.items()}
    shares["interference"] = 1.0 - own
    return shares


def _gain(part: str, shares: Sequence[dict[str, float]], weights: Sequence[float]) -> float:
    """Covariance of the part's logarithm with the points, times what the points say."""
    return sum(
        weight * (SPREAD[part] ** 2 * share[part] + COMMON**2 * sum(share.values()))
        for share, weight in zip(shares, weights, strict=True)
    )


def _covariance(shares: Sequence[dict[str, float]]) -> list[list[float]]:
    """Of the points' logarithms: shared parts, plus noise on the diagonal."""

    def between(a: dict[str, float], b: dict[str, float]) -> float:
        parts = sum(SPREAD[part] ** 2 * a[part] * b[part] for part in PARTS)
        return parts + COMMON**2 * sum(a.values()) * sum(b.values())

    return [[between(a, b) + (NOISE**2 if i == j else 0.0) for j, b in enumerate(shares)] for i, a in enumerate(shares)]


def _solve(matrix: list[list[float]], right: Sequence[float]) -> list[float]:
    """Solves a positive definite system by elimination without pivoting; a handful of rows."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for k in range(size):
        for i in range(k + 1, size):
            ratio = rows[i][k] / rows[k][k]
            for j in range(k, size + 1):
                rows[i][j] -= ratio * rows[k][j]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (rows[i][size] - sum(rows[i][j] * found[j] for j in range(i + 1, size))) / rows[i][i]
    return found
