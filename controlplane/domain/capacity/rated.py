"""Capacity by what a card carries, as somebody measured it: the plan's sums, with nothing predicted.

A rate is of one split. It is taken as it is given, also where the ledger or the latency model say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.capacity import carried as carrying
from controlplane.domain.capacity import plan as planning
from controlplane.domain.capacity import site as sites
from controlplane.domain.capacity import supply
from controlplane.domain.capacity.demand import Demand
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.sizing import Option, Sizing, Supply
from controlplane.domain.capacity.supply import Replica
from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism.figures import figure
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.split import Split


@dataclass(frozen=True, slots=True)
class CardRate:
    """What one card carries; one of the two."""

    requests_per_s: float | None = None
    tokens_per_s: float | None = None  # output tokens

    def check(self) -> None:
        """Raises RefusedError where both are given."""
        if self.requests_per_s is not None and self.tokens_per_s is not None:
            right = "left out where requests_per_s_a_card is given"
            raise RefusedError(
                "capacity",
                "What a card carries is given twice, in requests and in tokens.",
                hint=f"tokens_per_s_a_card: {right}",
                fields={"tokens_per_s_a_card": right},
            )

    @property
    def is_given(self) -> bool:
        """Whether there is a rate."""
        return self.requests_per_s is not None or self.tokens_per_s is not None

    def replica(self, split: Split, output_tokens: float) -> Replica:
        """One replica of such cards. Raises RefusedError naming the field."""
        self.check()
        if self.tokens_per_s is not None:
            return supply.from_token_rate(self.tokens_per_s, output_tokens, cards=split.cards)
        return supply.from_card_rate(self.requests_per_s or 0.0, cards=split.cards)


def size(question: Question, demand: Demand, policy: Policy, replica: Replica, of: tuple[Split, Ledger]) -> Sizing:
    """Replicas and cards for a demand, by the rate."""
    split, ledger = of
    plan = planning.work_out(demand, replica, policy, sites.of(question.hardware))
    sentence = (
        f"{plan.replicas} x {split.label} on {plan.cards} {question.hardware.accelerator.name}: {plan.hot_cards} hot, "
        f"{plan.cold_cards} cold."
    )
    return Sizing((Option(split, ledger, replica, plan),), (), sentence, demand.assumptions())


def carry(question: Question, policy: Policy, replica: Replica, of: tuple[Split, Ledger]) -> Supply:
    """The load that the question's cards carry, by the rate."""
    split, ledger = of
    found = carrying.work_out(replica, question.hardware.nodes, policy, sites.of(question.hardware))
    sentence = (
        f"{found.replicas} x {split.label} carry {figure(found.peak_requests_per_s)} requests a second at the peak, "
        f"{figure(found.mean_requests_per_s)} on average."
    )
    return Supply(split, ledger, replica, found, (), sentence)
