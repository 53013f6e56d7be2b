"""Plans for a model whose speed is predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.capacity import sizing, trace
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs.model import ModelFacts
from tests.domain.capacity.plans import make_demand
from tests.domain.capacity.test_trace import rows_of
from tests.domain.parallelism.questions import (
    make_hardware,
    make_huge,
    make_large,
    make_mixture,
    make_question,
    make_small,
)

MODELS = st.sampled_from([make_small(), make_large(), make_mixture()])
CARDS = st.sampled_from(["H100-SXM", "H100-PCIe", "L40S", "MI300X"])


def test_the_fewest_cards_come_first_and_the_sums_are_shown() -> None:
    found = sizing.size(make_question(make_large()), make_demand(40, 15))
    cards = [option.plan.cards for option in found.options]
    assert cards == sorted(cards)
    assert found.best is not None
    assert found.best.plan.cost_per_month is not None
    assert [step.code for step in found.best.plan.steps][:3] == ["replica", "at_peak", "on_average"]
    assert "Predicted for TP" in found.best.plan.steps[0].working
    assert f"{found.best.plan.cards} H100-SXM" in found.sentence


def test_a_stricter_objective_takes_more_cards() -> None:
    loose = sizing.size(make_question(make_large(), tpot_ms=100, ttft_ms=5000), make_demand(40))
    strict = sizing.size(make_question(make_large(), tpot_ms=25, ttft_ms=1000), make_demand(40))
    assert loose.best is not None
    assert strict.best is not None
    assert strict.best.plan.cards > loose.best.plan.cards


def test_an_objective_that_nothing_meets_is_said() -> None:
    found = sizing.size(make_question(make_large(), tpot_ms=1), make_demand(40))
    assert found.best is None
    assert "does not run here within the objective" in found.sentence
    assert "Even one request at a time takes" in found.sentence
    assert {one.code for one in found.rejected} >= {"objective", "memory"}


def test_a_model_larger_than_a_node_is_planned_over_nodes() -> None:
    question = make_question(
        make_huge(), hardware=make_hardware(nodes=2), max_model_len=4096, tpot_ms=200, ttft_ms=9000
    )
    found = sizing.size(question, make_demand(2, 1))
    assert found.best is not None
    assert found.best.replica.nodes == 2
    assert found.best.plan.nodes == 2 * found.best.plan.replicas


def test_what_is_carried_is_what_was_planned() -> None:
    """The planned nodes carry the demand, and one node fewer than that does not, with the same care."""
    question = make_question(make_small())
    policy = Policy(survive_node_loss=False)
    planned = sizing.size(question, make_demand(400), policy)
    assert planned.best is not None
    nodes = planned.best.plan.nodes
    enough = sizing.carry(replace(question, hardware=make_hardware(nodes=nodes)), policy)
    short = sizing.carry(replace(question, hardware=make_hardware(nodes=nodes - 1)), policy)
    assert enough.carried is not None
    assert short.carried is not None
    assert enough.carried.peak_requests_per_s >= 400 > short.carried.peak_requests_per_s


def test_a_trace_is_planned_for() -> None:
    demand = trace.demand_of(rows_of("azure_2023_conv_first_half.csv"))
    found = sizing.size(make_question(make_small(), max_model_len=16384), demand)
    assert found.best is not None
    assert found.best.plan.utilization_at_mean is not None
    assert found.best.plan.utilization_at_mean <= 0.7
    assert any("times the mean" in reason for reason in found.best.plan.reasons)


def test_requests_longer_than_the_length_are_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        sizing.size(make_question(max_model_len=1024), make_demand(1, input_tokens=2000))
    assert set(caught.value.fields) == {"max_model_len"}


@given(st.floats(0.1, 2000), st.floats(1, 20), MODELS, CARDS)
@settings(max_examples=20, deadline=None)
def test_more_load_never_needs_fewer_cards(peak: float, factor: float, model: ModelFacts, card: str) -> None:
    question = make_question(model, hardware=make_hardware(card))
    few = sizing.size(question, make_demand(peak))
    many = sizing.size(question, make_demand(peak * factor))
    assert (few.best is None) == (many.best is None)
    if few.best is not None and many.best is not None:
        assert many.best.plan.cards >= few.best.plan.cards


@given(st.integers(1, 8), st.integers(1, 4), st.integers(0, 4), st.integers(0, 2), MODELS, CARDS)
@settings(max_examples=25, deadline=None)
def test_more_cards_never_carry_less(  # noqa: PLR0917
    cards: int, nodes: int, more_cards: int, more_nodes: int, model: ModelFacts, card: str
) -> None:
    few = sizing.carry(make_question(model, hardware=make_hardware(card, cards, nodes)))
    many = sizing.carry(make_question(model, hardware=make_hardware(card, cards + more_cards, nodes + more_nodes)))
    if few.carried is not None:
        assert many.carried is not None
        assert many.carried.peak_requests_per_s >= few.carried.peak_requests_per_s * 0.999
