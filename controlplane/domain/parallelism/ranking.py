"""Splits ranked by purpose, each with its reasons; those that dropped out, each with its reason.

Rules
    Interactive: the smallest split that meets the objective with head-room wins (data parallel first, tensor parallel
    inside a node next, pipelines last): small batches gain little from more cards a copy, and every degree adds
    communication, so more copies answer the same cards' requests with less waiting. Where none meets it, the nearest.
    Without an asked load: what carries most within the objective, a larger split having to gain 10 % a doubling.
    Offline: highest throughput wins, a larger split having to gain as much, so that it is taken where the cache
    that it frees pays for its communication.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log2

from controlplane.domain.parallelism import candidate, copies, reasons
from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.rejection import Rejection

# What a doubling of cards a copy has to bring. Of 1 to 1.2 it loses least in 215 choices among published sweeps of 8
# models: 1.8 % of the best one's tokens; 2.2 % where it is taken from the other models, 2.8 % without
# (benchmarks/parallelism).
_GAIN_OF_A_DOUBLING = 1.10
_Key = Callable[[Candidate], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Ranking:
    """`candidates` best first. `sentence` says what came out of it, also when nothing fits."""

    candidates: tuple[Candidate, ...]
    rejected: tuple[Rejection, ...]
    sentence: str
    assumptions: tuple[str, ...]

    @property
    def best(self) -> Candidate | None:
        return self.candidates[0] if self.candidates else None


def rank(question: Question) -> Ranking:
    """The ranking for a question. Raises RefusedError naming the field of a question that can't be."""
    question.check()
    found, rejected = copies.fitting(question)
    kept, needless = copies.without_needless_pipelines(question, found)
    worked_out = [candidate.work_out(question, one) for one in kept]
    ordered = sorted(worked_out, key=_key(question))
    ranked = tuple(
        replace(one, reasons=reasons.of(question, one, ordered[0], index)) for index, one in enumerate(ordered)
    )
    notes = question.assumptions() + (ranked[0].ledger.assumptions if ranked else ())
    return Ranking(ranked, tuple(rejected + needless), reasons.summary(question, ranked, rejected), notes)


def _key(question: Question) -> _Key:
    asked = question.load.requests_per_s is not None or question.load.concurrency is not None
    if question.purpose == "offline":
        return _by_throughput
    return _smallest_that_meets if asked else _by_what_is_carried


def _smallest_that_meets(one: Candidate) -> tuple[float, ...]:
    if one.meets_objective:
        carried = one.carried.requests_s if one.carried else 0.0
        return (0.0 if one.at_ease else 1.0, *_size(one), -carried)
    return (2.0 if not one.saturated else 3.0, one.excess, -one.most.requests_s, *_size(one))


def _by_what_is_carried(one: Candidate) -> tuple[float, ...]:
    if one.carried is None:
        return (1.0, one.excess, *_size(one))
    return (0.0, -one.carried.requests_s / _GAIN_OF_A_DOUBLING ** _doublings(one), *_size(one))


def _by_throughput(one: Candidate) -> tuple[float, ...]:
    late = 0.0 if one.meets_objective or not one.saturated else 1.0
    return (late, -one.at_load.output_tok_s / _GAIN_OF_A_DOUBLING ** _doublings(one), *_size(one))


def _doublings(one: Candidate) -> float:
    return log2(one.split.cards) + log2(one.split.pipeline)


def _size(one: Candidate) -> tuple[float, ...]:
    """Simple splits first: fewer stages, fewer cards, no experts to place."""
    return (one.split.pipeline, one.split.cards, float(one.split.experts), one.split.attention_copies)
