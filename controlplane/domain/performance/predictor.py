"""One question answered: rates of the set-up, corrected where points of the series were measured, at the asked load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, inf, log

from controlplane.domain.performance import calibration, capacity_rule, coefficients, learned, loads, step_time
from controlplane.domain.performance.case import Question
from controlplane.domain.performance.closed_loop import Limits, State
from controlplane.domain.performance.step_time import Rates

# Of a measured time to first token, this much of its logarithm is taken over to other points of the series, within a
# factor of 4: chosen of 0.5, 0.7, 0.85 and 1 on 138 series (median error of the others 31 % without, 22 % with it).
FIRST_TOKEN_SHARE = 0.7
FIRST_TOKEN_MOST = 4.0


@dataclass(frozen=True, slots=True)
class Observed:
    """A measured point: what was asked of the set-up, and what came out."""

    question: Question
    tpot_s: float
    ttft_s: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Of the whole set-up. `limit` names the part that takes the most of a step."""

    ttft_ms: float
    tpot_ms: float
    output_tok_s: float
    requests_per_s: float
    limit: str
    factors: dict[str, float]  # of calibration, by part; empty without


def rates_of(question: Question, known: coefficients.Coefficients = learned.COEFFICIENTS) -> Rates:
    """Uncorrected rates of the question's set-up."""
    return step_time.rates(question.model, question.setup, question.weights, known)


def limits_of(question: Question, speed: Rates) -> Limits:
    """What one copy can run at once."""
    return Limits(
        requests=float(question.setup.max_num_seqs or inf),
        kv_tokens=capacity_rule.kv_tokens(question.setup, speed.work, question.load),
        step_tokens=float(question.setup.max_num_batched_tokens),
    )


def state_at(question: Question, speed: Rates) -> State:
    """State of one copy under its share of the load."""
    copies = question.setup.data_parallel
    sent = question.concurrency if question.mode != "burst" else (question.concurrency or question.requests)
    return loads.state_of(
        speed,
        question.load,
        limits_of(question, speed),
        question.mode,
        concurrency=None if sent is None else max(1.0, sent / copies),
        requests_per_s=None if question.requests_per_s is None else question.requests_per_s / copies,
        usual_max_seqs=capacity_rule.usual_max_seqs(question.setup),
    )


def predict(
    question: Question,
    points: Sequence[Observed] = (),
    known: coefficients.Coefficients = learned.COEFFICIENTS,
) -> Prediction:
    """The prediction; `points` were measured on the same series."""
    factors: dict[str, float] = {}
    speed = rates_of(question, known)
    if points:
        factors = factors_of(points, known)
        speed = step_time.scaled(speed, factors)
    state = state_at(question, speed)
    copies = question.setup.data_parallel
    return Prediction(
        ttft_ms=state.ttft_s * 1e3 * _first_token_factor(points, factors, known),
        tpot_ms=state.tpot_s * 1e3,
        output_tok_s=state.requests_per_s * question.load.output_tokens * copies,
        requests_per_s=state.requests_per_s * copies,
        limit=limit_of(state),
        factors=factors,
    )


def factors_of(points: Sequence[Observed], known: coefficients.Coefficients) -> dict[str, float]:
    """Factors of the parts that the measured points of one series speak for."""
    first = rates_of(points[0].question, known)
    measured = [calibration.Measured(point.tpot_s, partial(state_at, point.question)) for point in points]
    return calibration.calibrate(first, measured)[1]


def _first_token_factor(
    points: Sequence[Observed], factors: dict[str, float], known: coefficients.Coefficients
) -> float:
    """By how much times to first token of the series exceed what corrected rates say, on geometric average."""
    ratios = []
    for point in points:
        if point.ttft_s is not None:
            speed = step_time.scaled(rates_of(point.question, known), factors)
            ratios.append(point.ttft_s / state_at(point.question, speed).ttft_s)
    return first_token_factor(ratios)


def first_token_factor(ratios: Sequence[float]) -> float:
    """What is taken over of times to first token, measured / predicted; 1 without any."""
    logs = [log(max(1 / FIRST_TOKEN_MOST, min(FIRST_TOKEN_MOST, ratio))) for ratio in ratios]
    return exp(FIRST_TOKEN_SHARE * sum(logs) / len(logs)) if logs else 1.0


def limit_of(state: State) -> str:
    """The part that takes most of the time of a step, interference of prompts included."""
    parts = {name: float(getattr(state.step, name)) for name in step_time.PARTS if name != "interference"}
    parts["prompts"] = max(0.0, state.step_s - sum(parts.values()))
    return max(parts, key=lambda name: parts[name])
