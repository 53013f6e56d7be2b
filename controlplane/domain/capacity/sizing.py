"""Capacity of a model on a kind of node: the split is chosen here, and what a replica carries is predicted.

`size`: a demand in, the plan with the fewest cards out. `carry`: nodes in, the load that they carry out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from controlplane.domain.capacity import carried as carrying
from controlplane.domain.capacity import plan as planning
from controlplane.domain.capacity import site as sites
from controlplane.domain.capacity.carried import Carried
from controlplane.domain.capacity.demand import Demand
from controlplane.domain.capacity.plan import Plan
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.supply import Replica
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism import copies, trials
from controlplane.domain.parallelism.copies import Fitting
from controlplane.domain.parallelism.figures import figure
from controlplane.domain.parallelism.question import Load, Question
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.parallelism.split import Split
from controlplane.domain.parallelism.trials import Trials


@dataclass(frozen=True, slots=True)
class Option:
    """One split with its replica and its plan; `ledger` is of one card."""

    split: Split
    ledger: Ledger
    replica: Replica
    plan: Plan


@dataclass(frozen=True, slots=True)
class Sizing:
    """`options` with the fewest cards first; the first one is the advice. None fits where there is none."""

    options: tuple[Option, ...]
    rejected: tuple[Rejection, ...]
    sentence: str
    assumptions: tuple[str, ...]

    @property
    def best(self) -> Option | None:
        """The option with the fewest cards; None where none carries the demand."""
        return self.options[0] if self.options else None


@dataclass(frozen=True, slots=True)
class Supply:
    """What the cards carry with the split that carries most; `carried` None where nothing fits the objective."""

    split: Split | None
    ledger: Ledger | None
    replica: Replica | None
    carried: Carried | None
    rejected: tuple[Rejection, ...]
    sentence: str


def size(question: Question, demand: Demand, policy: Policy | None = None, held: Trials | None = None) -> Sizing:
    """Replicas and cards for a demand on nodes as the question's; a copy may span as many of them as it names.

    The question's load is not read: the demand's lengths are taken; splits of `held` are not tried again. Raises
    RefusedError naming the field.
    """
    question = replace(question, load=Load(demand.workload()))
    question.check()
    site = sites.of(question.hardware)
    tries = trials.of(question, held)
    found, rejected = tries.fitting()
    kept, needless = copies.without_needless_pipelines(question, found)
    options = []
    for fitting in kept:
        tried = _replica(tries, fitting)
        if isinstance(tried, Rejection):
            rejected.append(tried)
        else:
            plan = planning.work_out(demand, tried, policy, site)
            options.append(Option(fitting.split, fitting.ledger, tried, plan))
    options.sort(key=lambda option: (option.plan.cards, option.split.pipeline, option.split.cards))
    notes = tuple(dict.fromkeys(question.assumptions() + demand.assumptions()))
    return Sizing(tuple(options), tuple(rejected + needless), _sized(question, options, rejected), notes)


def carry(question: Question, policy: Policy | None = None, held: Trials | None = None) -> Supply:
    """The load that the question's cards carry within its objective, for requests as long as its load's.

    Splits of `held` are not tried again.
    Of pipelines the shortest of each kind is looked at, needed or not, so more cards never carry less.
    """
    question = replace(question, load=Load(question.load.lengths))
    question.check()
    site = sites.of(question.hardware)
    tries = trials.of(question, held)
    found, rejected = tries.fitting()
    best: tuple[Fitting, Replica, Carried] | None = None
    for fitting in found:
        tried = _replica(tries, fitting)
        if isinstance(tried, Rejection):
            rejected.append(tried)
            continue
        carries = carrying.work_out(tried, question.hardware.nodes, policy, site)
        if best is None or carries.peak_requests_per_s > best[2].peak_requests_per_s * 1.0001:
            best = (fitting, tried, carries)
    if best is None:
        return Supply(None, None, None, None, tuple(rejected), _nothing(question, rejected))
    fitting, replica, carries = best
    sentence = (
        f"{carries.replicas} x {fitting.split.label} carry {figure(carries.peak_requests_per_s)} requests a second at "
        f"the peak, {figure(carries.mean_requests_per_s)} on average."
    )
    return Supply(fitting.split, fitting.ledger, replica, carries, tuple(rejected), sentence)


def _replica(tries: Trials, fitting: Fitting) -> Replica | Rejection:
    """What one copy carries within the objective, as predicted."""
    _copy, found = tries.speed(fitting)
    point = found.carried
    if point is None:
        first = found.points[0]
        reason = (
            f"Even one request at a time takes {first.ttft_ms:.0f} ms to the first token and {first.tpot_ms:.1f} ms a "
            "token, slower than asked."
        )
        return Rejection(fitting.split, "objective", reason)
    source = (
        f"Predicted for {fitting.split.label}: {figure(point.requests_s)} requests/s at {point.concurrency:.0f} at "
        f"once, with {point.ttft_ms:.0f} ms to the first token and {point.tpot_ms:.1f} ms a token."
    )
    return Replica(
        requests_per_s=point.requests_s,
        cards=fitting.split.cards,
        source=source,
        in_flight=point.concurrency,
        ttft_ms=point.ttft_ms,
        tpot_ms=point.tpot_ms,
        nodes=fitting.layout.nodes_a_copy,
    )


def _sized(question: Question, options: list[Option], rejected: list[Rejection]) -> str:
    if not options:
        return _nothing(question, rejected)
    best = options[0]
    plan = best.plan
    return (
        f"{plan.replicas} x {best.split.label} on {plan.cards} {question.hardware.accelerator.name}: "
        f"{plan.hot_cards} hot, {plan.cold_cards} cold."
    )


def _nothing(question: Question, rejected: list[Rejection]) -> str:
    slow = [one for one in rejected if one.code == "objective"]
    last = max(slow or rejected, key=lambda one: one.split.cards)
    return f"{question.model.name} does not run here within the objective. {last.split.label}: {last.reason}"
