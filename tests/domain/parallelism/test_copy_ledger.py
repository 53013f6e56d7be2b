"""The ledger of a card when attention is data parallel and experts are shared."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.parallelism import copy_ledger
from controlplane.domain.parallelism.split import Split
from controlplane.domain.specs.weight_parts import WeightParts
from tests.domain.parallelism.questions import make_mixture, make_question, make_small

GIB = 2**30


def test_a_group_holds_its_share_of_experts_and_all_the_rest() -> None:
    model = make_mixture()
    assert model.experts is not None
    seen = copy_ledger.seen_by_one_group(model, 4)
    assert seen.experts is not None
    assert seen.experts.routed_params == model.experts.routed_params // 4
    rest = model.parameters - model.experts.routed_params
    assert seen.parameters - seen.experts.routed_params == rest


def test_a_dense_model_has_nothing_to_share() -> None:
    assert copy_ledger.seen_by_one_group(make_small(), 4) == make_small()


def test_bytes_known_from_files_are_shared_too() -> None:
    parts = WeightParts(routed_experts_bytes=800, embedding_bytes=10, rest_bytes=100)
    seen = copy_ledger.seen_by_one_group(replace(make_mixture(), weight_parts=parts, weight_bytes=910), 4)
    assert seen.weight_bytes == 310


def test_data_parallel_attention_keeps_whole_attention_and_a_latent_cache_of_its_own() -> None:
    question = make_question(make_mixture())
    tensor = copy_ledger.of(question, Split(4))
    attention = copy_ledger.of(question, Split(1, 1, 4, True))
    assert attention.budget.weights_bytes > tensor.budget.weights_bytes
    assert attention.kv_bytes_per_token == tensor.kv_bytes_per_token
    assert (attention.concurrency(1000) or 0) * 4 > 3 * (tensor.concurrency(1000) or 0)


def test_buffers_of_collectives_are_held_back_where_they_count() -> None:
    question = make_question(make_mixture())
    attention = copy_ledger.of(question, Split(1, 1, 4, True))
    assert attention.budget.reserve_bytes > 0


@pytest.mark.parametrize("tensor", [1, 2, 4])
def test_the_settings_of_the_question_stay(tensor: int) -> None:
    ledger = copy_ledger.of(make_question(max_num_seqs=64, utilization=0.8), Split(tensor))
    assert (ledger.setup.max_num_seqs, ledger.setup.utilization) == (64, 0.8)
    assert ledger.setup.tensor_parallel == tensor
