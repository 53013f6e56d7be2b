"""Measured points of a set-up correct the latency model's prediction for it, for its model and its cards.

Points are of one copy. Each says what requests took while so many of them were there at once, of lengths of their own
where these are known. The parts of a step are corrected as `performance.calibration` does it, and of times to first
token as much as the predictor takes over from a series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import exp, log

from controlplane.domain.parallelism.figures import figure
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.speed import Copy
from controlplane.domain.performance import calibration, closed_loop, predictor
from controlplane.domain.performance.closed_loop import State
from controlplane.domain.performance.setup import Workload
from controlplane.domain.performance.step_time import Rates

MOST_POINTS = 16
_WORTH_TELLING = 0.01  # a part's factor that is nearer to 1 is left out


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """`concurrency` requests in one copy, means of their times in ms. Lengths None = those of the question's load."""

    concurrency: float
    tpot_ms: float
    ttft_ms: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """A point beside what is predicted for it without and with the calibration."""

    point: MeasuredPoint
    tpot_before_ms: float
    tpot_after_ms: float
    ttft_before_ms: float
    ttft_after_ms: float


@dataclass(frozen=True, slots=True)
class Taught:
    """What points teach. `factors` by part of a step; `rows` in rising order of concurrency."""

    factors: Mapping[str, float]
    first_token_factor: float
    rows: tuple[Compared, ...]

    @property
    def tpot_factor(self) -> float:
        """By how much a time per token is longer with the calibration than without, on geometric average."""
        logs = [log(row.tpot_after_ms / row.tpot_before_ms) for row in self.rows]
        return exp(sum(logs) / len(logs))

    @property
    def error_before(self) -> float:
        """Mean error of the times per token without the calibration, as a share of what was measured."""
        return _mean_error([row.tpot_before_ms / row.point.tpot_ms for row in self.rows])

    @property
    def error_after(self) -> float:
        """The same with it."""
        return _mean_error([row.tpot_after_ms / row.point.tpot_ms for row in self.rows])

    @property
    def parts(self) -> tuple[tuple[str, float], ...]:
        """Parts of a step that are taken for slower or faster than before."""
        return tuple((name, factor) for name, factor in self.factors.items() if abs(factor - 1) >= _WORTH_TELLING)

    @property
    def sentence(self) -> str:
        """How it is shown."""
        points = "1 point" if len(self.rows) == 1 else f"{len(self.rows)} points"
        times = f"time per token x {figure(self.tpot_factor)}, first token x {figure(self.first_token_factor)}"
        return (
            f"Calibrated by {points}: {times}; mean error of the time per token at these points "
            f"{self.error_before:.0%} before, {self.error_after:.0%} now."
        )

    def applied(self, question: Question) -> Question:
        """The question with what was taught."""
        return replace(question, factors=dict(self.factors), first_token_factor=self.first_token_factor)


def teach(copy: Copy, points: Sequence[MeasuredPoint]) -> Taught:
    """What points that were measured on such a copy teach. `copy` is of a question without any calibration."""
    assert points, "there has to be a point that teaches"
    ordered = sorted(points, key=lambda point: point.concurrency)[:MOST_POINTS]
    speed = copy.rated.speed
    asked = [calibration.Measured(point.tpot_ms / 1e3, partial(_state, copy, point)) for point in ordered]
    corrected, factors = calibration.calibrate(speed, asked)
    states = [(point, _state(copy, point, speed), _state(copy, point, corrected)) for point in ordered]
    ratios = [point.ttft_ms / 1e3 / after.ttft_s for point, _, after in states if point.ttft_ms is not None]
    first = predictor.first_token_factor(ratios)
    rows = tuple(
        Compared(point, before.tpot_s * 1e3, after.tpot_s * 1e3, before.ttft_s * 1e3, after.ttft_s * 1e3 * first)
        for point, before, after in states
    )
    return Taught(factors, first, rows)


def _state(copy: Copy, point: MeasuredPoint, speed: Rates) -> State:
    """What the model says of a point, for requests of its own lengths."""
    own, load = (point.input_tokens, point.output_tokens), copy.question.load.lengths
    if own != (None, None):
        load = Workload(own[0] or load.input_tokens, own[1] or load.output_tokens)
    return closed_loop.solve(speed, load, copy.rated.limits, max(1.0, point.concurrency))


def _mean_error(ratios: Sequence[float]) -> float:
    return sum(abs(ratio - 1) for ratio in ratios) / len(ratios)
