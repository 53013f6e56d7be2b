"""Splits ranked by purpose, each with its reasons; those that dropped out, each with its reason.

Rules
    Interactive: whatever carries the asked load within the objective, with head-room, on the fewest cards comes first;
    of several the simplest: data parallel, then the fewest ranks inside a node, pipelines last. So small batches get
    small splits, and a larger one where the smaller has too little cache to share its cards well. Where the load is all
    that is carried, or none is asked: what carries most within the objective, a larger split having to gain 10 % a
    doubling, and 20 % where its cards talk over PCIe. Where nothing meets the objective: the nearest.
    Offline: highest throughput, a larger split having to gain as much, so that it is taken where the cache that it
    frees pays for its communication.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log2

from controlplane.domain.parallelism import candidate, copies, reasons, trials
from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.parallelism.trials import Trials

# What a doubling of cards a copy has to bring. Of 1 to 1.2 it loses least in 215 choices among published sweeps of 8
# models: 1.8 % of the best one's tokens; 2.2 % where it is taken from the other models, 2.8 % without
# (benchmarks/parallelism).
_GAIN_OF_A_DOUBLING = 1.10
# Over PCIe what is predicted is less certain (the sweeps have no such splits to choose from), and copies that do not
# talk to each other can't be slowed down by it: data parallel unless the gain is plain.
_GAIN_OVER_PCIE = 1.20
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
        """The first candidate; None when all were dropped."""
        return self.candidates[0] if self.candidates else None


def rank(question: Question, held: Trials | None = None) -> Ranking:
    """The ranking for a question; splits of `held` are not tried again.

    Raises RefusedError naming the field of a question that can't be.
    """
    question.check()
    tried = trials.of(question, held)
    found, rejected = tried.fitting()
    kept, needless = copies.without_needless_pipelines(question, found)
    worked_out = [candidate.work_out(question, one, tried) for one in kept]
    ordered = sorted(worked_out, key=_key(question))
    ranked = tuple(
        replace(one, reasons=reasons.of(question, one, ordered[0], index)) for index, one in enumerate(ordered)
    )
    notes = question.assumptions() + (ranked[0].ledger.assumptions if ranked else ())
    return Ranking(ranked, tuple(rejected + needless), reasons.summary(question, ranked, rejected), notes)


def _key(question: Question) -> _Key:
    asked = question.load.requests_per_s is not None or question.load.concurrency is not None
    joined = question.hardware.joined
    if question.purpose == "offline":
        return lambda one: _by_throughput(one, joined)
    return lambda one: _fewest_cards(one, joined) if asked else _by_what_is_carried(one, joined)


def _fewest_cards(one: Candidate, joined: int) -> tuple[float, ...]:
    if one.meets_objective and one.cards_needed is not None:
        return (0.0, one.cards_needed, *_size(one))
    if one.meets_objective:
        return (1.0, *_by_what_is_carried(one, joined))
    return (2.0 if not one.saturated else 3.0, one.excess, -one.most.requests_s, *_size(one))


def _by_what_is_carried(one: Candidate, joined: int) -> tuple[float, ...]:
    if one.carried is None:
        return (1.0, one.excess, *_size(one))
    return (0.0, -one.carried.requests_s / _gain(one, joined), *_size(one))


def _by_throughput(one: Candidate, joined: int) -> tuple[float, ...]:
    late = 0.0 if one.meets_objective or not one.saturated else 1.0
    return (late, -one.at_load.output_tok_s / _gain(one, joined), *_size(one))


def _gain(one: Candidate, joined: int) -> float:
    """What a split of so many cards has to bring, as a factor; stages hand over by PCIe too where nothing else is."""
    doublings = log2(one.split.cards) + log2(one.split.pipeline)
    over_pcie = joined == 1 or one.split.ranks > joined
    return float((_GAIN_OVER_PCIE if over_pcie else _GAIN_OF_A_DOUBLING) ** doublings)


def _size(one: Candidate) -> tuple[float, ...]:
    """Simple splits first: fewer stages, fewer cards, no experts to place."""
    return (one.split.pipeline, one.split.cards, float(one.split.experts), one.split.attention_copies)
