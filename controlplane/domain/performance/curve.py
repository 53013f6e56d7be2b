"""Time to first token, time per output token and throughput against concurrency, with the knee.

The public entry of the performance model: `predict(model, setup, load, concurrencies) -> Curve`. Pure and quick: the
rates of a set-up are worked out once, each point is a few hundred multiplications.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from typing import NoReturn

from controlplane.domain.errors import RefusedError
from controlplane.domain.performance import capacity_rule, closed_loop, coefficients, learned, number_formats, step_time
from controlplane.domain.performance.closed_loop import Limits, State
from controlplane.domain.performance.predictor import limit_of
from controlplane.domain.performance.setup import Setup, Workload
from controlplane.domain.performance.step_time import Rates
from controlplane.domain.specs.model import ModelFacts

# The knee: doubling the requests brings less than a fifth more tokens (2 ** 0.26 = 1.2).
FLAT_GAIN = 0.26
P95_OF_WAIT = 3.0  # -ln 0.05: the 95th percentile of a wait that is exponential, in means
MOST_POINTS = 500
CODE = "performance_curve"


@dataclass(frozen=True, slots=True)
class Point:
    """At one concurrency of the whole deployment. `running` is how many of the requests run at once, the rest wait.

    `latency_p95_s` is of a whole request: its work, and the 95th percentile of its wait.
    """

    concurrency: float
    running: float
    ttft_ms: float
    tpot_ms: float
    output_tok_s: float
    requests_s: float
    latency_p95_s: float
    limit: str  # part that takes the most of a step; "memory for cache" where requests wait for it
    preemptions: float  # per request: thrown out of a full cache and computed again


@dataclass(frozen=True, slots=True)
class Objective:
    """What a reader will stand for; None = any."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Knee:
    """The largest concurrency worth having, and why not more: which bound was met first."""

    concurrency: float
    reason: str  # throughput | ttft | tpot | memory | end
    sentence: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Points in rising order of concurrency."""

    points: tuple[Point, ...]
    knee: Knee
    assumptions: tuple[str, ...]


def predict(
    model: ModelFacts,
    setup: Setup,
    load: Workload,
    concurrencies: Sequence[float],
    *,
    objective: Objective | None = None,
    factors: Mapping[str, float] | None = None,
    known: coefficients.Coefficients = learned.COEFFICIENTS,
) -> Curve:
    """The curve at `concurrencies` (requests in the whole deployment, each at least 1).

    `factors` are those of a calibration by part. Raises RefusedError naming the field.
    """
    return at(rated(model, setup, load, factors=factors, known=known), concurrencies, objective=objective)


@dataclass(frozen=True, slots=True)
class Rated:
    """A set-up whose rates are worked out, to be asked for points again and again."""

    model: ModelFacts
    setup: Setup
    load: Workload
    speed: Rates
    limits: Limits
    first_token_factor: float = 1.0  # of a calibration: by how much times to first token exceed what the rates say


def rated(
    model: ModelFacts,
    setup: Setup,
    load: Workload,
    *,
    factors: Mapping[str, float] | None = None,
    first_token_factor: float = 1.0,
    known: coefficients.Coefficients = learned.COEFFICIENTS,
) -> Rated:
    """The rates of a set-up under a load. Raises RefusedError naming the field."""
    _check(setup, load)
    weights = number_formats.parse(setup.weight_format, model)
    if weights is None:
        raise RefusedError(
            CODE, "The weight format is not known.", fields={"weight_format": "bf16, fp8, int4, nvfp4 …"}
        )
    speed = step_time.scaled(step_time.rates(model, setup, weights, known), dict(factors or {}))
    limits = Limits(
        requests=float(setup.max_num_seqs or inf),
        kv_tokens=capacity_rule.kv_tokens(setup, speed.work, load),
        step_tokens=float(setup.max_num_batched_tokens),
    )
    return Rated(model, setup, load, speed, limits, first_token_factor)


def at(of: Rated, concurrencies: Sequence[float], *, objective: Objective | None = None) -> Curve:
    """The curve at `concurrencies`. Raises RefusedError where they can't be."""
    if not concurrencies or len(concurrencies) > MOST_POINTS or not all(1 <= value < 1e7 for value in concurrencies):
        _refuse({"concurrencies": f"1 to {MOST_POINTS} numbers of at least 1"})
    copies, load, limits = of.setup.data_parallel, of.load, of.limits
    points = tuple(_point(of, copies, wanted) for wanted in sorted(set(concurrencies)))
    fits = limits.kv_tokens / load.mean_context_tokens * copies
    return Curve(points, knee_of(points, objective or Objective(), fits), of.model.assumptions)


def _check(setup: Setup, load: Workload) -> None:
    wrong: dict[str, str] = {}
    for field, value in (("input_tokens", load.input_tokens), ("output_tokens", load.output_tokens)):
        if not 1 <= value <= 2e7:
            wrong[field] = "a number from 1 to 20 million"
    for field in ("tensor_parallel", "pipeline_parallel", "data_parallel", "attention_parallel"):
        if not 1 <= getattr(setup, field) <= 100_000:
            wrong[field] = "a whole number of at least 1"
    if wrong:
        _refuse(wrong)


def _refuse(wrong: dict[str, str]) -> NoReturn:
    sentence = "; ".join(f"{field} should be {right}" for field, right in wrong.items())
    raise RefusedError(CODE, sentence, fields=wrong)


def _point(of: Rated, copies: int, concurrency: float) -> Point:
    load, limits = of.load, of.limits
    state = closed_loop.solve(of.speed, load, limits, max(1.0, concurrency / copies))
    later_s = state.ttft_s * (of.first_token_factor - 1)
    full = state.running < state.concurrency and state.running >= limits.kv_tokens / load.mean_context_tokens - 1e-6
    return Point(
        concurrency=concurrency,
        running=state.running * copies,
        ttft_ms=(state.ttft_s + later_s) * 1e3,
        tpot_ms=state.tpot_s * 1e3,
        output_tok_s=state.requests_per_s * load.output_tokens * copies,
        requests_s=state.requests_per_s * copies,
        latency_p95_s=_latency_p95_s(state, load) + later_s,
        limit="memory for cache" if full else limit_of(state),
        preemptions=state.preemptions,
    )


def _latency_p95_s(state: State, load: Workload) -> float:
    queued = state.wait_s + state.prompt_share * state.prompt_s
    work = state.ttft_s - state.wait_s + max(0.0, load.output_tokens - 1) * state.tpot_s
    return work + P95_OF_WAIT * queued


def knee_of(points: Sequence[Point], objective: Objective, fits: float) -> Knee:
    """The last point before throughput flattens, an objective is left or requests wait for memory."""
    last = points[0]
    for point in points:
        reason = _beyond(last, point, objective, fits)
        if reason is not None:
            return Knee(last.concurrency, reason, _sentence(reason, last, point, objective, fits))
        last = point
    return Knee(last.concurrency, "end", "Throughput still rises at the end of the curve.")


def _beyond(last: Point, point: Point, objective: Objective, fits: float) -> str | None:
    if objective.tpot_ms is not None and point.tpot_ms > objective.tpot_ms:
        return "tpot"
    if objective.ttft_ms is not None and point.ttft_ms > objective.ttft_ms:
        return "ttft"
    if point.concurrency > fits and point.concurrency > point.running:
        return "memory"
    if point is not last and log(point.output_tok_s / last.output_tok_s) < FLAT_GAIN * log(
        point.concurrency / last.concurrency
    ):
        return "throughput"
    return None


def _sentence(reason: str, last: Point, point: Point, objective: Objective, fits: float) -> str:
    at = f"At {point.concurrency:g} requests in a replica"
    if reason == "tpot":
        return f"{at} a token takes {point.tpot_ms:.1f} ms, more than the {objective.tpot_ms:g} ms asked for."
    if reason == "ttft":
        return f"{at} the first token takes {point.ttft_ms:.0f} ms, more than the {objective.ttft_ms:g} ms asked for."
    if reason == "memory":
        return f"{at} the cache is full: it holds {fits:.0f} requests of this length, the others wait."
    gain = point.output_tok_s / last.output_tok_s - 1
    more = point.concurrency / last.concurrency - 1
    return f"{at} ({more:.0%} more) throughput gains only {gain:.0%}: {point.limit} limits it."
