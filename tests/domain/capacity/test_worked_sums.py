"""Sums of capacity as practitioners say them, and where a popular reading is wrong."""

from __future__ import annotations

import pytest

from controlplane.domain.capacity import carried, plan, supply
from controlplane.domain.capacity.site import Site
from tests.domain.capacity.plans import make_demand, make_policy


def test_2000_requests_a_second_at_20_a_card_are_100_cards_at_peak_70_of_them_hot() -> None:
    """20 a card is what a card is trusted with, so nothing is taken off again for safety."""
    found = plan.work_out(make_demand(2000), supply.from_card_rate(20), make_policy())
    assert (found.cards, found.hot_cards, found.cold_cards) == (100, 70, 30)
    shown = [step.working for step in found.steps]
    assert "Peak / (a replica's rate x safety factor): 2,000 / (20 x 1) = 100, in whole replicas 100." in shown
    assert "Needed x hot share: 100 x 0.7 = 70; with 0 spare ones 70." in shown


def test_with_usual_care_the_same_load_takes_more_than_100_cards() -> None:
    """Where 20 a card is a benchmark's figure: a quarter more for a factor of 0.8, and a node of 8 in reserve."""
    careful = make_policy(0.8, 0.6, survive_node_loss=True)
    found = plan.work_out(make_demand(2000), supply.from_card_rate(20), careful, Site(8))
    assert (found.cards, found.spare_replicas) == (125 + 8, 8)


def test_100_cards_at_20_a_card_carry_2000_requests_a_second() -> None:
    found = carried.work_out(supply.from_card_rate(20), 10, make_policy(), Site(10))
    assert found.peak_requests_per_s == pytest.approx(2000)


def test_100_tokens_a_second_and_500_token_answers_are_0_2_requests_a_second_a_card() -> None:
    found = supply.from_token_rate(100, 500)
    assert found.requests_per_s == pytest.approx(0.2)
    assert found.source.startswith("100 tokens/s / 500 tokens an answer = 0.2 requests/s a card.")


def test_that_is_a_rate_and_not_0_2_users() -> None:
    """Little's law: in flight = rate x time. 0.2/s x 5 s = 1 answer is always being written; 12 people who ask once a
    minute make that rate, 120 who ask once in ten minutes."""
    said = supply.from_token_rate(100, 500).source
    assert 'not "0.2 users"' in said
    assert "0.2/s x 5 s an answer = 1 answer is always being written" in said
    assert "0.2/s x 60 s = 12" in said
    assert supply.people(0.2, 60) == pytest.approx(12)
    assert supply.people(0.2, 600) == pytest.approx(120)
    assert supply.from_token_rate.__doc__ is not None
    assert "rate, not a number of people" in supply.from_token_rate.__doc__


def test_1000_people_who_ask_once_a_minute_take_84_such_cards() -> None:
    """1,000 / 60 = 16.7 requests/s over 0.2 a card; by the wrong reading it would have been 5,000 cards."""
    rate = 1000 / 60
    assert plan.work_out(make_demand(rate), supply.from_token_rate(100, 500), make_policy()).cards == 84
