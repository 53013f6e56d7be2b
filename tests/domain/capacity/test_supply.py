"""What one replica carries, as it is given."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.capacity import carried, supply
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.site import Site
from controlplane.domain.errors import RefusedError
from tests.domain.capacity.plans import make_policy, make_replica

ABSURD: list[Any] = [0, -1, float("nan"), float("inf"), 1e30, "20", [20], None, True]


def test_a_replica_of_several_cards_carries_as_much_as_they_do() -> None:
    assert supply.from_card_rate(20, cards=4).requests_per_s == 80
    assert supply.from_token_rate(100, 500, cards=4).requests_per_s == pytest.approx(0.8)


@pytest.mark.parametrize("value", ABSURD)
def test_rates_that_can_not_be_are_refused_by_name(value: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        supply.from_card_rate(value)
    assert set(caught.value.fields) == {"requests_per_s_a_card"}
    with pytest.raises(RefusedError) as caught:
        supply.from_token_rate(value, 500)
    assert set(caught.value.fields) == {"tokens_per_s_a_card"}
    with pytest.raises(RefusedError) as caught:
        supply.from_token_rate(100, value)
    assert set(caught.value.fields) == {"output_tokens"}


def test_one_node_survives_nothing_and_that_is_said() -> None:
    found = carried.work_out(make_replica(10), 1, make_policy(), Site(8))
    assert (found.replicas, found.peak_after_node_loss) == (8, 0)
    assert any("lost with one node" in reason for reason in found.reasons)


def test_cards_that_are_left_over_are_counted_and_paid_for() -> None:
    found = carried.work_out(make_replica(10, cards=3), 2, make_policy(), Site(8, 1.0))
    assert (found.replicas, found.idle_cards) == (4, 4)
    assert found.cost_per_month == pytest.approx(16 * 730)


def test_too_few_cards_carry_nothing() -> None:
    found = carried.work_out(make_replica(10, cards=16), 1, Policy(), Site(8))
    assert (found.replicas, found.peak_requests_per_s) == (0, 0)
    assert found.reasons == ("A replica takes 16 cards, more than there are.",)


@pytest.mark.parametrize("value", [0, -1, 1.5, 10**9, "two", None])
def test_nodes_that_can_not_be_are_refused_by_name(value: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        carried.work_out(make_replica(), value)
    assert set(caught.value.fields) == {"nodes"}
