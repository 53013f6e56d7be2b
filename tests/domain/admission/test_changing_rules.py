"""Tiers and shares are rows that people change while traffic runs: nothing breaks, nothing is lost, nothing stays."""

from __future__ import annotations

import random

import pytest

from controlplane.domain.admission.policy import Policy, TenantShare
from controlplane.domain.admission.ticket import Dispatch, Queued
from controlplane.domain.admission.tiers import BATCH, INTERACTIVE, STANDARD, Tier
from tests.domain.admission.making import LATE, ask, dispatched, make_admission, make_ticket
from tests.domain.admission.test_queueing_properties import is_at_rest

GOLD = Tier("gold", 16.0, 2, 10_000, 5.0, 30.0, 0.25)
TENANTS = ["ada", "bob", "eve"]


def make_policy(*tiers: Tier, **shares: TenantShare) -> Policy:
    return Policy({one.name: one for one in tiers}, shares, kept_seats=0)


def test_a_request_of_a_tier_that_is_gone_is_let_in_as_standard() -> None:
    admission = make_admission(policy=make_policy(STANDARD, GOLD))
    admission.set_policy(make_policy(STANDARD), LATE)
    ticket = make_ticket(tier="gold")
    assert isinstance(ask(admission, ticket), Dispatch)
    assert ticket.tier == "standard" and admission.admitted["standard"] == 1


def test_where_there_is_no_standard_it_is_let_in_with_the_least_weight() -> None:
    admission = make_admission(policy=make_policy(INTERACTIVE, BATCH))
    ticket = make_ticket(tier="gold")
    assert isinstance(ask(admission, ticket), Dispatch)
    assert ticket.tier == "batch"


def test_who_waits_in_a_tier_that_is_taken_away_has_its_turn_and_then_the_tier_ends() -> None:
    admission = make_admission(seats=1, policy=make_policy(STANDARD, GOLD))
    ask(admission, make_ticket("running", tier="gold"))
    ask(admission, make_ticket("waiting", "eve", tier="gold"))
    admission.set_policy(make_policy(STANDARD), LATE)
    late = make_ticket("late", "bob", tier="gold")
    assert isinstance(ask(admission, late), Queued) and late.tier == "standard", "it takes nobody in any more"
    admission.abandoned("late")
    assert dispatched(admission.ended("running", LATE + 1)) == ["waiting"]
    admission.tick(LATE + 1)
    assert set(admission.policy.tiers) == {"standard", "gold"}, "one of it runs"
    admission.ended("waiting", LATE + 2, 50)
    admission.tick(LATE + 2)
    assert set(admission.policy.tiers) == set(admission.queue.tiers) == {"standard"}


@pytest.mark.parametrize("seed", range(6))
def test_rows_change_at_random_in_the_middle_of_traffic(seed: int) -> None:
    chance = random.Random(seed)
    tiers, now = [INTERACTIVE, STANDARD, BATCH, GOLD], LATE
    admission = make_admission(6, replicas=2, capacity=3000)
    asked = 0
    for number in range(2000):
        now += chance.expovariate(40)
        for _ in range(chance.choice([0, 1, 1, 2])):
            asked += 1
            ticket = make_ticket(
                f"q{asked}", chance.choice(TENANTS), chance.choice(tiers).name, prompt_tokens=chance.randrange(1, 400),
                output_tokens=chance.randrange(1, 500), arrived_at=now, wait_until=now + chance.random() * 4,
                sequences=chance.choice([1, 1, 1, 4]),
            )  # fmt: skip
            admission.arrive(ticket, now)
        if admission.seated and chance.random() < 0.7:
            admission.ended(chance.choice(list(admission.seated)), now, chance.choice([None, 40, 900]))
        if admission.waiting and chance.random() < 0.2:
            admission.abandoned(chance.choice(list(admission.waiting)))
        if chance.random() < 0.1:
            shares = {one: TenantShare(chance.choice([1.0, 4.0]), chance.choice([0.0, 0.4])) for one in TENANTS}
            admission.set_policy(
                make_policy(*chance.sample(tiers, chance.randint(1, 4)), **(shares if number % 2 else {})), now
            )
        if chance.random() < 0.3:
            admission.tick(now)
        admission.check_invariants()
    admission.set_policy(make_policy(STANDARD), now)
    while admission.seated or admission.waiting:
        now += 10
        admission.tick(now)
        for name in list(admission.seated):
            admission.ended(name, now, 10)
    admission.tick(now)
    admission.check_invariants()
    is_at_rest(admission)
    assert set(admission.policy.tiers) == set(admission.queue.tiers) == {"standard"}
