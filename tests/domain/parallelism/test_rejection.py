"""Splits that drop out, each for its own reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.footprint import engine_rules
from controlplane.domain.parallelism import ranking, rejection
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.parallelism.split import Split
from controlplane.domain.specs import known_models
from tests.domain.ledger.setups import make_model
from tests.domain.parallelism.questions import (
    make_hardware,
    make_huge,
    make_large,
    make_mixture,
    make_question,
    make_small,
)


def found(split: Split, rejected: tuple[Rejection, ...]) -> Rejection:
    return next(one for one in rejected if one.split == split)


def test_heads_that_are_not_divided_are_named() -> None:
    wrong = rejection.by_shape(Split(3), make_large(), make_hardware())
    assert wrong is not None
    assert (wrong.code, wrong.reason) == ("heads", "TP 3 does not divide the 64 attention heads of this model.")


def test_key_value_heads_count_too() -> None:
    wrong = rejection.by_shape(Split(6), make_model(num_attention_heads=48), make_hardware())
    assert wrong is not None
    assert wrong.code == "heads"
    assert "8 key-value heads" in wrong.reason


def test_tensor_parallelism_stays_in_a_node() -> None:
    wrong = rejection.by_shape(Split(16), make_huge(), make_hardware(nodes=2))
    assert wrong is not None
    assert wrong.code == "across_nodes"


def test_a_rack_with_one_fabric_is_one_node_to_tensor_parallelism() -> None:
    assert rejection.by_shape(Split(8), make_huge(), make_hardware("GB200", cards_per_node=4, nodes=2)) is None


def test_tensor_parallelism_does_not_leave_pairs_joined_by_nvlink() -> None:
    pairs = make_hardware("H100-PCIe", link_group=2)
    assert rejection.by_shape(Split(2), make_large(), pairs) is None
    wrong = rejection.by_shape(Split(4), make_large(), pairs)
    assert wrong is not None
    assert wrong.code == "no_link"
    assert "NVLink joins 2 cards" in wrong.reason


def test_cards_with_pcie_alone_may_share_a_layer() -> None:
    assert rejection.by_shape(Split(4), make_large(), make_hardware("L40S")) is None


def test_experts_are_dealt_out_evenly() -> None:
    wrong = rejection.by_shape(Split(3, experts=True), make_model(experts=make_mixture().experts), make_hardware())
    assert wrong is not None
    mixture = make_mixture()
    assert mixture.experts is not None
    odd = rejection.by_shape(Split(1, 1, 3, True), mixture, make_hardware())
    assert odd is not None
    assert odd.reason == "64 experts can't be dealt out evenly to 3 ranks."


def test_more_stages_than_layers_can_not_be() -> None:
    wrong = rejection.by_shape(Split(1, 8), make_model(num_hidden_layers=4), make_hardware())
    assert wrong is not None
    assert wrong.code == "layers"


def test_what_does_not_fit_says_the_sum_that_fails() -> None:
    rejected = ranking.rank(make_question(make_large())).rejected
    wrong = found(Split(1), rejected)
    assert wrong.code == "memory"
    assert "GiB of weights" in wrong.reason


def test_a_pipeline_is_needless_where_one_card_holds_the_model() -> None:
    wrong = found(Split(2, 2), ranking.rank(make_question(make_small())).rejected)
    assert wrong.code == "needless_pipeline"
    assert wrong.reason.startswith("One card holds the whole model")


def test_a_pipeline_is_no_deeper_than_needed() -> None:
    ranked = ranking.rank(make_question(make_huge(), hardware=make_hardware(nodes=4), max_model_len=4096))
    assert found(Split(8, 3), ranked.rejected).code == "needless_pipeline"
    assert ranked.best is not None
    assert ranked.best.split == Split(8, 2)


def test_over_pcie_a_pipeline_stays_a_candidate() -> None:
    ranked = ranking.rank(make_question(make_large(), hardware=make_hardware("L40S")))
    assert Split(2, 2) in [one.split for one in ranked.candidates]


@pytest.mark.parametrize(("card", "quantization"), [("V100-32GB", "fp8"), ("T4", "bf16"), ("P100-16GB", "int4")])
def test_a_card_that_can_not_calculate_in_the_precision_is_refused_with_why(card: str, quantization: str) -> None:
    question = make_question(make_small(), hardware=make_hardware(card), quantization=quantization)
    ranked = ranking.rank(question)
    assert ranked.candidates == ()
    assert {one.code for one in ranked.rejected} == {"precision"}


def test_a_length_that_was_not_given_is_shortened_but_has_to_hold_a_mean_request() -> None:
    hardware = make_hardware("A10", cards_per_node=1)
    short = ranking.rank(make_question(make_small(), hardware=hardware, max_model_len=None, input_tokens=2000))
    assert short.best is not None
    assert short.best.ledger.setup.max_model_len < 131072
    long = ranking.rank(make_question(make_small(), hardware=hardware, max_model_len=None, input_tokens=100_000))
    assert long.candidates == ()
    assert "A mean request has 100300 tokens" in long.sentence


def test_experts_in_blocks_that_ranks_would_cut_drop_out_and_whole_ones_stay() -> None:
    model = known_models.find("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8")
    assert model is not None
    ranked = ranking.rank(replace(make_question(model), rules=engine_rules.rules_for("0.12.0")))
    wrong = found(Split(8), ranked.rejected)
    assert wrong.code == "widths"
    assert "1536 wide experts over 8 ranks are 192 each" in wrong.reason
    assert Split(8, experts=True) in [one.split for one in ranked.candidates]
