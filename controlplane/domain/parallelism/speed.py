"""How fast a split is, and what it carries: the latency model asked for one copy, its answer for all copies.

Requests are spread evenly over copies. Between nodes a pipeline hands over the activations of its tokens, which the
latency model counts as if they went over the fabric: hops over the network are added here, hidden size x 2 bytes a
token and 30 us each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, floor, inf, log, sqrt

from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism import number_names
from controlplane.domain.parallelism.hardware import USUAL_NETWORK_BYTES_PER_S
from controlplane.domain.parallelism.layout import Layout
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.split import Split
from controlplane.domain.performance import curve, number_formats, step_time
from controlplane.domain.performance.curve import Curve, Knee, Objective, Point
from controlplane.domain.performance.setup import Setup

_GRID_POINTS = 8
_TRIALS = 4  # for the border of the objective
_NEAR = 1.04  # ratio of concurrencies that are near enough
_HOP_S = 30e-6  # of one hand-over between nodes, whatever its size
_ACTIVATION_BYTES = 2.0


@dataclass(frozen=True, slots=True)
class Speed:
    """Points are of one copy. `carried` is the largest load within the objective, None where already one request at a
    time is outside; `most` is full use whatever the latency; `knee` is where more requests stop to pay. `seats` is what
    one copy can run at once."""

    points: tuple[Point, ...]
    carried: Point | None
    most: Point
    knee: Knee
    seats: float


class Copy:
    """One copy of a model on its cards, to be asked for points of its curve."""

    def __init__(self, question: Question, split: Split, ledger: Ledger, layout: Layout) -> None:
        self.question = question
        self.split = split
        self.setup = _setup(question, split, ledger)
        self.rated = curve.rated(
            question.model,
            self.setup,
            question.load.lengths,
            factors=question.factors,
            first_token_factor=question.first_token_factor,
        )
        self.crossings = layout.crossings
        self.seats = _seats(question, split, ledger)

    def at(self, concurrencies: list[float], objective: Objective | None = None) -> Curve:
        """The curve of this copy, with hops over the network in its times."""
        found = curve.at(self.rated, concurrencies, objective=objective)
        if not self.crossings:
            return found
        return replace(found, points=tuple(self._with_hops(point) for point in found.points))

    def point(self, concurrency: float) -> Point:
        """The point of the curve at so many concurrent requests, at least one."""
        return self.at([max(1.0, concurrency)]).points[0]

    def communication_share(self, running: float) -> float:
        """Share of a decoding step that ranks spend on talking to each other, at so many running requests."""
        if self.split.cards == 1:
            return 0.0
        context_tokens = self.question.load.lengths.mean_context_tokens
        step = step_time.decode(self.rated.speed, max(1.0, running), context_tokens)
        hops = self._hops_s(running / self.split.pipeline)
        return (step.communication + hops) / (step.seconds + hops)

    def _with_hops(self, point: Point) -> Point:
        lengths = self.question.load.lengths
        first = self._hops_s(lengths.input_tokens)
        each = self._hops_s(point.running / self.split.pipeline)
        work_ms = point.ttft_ms + max(0.0, lengths.output_tokens - 1) * point.tpot_ms
        slower = (work_ms + 1e3 * (first + max(0.0, lengths.output_tokens - 1) * each)) / work_ms
        return replace(
            point,
            ttft_ms=point.ttft_ms + 1e3 * first,
            tpot_ms=point.tpot_ms + 1e3 * each,
            output_tok_s=point.output_tok_s / slower,
            requests_s=point.requests_s / slower,
            latency_p95_s=point.latency_p95_s * slower,
        )

    def _hops_s(self, tokens: float) -> float:
        network = self.question.hardware.network_bytes_per_s or USUAL_NETWORK_BYTES_PER_S
        return self.crossings * (_HOP_S + tokens * self.question.model.hidden_size * _ACTIVATION_BYTES / network)


def of(copy: Copy, objective: Objective) -> Speed:
    """Curve, full use, and the largest load within the objective, of one copy."""
    found = copy.at(_grid(copy.seats), objective)
    most = max(found.points, key=lambda point: point.requests_s)
    return Speed(found.points, _carried(copy, found.points, most, objective), most, found.knee, copy.seats)


def at_rate(copy: Copy, speed: Speed, requests_per_s: float) -> tuple[Point, bool]:
    """The point where one copy completes the rate, and whether it does: saturated it is at full use."""
    rising = _rising(speed.points)
    if requests_per_s > speed.most.requests_s * 1.001:
        return speed.most, False
    if requests_per_s <= rising[0].requests_s:
        return rising[0], True
    for low, high in pairwise(rising):
        if requests_per_s <= high.requests_s:
            return copy.point(_between(low, high, low.requests_s, high.requests_s, requests_per_s)), True
    return speed.most, True


def meets(point: Point, objective: Objective) -> bool:
    """Whether a point is within the objective (means, not percentiles)."""
    return point.ttft_ms <= (objective.ttft_ms or inf) and point.tpot_ms <= (objective.tpot_ms or inf)


def excess(point: Point, objective: Objective) -> float:
    """How far a point is beyond the objective: 1 = at its border, 2 = twice as slow as asked."""
    return max(point.ttft_ms / (objective.ttft_ms or inf), point.tpot_ms / (objective.tpot_ms or inf))


def _carried(copy: Copy, points: tuple[Point, ...], most: Point, objective: Objective) -> Point | None:
    """The last point within the objective: the grid brackets it, a few more points find it."""
    if not meets(points[0], objective):
        return None
    low, high = points[0], None
    for point in points[1:]:
        if point.concurrency > most.concurrency:
            break
        if not meets(point, objective):
            high = point
            break
        low = point
    if high is None:
        return low
    for trial in range(_TRIALS):
        if high.concurrency <= low.concurrency * _NEAR:
            break
        # by turns, as straight lines alone may creep up from one side
        straight = _between(low, high, excess(low, objective), excess(high, objective), 1.0)
        guess = floor(straight if trial % 2 == 0 else sqrt(low.concurrency * high.concurrency))
        if not low.concurrency < guess < high.concurrency:
            break
        point = copy.point(guess)
        low, high = (point, high) if meets(point, objective) else (low, point)
    return low


def _between(low: Point, high: Point, at_low: float, at_high: float, wanted: float) -> float:
    """The concurrency at which a figure that rises from `at_low` to `at_high` is `wanted`: straight in logarithms."""
    if at_high <= at_low or wanted <= at_low:
        return low.concurrency
    share = log(wanted / at_low) / log(at_high / at_low)
    return exp(log(low.concurrency) + min(1.0, share) * log(high.concurrency / low.concurrency))


def _rising(points: tuple[Point, ...]) -> list[Point]:
    """Points of which each completes more than the one before."""
    found = [points[0]]
    found.extend(point for point in points[1:] if point.requests_s > found[-1].requests_s)
    return [point for index, point in enumerate(found) if index == 0 or point.requests_s > found[index - 1].requests_s]


def _grid(seats: float) -> list[float]:
    """Concurrencies from one request to all seats, each the same factor above the one before."""
    top = max(1.0, float(floor(seats)))
    if top <= _GRID_POINTS:
        return [float(n) for n in range(1, int(top) + 1)]
    return [float(round(top ** (n / (_GRID_POINTS - 1)))) for n in range(_GRID_POINTS)]


def _seats(question: Question, split: Split, ledger: Ledger) -> float:
    """Requests that one copy runs at once: by max_num_seqs and by the cache at the mean length, of all its groups."""
    carried = ledger.concurrency(max(1, round(question.load.lengths.mean_context_tokens)))
    each = ledger.setup.max_num_seqs if carried is None else min(ledger.setup.max_num_seqs, carried)
    return max(1.0, each) * split.attention_copies


def _setup(question: Question, split: Split, ledger: Ledger) -> Setup:
    """The copy as the latency model takes it."""
    mean = question.load.lengths.mean_context_tokens
    carried = ledger.concurrency(max(1, round(mean)))
    groups = split.attention_copies
    tokens = None if carried is None else max(1, round(carried * mean * groups))
    weights = number_names.weight_format(question.precision, question.model)
    if number_formats.parse(weights, question.model) is None:
        raise RefusedError("parallelism", "The weight format is not known.", fields={"quantization": "bf16, fp8, int4"})
    return Setup(
        accelerator=question.hardware.seen_by(split.ranks),
        tensor_parallel=split.ranks,
        pipeline_parallel=split.pipeline,
        attention_parallel=groups,
        expert_parallel=split.experts,
        engine=question.engine,
        weight_format=weights,
        kv_format=number_names.kv_format(question.precision),
        max_num_seqs=ledger.setup.max_num_seqs * groups,
        max_num_batched_tokens=ledger.setup.max_num_batched_tokens * groups,
        kv_capacity_tokens=tokens,
        eager=ledger.setup.enforce_eager,
        speculative=ledger.setup.draft is not None,
    )
