"""Rankings by purpose: which split comes first, with which figures and reasons."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.parallelism import ranking, split
from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.parallelism.question import Purpose, Question
from controlplane.domain.parallelism.ranking import Ranking
from controlplane.domain.parallelism.split import Split
from controlplane.domain.specs.model import ModelFacts
from tests.domain.ledger.setups import make_dense
from tests.domain.parallelism.questions import (
    make_hardware,
    make_huge,
    make_large,
    make_mixture,
    make_question,
    make_small,
)


def best(question: Question) -> Candidate:
    found = ranking.rank(question).best
    assert found is not None
    return found


def of(found: Ranking, wanted: Split) -> Candidate:
    return next(one for one in found.candidates if one.split == wanted)


def test_data_parallel_comes_first_where_one_card_is_enough() -> None:
    first = best(make_question(make_small(), requests_per_s=10))
    assert (first.split, first.copies) == (Split(1), 8)
    assert first.communication_share == 0
    assert any("nothing has to be split" in reason for reason in first.reasons)


def test_small_interactive_batches_take_the_smallest_split_that_is_fast_enough() -> None:
    first = best(make_question(make_large(), requests_per_s=0.5))
    assert (first.split, first.cards_needed) == (Split(2), 2)


def test_a_larger_split_wins_where_the_smaller_takes_more_cards_for_the_load() -> None:
    """70B on two cards has so little cache that three such copies carry what one copy of four cards does."""
    found = ranking.rank(make_question(make_large(), requests_per_s=3.5))
    assert found.best is not None
    assert (found.best.split, found.best.cards_needed) == (Split(4), 4)
    smaller = of(found, Split(2))
    assert smaller.cards_needed is None or smaller.cards_needed > 4
    assert any("on the fewest cards, 4 of them" in reason for reason in found.best.reasons)


def test_a_closed_loop_of_requests_is_ranked_in_the_same_way() -> None:
    assert best(make_question(make_small(), concurrency=8)).split == Split(1)
    assert best(make_question(make_large(), concurrency=60)).split.tensor > 2


def test_a_strict_objective_takes_a_larger_split() -> None:
    first = best(make_question(make_large(), requests_per_s=1, ttft_ms=1000, tpot_ms=16))
    assert first.split.tensor == 8
    assert first.meets_objective


def test_offline_work_takes_a_larger_split_where_its_cache_pays() -> None:
    """70B on two cards of 80 GB leaves little cache: four cards a copy give more than twice the tokens."""
    found = ranking.rank(make_question(make_large(), purpose="offline"))
    assert found.best is not None
    assert found.best.split.tensor > 2
    assert of(found, found.best.split).most.output_tok_s > 1.5 * of(found, Split(2)).most.output_tok_s


def test_offline_work_stays_data_parallel_where_cache_is_no_matter() -> None:
    assert best(make_question(make_small(), purpose="offline")).split == Split(1)


def test_pipelines_go_over_nodes_and_tensor_parallelism_stays_inside() -> None:
    first = best(make_question(make_huge(), hardware=make_hardware(nodes=2), max_model_len=4096))
    assert first.split == Split(8, 2)
    assert first.layout.crossings == 1
    assert any("goes over the network between nodes" in reason for reason in first.reasons)


def test_a_mixture_of_experts_has_candidates_with_expert_parallelism() -> None:
    found = ranking.rank(make_question(make_mixture()))
    kinds = {(one.split.experts, one.split.attention_copies > 1) for one in found.candidates}
    assert kinds == {(False, False), (True, False), (True, True)}
    shared = next(one for one in found.candidates if one.split.attention_copies > 1)
    assert any("latent cache is not copied" in reason for reason in shared.reasons)


def test_a_dense_model_has_none() -> None:
    found = ranking.rank(make_question(make_small()))
    splits = [one.split for one in found.candidates] + [one.split for one in found.rejected]
    assert not any(one.experts for one in splits)


def test_nvlink_costs_less_communication_than_pcie() -> None:
    linked = of(ranking.rank(make_question(make_large(), hardware=make_hardware("A100-SXM-80GB"))), Split(4))
    bus = of(ranking.rank(make_question(make_large(), hardware=make_hardware("A100-PCIe-80GB"))), Split(4))
    assert 0 < linked.communication_share < bus.communication_share < 1
    assert any("over PCIe" in reason for reason in bus.reasons)


def test_a_known_bridge_speeds_a_pair_up() -> None:
    bare = make_question(make_large(), hardware=make_hardware("H100-PCIe", 2), concurrency=4)
    bridged = make_question(make_large(), hardware=make_hardware("H100-PCIe", 2, link_group=2), concurrency=4)
    slow, fast = (of(ranking.rank(question), Split(2)).at_load for question in (bare, bridged))
    assert fast.tpot_ms < slow.tpot_ms


def test_cost_follows_the_price_of_a_card_and_idle_cards_count() -> None:
    cheap = best(make_question(hardware=make_hardware(price_per_hour=1.0), requests_per_s=10))
    dear = best(make_question(hardware=make_hardware(price_per_hour=2.0), requests_per_s=10))
    assert cheap.cost_at_load is not None
    assert dear.cost_at_load == pytest.approx(2 * cheap.cost_at_load)
    # 8 cards at 1.00 an hour write 10 x 300 tokens a second: 8 / (3000 x 3600) x 10**6
    assert cheap.cost_at_load == pytest.approx(8 / (3000 * 3600) * 1e6, rel=0.02)
    assert cheap.cost_when_full is not None
    assert cheap.cost_when_full < cheap.cost_at_load


def test_a_load_beyond_everything_is_said_to_be() -> None:
    found = ranking.rank(make_question(make_large(), requests_per_s=10_000))
    assert found.best is not None
    assert found.best.saturated
    assert not found.best.meets_objective
    assert "comes nearest" in found.sentence


def test_nothing_that_fits_is_an_answer_too() -> None:
    found = ranking.rank(make_question(make_huge(), hardware=make_hardware("L4", 2)))
    assert found.best is None
    assert "does not run on 2 L4" in found.sentence
    assert "GiB" in found.sentence


def test_the_figures_of_a_candidate_agree() -> None:
    for one in ranking.rank(make_question(make_large(), requests_per_s=3)).candidates:
        assert one.at_load.requests_s == pytest.approx(3, rel=0.05)
        assert one.at_load.output_tok_s == pytest.approx(3 * 300, rel=0.05)
        assert one.carried is not None
        assert one.carried.requests_s <= one.most.requests_s * 1.0001
        assert one.carried.tpot_ms <= 50
        assert one.carried.ttft_ms <= 2000
        assert one.ledger.verdict.fits
        assert one.cards + one.layout.idle_cards == 8
        assert len(one.reasons) >= 4


def test_a_load_smaller_than_one_request_a_copy_leaves_copies_idle() -> None:
    by_rate = best(make_question(make_small(), requests_per_s=0.1))
    assert by_rate.at_load.requests_s == pytest.approx(0.1)
    assert by_rate.at_load.output_tok_s == pytest.approx(30)
    two = best(make_question(make_small(), concurrency=2))
    one = best(make_question(make_small(), concurrency=1))
    assert two.at_load.concurrency == pytest.approx(2)
    assert two.at_load.output_tok_s == pytest.approx(2 * one.at_load.output_tok_s)
    assert two.at_load.tpot_ms == pytest.approx(one.at_load.tpot_ms)


def test_a_small_load_needs_some_of_the_copies_and_that_is_said() -> None:
    first = best(make_question(make_small(), requests_per_s=10))
    assert first.copies_needed is not None
    assert first.carried is not None
    assert first.copies_needed < first.copies
    assert first.copies_needed * 0.85 * first.carried.requests_s / first.copies >= 10
    assert f"Copies that this load takes: {first.copies_needed} of 8." in first.reasons
    assert best(make_question(make_small())).copies_needed is None


def test_what_was_assumed_is_said() -> None:
    found = ranking.rank(make_question(hardware=make_hardware("H100-PCIe")))
    said = " ".join(found.assumptions)
    assert "No objective is given" in said
    assert "bridges join pairs" in said
    assert "typical rent" in said


def test_calibration_reaches_the_prediction() -> None:
    question = make_question(make_small(), requests_per_s=1)
    slower = Question(**{name: getattr(question, name) for name in question.__slots__} | {"factors": {"memory": 1.5}})
    assert best(slower).at_load.tpot_ms > 1.2 * best(question).at_load.tpot_ms


@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 3)),
    card=st.sampled_from(["H100-SXM", "H100-PCIe", "L40S", "A10", "GB200", "MI300X"]),
    purpose=st.sampled_from(["interactive", "offline"]),
    rate=st.one_of(st.none(), st.floats(0.01, 1000)),
    model=st.sampled_from([make_small(), make_large(), make_mixture(), make_huge()]),
)
@settings(max_examples=40, deadline=None)
def test_every_split_is_ranked_or_rejected_with_a_reason(
    shape: tuple[int, int], card: str, purpose: Purpose, rate: float | None, model: ModelFacts
) -> None:
    question = make_question(
        model,
        hardware=make_hardware(card, *shape),
        purpose=purpose,
        requests_per_s=rate,
        max_model_len=4096,
    )
    found = ranking.rank(question)
    looked_at = [one.split for one in found.candidates] + [one.split for one in found.rejected]
    assert len(looked_at) == len(set(looked_at))
    assert set(looked_at) == set(split.every(question.model, question.hardware))
    assert all(one.reason.endswith(".") for one in found.rejected)
    assert all(one.reasons for one in found.candidates)


@given(st.floats(0.1, 300), st.floats(1.01, 5))
@settings(max_examples=20, deadline=None)
def test_a_higher_load_is_never_answered_faster(rate: float, factor: float) -> None:
    low = of(ranking.rank(make_question(requests_per_s=rate)), Split(2))
    high = of(ranking.rank(make_question(requests_per_s=rate * factor)), Split(2))
    assert high.at_load.tpot_ms >= low.at_load.tpot_ms * 0.999


@pytest.mark.parametrize("purpose", ["interactive", "offline"])
@pytest.mark.parametrize("card", ["RTX-4090", "L40S"])
def test_over_pcie_copies_of_one_card_go_before_splits_that_gain_little(card: str, purpose: Purpose) -> None:
    hardware = make_hardware(card, 4)
    found = ranking.rank(make_question(make_small(), hardware=hardware, purpose=purpose, max_model_len=None))
    assert found.best is not None and (found.best.split, found.best.copies) == (Split(1), 4)


def test_over_pcie_a_split_is_taken_where_it_gains_plainly() -> None:
    """11B fills a card of 24 GB so that one card alone carries next to nothing; stages come after ranks."""
    hardware = make_hardware("RTX-4090", 4)
    found = ranking.rank(make_question(make_dense(11 * 10**9), hardware=hardware, purpose="offline"))
    assert found.best is not None and found.best.split.tensor > 1
