"""Learns the coefficients of the latency model from measured times per output token.

What is not learned here (the terms of the first token) keeps the value it starts from.
Regularised least squares on logarithms (Gauss-Newton): a term may move by a factor of 2 from its engineering guess, a
class by 28 % from its term, before it costs as much as a residual of one noise width (20 %). Residuals above 12 % count
linearly (Huber), so that a set-up that went wrong does not bend the rest. Rows of one series share their weight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log
from random import Random
from typing import Any

from controlplane.domain.performance import classes, predictor
from controlplane.domain.performance.case import Question
from controlplane.domain.performance.coefficients import START, Coefficients

TERM_WIDTH, CLASS_WIDTH, NOISE, HUBER = 0.7, 0.25, 0.2, 0.12
STEP = 0.02
LARGEST_STEP = 0.7
FOLDS = 5

_GENERATIONS = ("hopper", "blackwell", "cdna", "older")
_ENGINES = ("vllm", "sglang", "tensorrt")
_AGES = ("sglang_early", "sglang_recent")
_WIDTHS = ("width16", "width8", "width4")
# term → classes that may change it
TERMS: Mapping[str, tuple[str, ...]] = {
    "launch_s": (
        *_GENERATIONS, *_ENGINES, *_WIDTHS, "moe", "latent", "recurrent", "indexer", "eager", "moe_hopper",
        "moe_blackwell", "moe_cdna", "latent_hopper", "latent_blackwell", "latent_sglang", "latent_vllm",
        "latent_tensorrt", "attention_parallel", *_AGES,
    ),
    "host_s": (),
    "reduce_s": _ENGINES,
    "link": (),
    "weights": (*_GENERATIONS, *_WIDTHS),
    "experts": (
        "hopper", "blackwell", "cdna", *_WIDTHS, *_ENGINES, "latent_hopper", "latent_blackwell", "expert_parallel",
        *_AGES,
    ),
    "alike": (),
    "kv": ("latent", *_ENGINES, "hopper", "blackwell", "older"),
    "compute": (*_GENERATIONS, *_WIDTHS, *_ENGINES, "moe", "recurrent", "latent", *_AGES),
    "attention": (),
    "sequence_s": (*_ENGINES, "moe", "latent", "recurrent"),
    "interference": (*_ENGINES, *_AGES),
    "accepted": (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: the case as published, as understood, and its time per output token."""

    case: Mapping[str, Any]
    question: Question
    tpot_s: float


def learn(rows: Sequence[Row], *, start: Coefficients = START, rounds: int = 6) -> dict[str, float]:
    """Coefficients that fit the rows, beginning the search at `start`; what the rows do not speak of stays a guess."""
    names = _names(rows)
    prior = [START.get(name, 0.0) for name in names]
    widths = [CLASS_WIDTH if ":" in name else TERM_WIDTH for name in names]
    weights = _weights(rows)
    found = [start.get(name, guess) for name, guess in zip(names, prior, strict=True)]
    rest = {**START, **start}
    residuals = _residuals(rows, names, found, rest)
    cost = _cost(residuals, weights, found, prior, widths)
    damping = 0.05
    for _ in range(rounds):
        slopes = _slopes(rows, names, found, residuals, rest)
        pulls = [value - guess for value, guess in zip(found, prior, strict=True)]
        robust = _robust(residuals, weights)
        move = _move(slopes, residuals, robust, pulls=pulls, widths=widths, damping=damping)
        moved = [value + step for value, step in zip(found, move, strict=True)]
        after = _residuals(rows, names, moved, rest)
        new_cost = _cost(after, weights, moved, prior, widths)
        if new_cost >= cost:
            damping *= 4
            continue
        small = cost - new_cost < 1e-3 * cost
        found, residuals, cost = moved, after, new_cost
        if small:
            break
    return {**rest, **dict(zip(names, found, strict=True))}


def folds(rows: Sequence[Row], key: Callable[[Row], str]) -> Iterator[tuple[list[Row], list[Row]]]:
    """(rows to learn from, rows to ask for), so that all rows with one key are on the same side."""
    keys = sorted({key(row) for row in rows})
    Random(1).shuffle(keys)
    fold = {name: index % FOLDS for index, name in enumerate(keys)}
    for number in range(min(FOLDS, len(keys))):
        yield [row for row in rows if fold[key(row)] != number], [row for row in rows if fold[key(row)] == number]


def _names(rows: Sequence[Row]) -> list[str]:
    """Terms, and those of their classes that occur."""
    seen: set[str] = set()
    for row in rows:
        seen.update(classes.of(row.question.model, row.question.setup, row.question.weights))
    return [name for term, own in TERMS.items() for name in (term, *(f"{term}:{c}" for c in own if c in seen))]


def _weights(rows: Sequence[Row]) -> list[float]:
    series = Counter(row.case["series_id"] for row in rows)
    return [
        series[row.case["series_id"]] ** -0.25
        * (0.3 if row.case["tier"] == "B" else 1.0)
        * (1.0 if row.case["engine"] in {"vllm", "sglang"} else 0.6)
        for row in rows
    ]


def _residuals(rows: Sequence[Row], names: Sequence[str], values: Sequence[float], rest: Coefficients) -> list[float]:
    known = {**rest, **dict(zip(names, values, strict=True))}
    return [log(predictor.predict(row.question, (), known).tpot_ms / 1e3 / row.tpot_s) for row in rows]


def _robust(residuals: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Weights that make large residuals count linearly, in units of the noise."""
    return [
        weight * min(1.0, HUBER / max(abs(residual), 1e-9)) / NOISE**2
        for weight, residual in zip(weights, residuals, strict=True)
    ]


def _slopes(
    rows: Sequence[Row],
    names: Sequence[str],
    values: Sequence[float],
    residuals: Sequence[float],
    rest: Coefficients,
) -> list[list[float]]:
    """Coefficient → change of each residual."""
    found = []
    for index in range(len(names)):
        moved = [*values[:index], values[index] + STEP, *values[index + 1 :]]
        found.append([(a - b) / STEP for a, b in zip(_residuals(rows, names, moved, rest), residuals, strict=True)])
    return found


def _cost(
    residuals: Sequence[float],
    weights: Sequence[float],
    values: Sequence[float],
    prior: Sequence[float],
    widths: Sequence[float],
) -> float:
    sizes = [abs(residual) for residual in residuals]
    losses = [size * size / 2 if size < HUBER else HUBER * size - HUBER**2 / 2 for size in sizes]
    fit = sum(weight * loss for weight, loss in zip(weights, losses, strict=True)) / NOISE**2
    return fit + sum(((v - p) / w) ** 2 for v, p, w in zip(values, prior, widths, strict=True)) / 2


def _move(
    slopes: Sequence[Sequence[float]],
    residuals: Sequence[float],
    robust: Sequence[float],
    *,
    pulls: Sequence[float],
    widths: Sequence[float],
    damping: float,
) -> list[float]:
    """One Gauss-Newton step; `pulls` are distances from the guesses."""
    weighted = [[w * s for w, s in zip(robust, slope, strict=True)] for slope in slopes]
    size = len(slopes)
    matrix = [[sum(map(float.__mul__, weighted[i], slopes[j])) for j in range(size)] for i in range(size)]
    right = [-sum(map(float.__mul__, weighted[i], residuals)) for i in range(size)]
    for i in range(size):
        matrix[i][i] = (matrix[i][i] + widths[i] ** -2) * (1 + damping)
        right[i] -= pulls[i] / widths[i] ** 2
    return [max(-LARGEST_STEP, min(LARGEST_STEP, step)) for step in solve(matrix, right)]


def solve(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """A positive definite system, by elimination."""
    rows = [[*line, value] for line, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for k in range(size):
        for i in range(k + 1, size):
            ratio = rows[i][k] / rows[k][k]
            if ratio:
                rows[i] = [a - ratio * b for a, b in zip(rows[i], rows[k], strict=True)]
    found = [0.0] * size
    for i in reversed(range(size)):
        found[i] = (rows[i][size] - sum(rows[i][j] * found[j] for j in range(i + 1, size))) / rows[i][i]
    return found
