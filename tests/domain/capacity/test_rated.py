"""Capacity by a measured rate: the plan's sums with nothing predicted."""

from __future__ import annotations

import pytest

from controlplane.domain.capacity import rated
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.rated import CardRate
from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism import copy_ledger
from controlplane.domain.parallelism.split import Split
from tests.domain.capacity.plans import make_demand
from tests.domain.parallelism.questions import make_hardware, make_question

PLAIN = Policy(safety_factor=1.0, utilization_target=1.0, hot_share=0.7, survive_node_loss=False)


def test_two_thousand_requests_at_twenty_a_card_are_a_hundred_cards_seventy_of_them_hot() -> None:
    question = make_question(hardware=make_hardware(cards_per_node=8, nodes=20))
    of = Split(), copy_ledger.of(question, Split())
    replica = CardRate(requests_per_s=20).replica(Split(), 300)
    found = rated.size(question, make_demand(2000, 1000), PLAIN, replica, of)
    assert found.best is not None
    assert (found.best.plan.cards, found.best.plan.hot_cards) == (100, 70)
    assert found.best.plan.steps[0].working == "As given, 20 requests/s a card."


def test_the_other_way_round_cards_carry_their_rate() -> None:
    question = make_question(hardware=make_hardware(cards_per_node=8, nodes=2))
    of = Split(4), copy_ledger.of(question, Split(4))
    found = rated.carry(question, PLAIN, CardRate(requests_per_s=20).replica(Split(4), 300), of)
    assert found.carried is not None
    assert (found.carried.replicas, found.carried.peak_requests_per_s) == (4, 320)


def test_tokens_a_second_become_requests_and_are_no_number_of_users() -> None:
    replica = CardRate(tokens_per_s=100).replica(Split(), 500)
    assert replica.requests_per_s == pytest.approx(0.2) and 'not "0.2 users"' in replica.source


def test_a_rate_is_given_once() -> None:
    with pytest.raises(RefusedError) as caught:
        CardRate(20, 100).replica(Split(), 500)
    assert set(caught.value.fields) == {"tokens_per_s_a_card"}
    assert not CardRate().is_given
