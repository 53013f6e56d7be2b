"""From a demand to cards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.capacity import carried, demand, lengths, plan
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.capacity.site import Site
from controlplane.domain.errors import RefusedError
from tests.domain.capacity.plans import make_demand, make_policy, make_replica

RATES = st.floats(0.01, 1e5)
POLICIES = st.builds(Policy, st.floats(0.1, 1), st.floats(0.1, 1), st.floats(0.05, 1), st.booleans())
REPLICAS = st.builds(make_replica, st.floats(0.05, 500), st.integers(1, 32))
SITES = st.builds(Site, st.integers(1, 16), st.one_of(st.none(), st.floats(0, 20)))


def test_the_peak_and_the_mean_each_ask_for_replicas_and_the_larger_wins() -> None:
    by_peak = plan.work_out(make_demand(100, 20), make_replica(10), make_policy(0.8, 0.6))
    assert by_peak.replicas == 13  # 100 / 8
    by_mean = plan.work_out(make_demand(100, 90), make_replica(10), make_policy(0.8, 0.6))
    assert by_mean.replicas == 15  # 90 / 6
    assert by_mean.reasons[0].startswith("The mean load decides")


def test_the_hot_pool_carries_the_mean() -> None:
    found = plan.work_out(make_demand(100, 50), make_replica(10), make_policy(1.0, 0.6, 0.5))
    assert (found.replicas, found.hot_replicas) == (10, 9)


def test_a_node_may_be_lost() -> None:
    policy = make_policy(survive_node_loss=True)
    found = plan.work_out(make_demand(100), make_replica(10, cards=2), policy, Site(8))
    assert (found.replicas, found.spare_replicas, found.nodes) == (14, 4, 4)


def test_little_demand_needs_a_second_node_to_survive_one() -> None:
    policy = make_policy(survive_node_loss=True)
    found = plan.work_out(make_demand(5), make_replica(10), policy, Site(8))
    assert (found.replicas, found.spare_replicas, found.nodes) == (2, 1, 2)


def test_a_replica_over_two_nodes_is_lost_with_one_of_them() -> None:
    policy = make_policy(survive_node_loss=True)
    found = plan.work_out(make_demand(30), make_replica(10, cards=16, nodes=2), policy, Site(8))
    assert (found.replicas, found.nodes, found.cards) == (4, 8, 64)


def test_costs_are_cards_times_price_times_hours() -> None:
    found = plan.work_out(make_demand(100, 40), make_replica(10), make_policy(), Site(8, 2.0))
    assert found.cost_per_month == pytest.approx(10 * 2.0 * 730)
    assert found.hot_cost_per_month == pytest.approx(7 * 2.0 * 730)
    # 10 cards at 2.00 an hour write 40 x 300 tokens a second on average
    assert found.cost_per_million_tokens == pytest.approx(10 * 2.0 / (40 * 300 * 3600) * 1e6)


def test_without_a_price_there_are_no_costs() -> None:
    found = plan.work_out(make_demand(), make_replica(), make_policy(), Site(8))
    assert (found.cost_per_month, found.hot_cost_per_month, found.cost_per_million_tokens) == (None, None, None)


def test_requests_in_flight_follow_littles_law() -> None:
    """A replica holds 40 at 10 a second: a request stays 4 s, so 100 a second are 400 at once."""
    assert plan.work_out(make_demand(100), make_replica(10), make_policy()).in_flight_at_peak == pytest.approx(400)


def test_unusual_policies_are_pointed_out_and_followed() -> None:
    assert "safety factor of 1" in " ".join(plan.work_out(make_demand(), make_replica(), make_policy(1.0)).advice)
    assert "safety factor of 0.5" in " ".join(Policy(safety_factor=0.5).advice())
    assert "utilization target of 90%" in " ".join(Policy(utilization_target=0.9).advice())
    assert Policy().advice() == ()


def test_a_peak_far_above_the_mean_is_pointed_out() -> None:
    found = plan.work_out(make_demand(100, 10), make_replica(), Policy())
    assert any("10.0 times the mean" in sentence for sentence in found.advice)


@pytest.mark.parametrize("field", ["safety_factor", "utilization_target", "hot_share", "hours_per_month"])
@pytest.mark.parametrize("value", [0, -1, 1e30, float("nan"), "most", [1], None])
def test_policies_that_can_not_be_are_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        plan.work_out(make_demand(), make_replica(), replace(Policy(), **{field: value}))
    assert set(caught.value.fields) == {field}


@pytest.mark.parametrize("value", [0, -3, 2.5, 10**9, "8", None])
def test_nodes_that_can_not_be_are_refused_by_name(value: Any) -> None:
    with pytest.raises(RefusedError) as caught:
        plan.work_out(make_demand(), make_replica(), Policy(), Site(value))
    assert set(caught.value.fields) == {"cards_per_node"}


@pytest.mark.parametrize("value", [0, -1, float("inf"), 1e30, "lots", {"a": 1}])
def test_rates_that_can_not_be_are_refused_by_name(value: Any) -> None:
    some = lengths.of_mean(100)
    with pytest.raises(RefusedError) as caught:
        demand.of_rates(value, None, some, some)
    assert set(caught.value.fields) == {"peak_requests_per_s"}
    with pytest.raises(RefusedError) as caught:
        demand.of_rates(10, value, some, some)
    assert set(caught.value.fields) == {"mean_requests_per_s"}


def test_a_mean_above_the_peak_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        make_demand(10, 20)
    assert caught.value.fields == {"mean_requests_per_s": "at most the peak, 10"}


def test_a_plan_beyond_reason_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        plan.work_out(make_demand(1e7), make_replica(0.01), Policy())
    assert set(caught.value.fields) == {"peak_requests_per_s"}


@given(RATES, st.floats(1, 10), REPLICAS, POLICIES, SITES)
def test_more_load_never_needs_fewer_cards(
    peak: float, factor: float, replica: Any, policy: Policy, site: Site
) -> None:
    low = make_demand(peak, peak / 3)
    few, many = _cards(low, replica, policy, site), _cards(low.times(factor), replica, policy, site)
    if few is not None and many is not None:
        assert many >= few


@given(RATES, REPLICAS, POLICIES, SITES)
def test_a_plan_adds_up_and_carries_its_demand(peak: float, replica: Any, policy: Policy, site: Site) -> None:
    wanted = make_demand(peak, peak / 2)
    if _cards(wanted, replica, policy, site) is None:
        return
    found = plan.work_out(wanted, replica, policy, site)
    assert found.hot_replicas + found.cold_replicas == found.replicas
    assert found.cards == found.replicas * replica.cards == found.hot_cards + found.cold_cards
    counted = (found.replicas - found.spare_replicas) * replica.requests_per_s
    assert counted * policy.safety_factor >= peak * (1 - 1e-6)
    assert counted * policy.utilization_target >= peak / 2 * (1 - 1e-6)


@given(RATES, REPLICAS, POLICIES, st.integers(1, 16))
def test_the_planned_nodes_carry_the_demand_also_with_one_lost(
    peak: float, replica: Any, policy: Policy, cards_per_node: int
) -> None:
    site = Site(cards_per_node)
    wanted = make_demand(peak)
    if _cards(wanted, replica, policy, site) is None:
        return
    found = plan.work_out(wanted, replica, policy, site)
    if found.nodes > 100_000:
        return
    carries = carried.work_out(replica, found.nodes, policy, site)
    assert carries.peak_requests_per_s >= peak * (1 - 1e-6)
    if policy.survive_node_loss:
        assert carries.peak_after_node_loss >= peak * (1 - 1e-6)


@given(REPLICAS, POLICIES, st.integers(1, 50), st.integers(1, 50), st.integers(1, 16))
def test_more_nodes_never_carry_less(replica: Any, policy: Policy, nodes: int, more: int, cards_per_node: int) -> None:
    few = carried.work_out(replica, nodes, policy, Site(cards_per_node))
    many = carried.work_out(replica, nodes + more, policy, Site(cards_per_node))
    assert many.peak_requests_per_s >= few.peak_requests_per_s
    assert many.mean_requests_per_s >= few.mean_requests_per_s
    assert many.peak_after_node_loss >= few.peak_after_node_loss
    assert few.cards + few.idle_cards == nodes * cards_per_node


def _cards(wanted: Any, replica: Any, policy: Policy, site: Site) -> int | None:
    """None where the plan is refused as beyond reason."""
    try:
        return plan.work_out(wanted, replica, policy, site).cards
    except RefusedError:
        return None
