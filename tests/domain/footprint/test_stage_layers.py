"""Which layers lie on which stage of a pipeline, and how heavy they are: dense first layers, embedding and head."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.footprint import stage_layers, weights
from controlplane.domain.footprint.weights import WeightShare
from controlplane.domain.ledger import budget as budgeting
from controlplane.domain.specs import architecture, known_models, precision
from controlplane.domain.specs.model import LayerRun, ModelFacts
from tests.domain.ledger.setups import make_card, make_model, make_setup

SOME = [
    "deepseek-ai/DeepSeek-V3",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-Next-80B-A3B",
    "openai/gpt-oss-120b",
    "google/gemma-3-27b",
]


def find(name: str) -> ModelFacts:
    model = known_models.find(name)
    assert model is not None
    return model


def shares(model: ModelFacts, stages: int, **given_: Any) -> tuple[WeightShare, ...]:
    return weights.shares(model, precision.parse(None, None, None, model), pipeline_parallel=stages, **given_)


def test_the_first_layers_of_deepseek_hold_no_experts() -> None:
    runs = find("deepseek-ai/DeepSeek-V3").layer_runs
    assert [(run.count, run.routed_params > 0) for run in runs] == [(3, False), (58, True)]
    assert runs[0].other_params > 2 * runs[1].other_params  # one wide feed-forward, against a narrow shared expert


def test_the_stage_with_most_layers_is_not_the_heaviest_of_deepseek() -> None:
    """61 layers in two: 3 dense ones and 28 with experts, then 30 with experts. By layers alone the first would hold
    31 / 61 of the experts; it holds 28 / 58."""
    model = find("deepseek-ai/DeepSeek-V3")
    first, last = shares(model, 2)
    assert (first.layers, last.layers) == (31, 30)
    assert first.experts_bytes / last.experts_bytes == pytest.approx(28 / 30)
    assert last.loaded_bytes > 1.05 * first.loaded_bytes
    kinds = precision.parse(None, None, None, model)
    assert weights.share(model, kinds, pipeline_parallel=2) == last


def test_a_short_description_tells_of_dense_first_layers_too() -> None:
    described = architecture.read(
        {
            "total_params": 671_026_419_200, "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
            "intermediate_size": 18432, "vocab_size": 129280, "attention": "mla", "kv_lora_rank": 512,
            "qk_rope_head_dim": 64, "num_experts": 256, "experts_per_tok": 8, "moe_intermediate_size": 2048,
            "first_k_dense": 3,
        }
    )  # fmt: skip
    table = find("deepseek-ai/DeepSeek-V3")
    for stages in (2, 4, 8):
        ours, theirs = stage_layers.of(described, stages), stage_layers.of(table, stages)
        assert [one.experts_share for one in ours] == pytest.approx([one.experts_share for one in theirs])


def test_embedding_and_head_lie_at_the_ends() -> None:
    model = find("Qwen/Qwen3-8B")
    table = model.embedding_parameters // 2 * 2
    first, *middle, last = shares(model, 7)
    assert [first.embedding_bytes, last.embedding_bytes] == [table, table]
    assert {one.embedding_bytes for one in middle} == {0}
    assert [one.layers for one in (first, *middle, last)] == [5, 5, 5, 5, 5, 6, 5]
    assert [one.last for one in (first, last)] == [False, True]


def test_a_tied_embedding_lies_at_both_ends() -> None:
    model = find("Qwen/Qwen3-4B")
    first, last = shares(model, 2)
    assert first.embedding_bytes == last.embedding_bytes == 2 * model.embedding_parameters


def test_drafts_lie_on_the_last_stage() -> None:
    model = find("deepseek-ai/DeepSeek-V3")
    first, last = weights.shares(model, precision.parse(None, None, None, model), pipeline_parallel=2, own_draft=True)
    assert (first.draft_bytes, last.draft_bytes > 0) == (0, True)


def test_a_layer_more_in_the_middle_can_weigh_less_than_the_ends() -> None:
    """Qwen3 8B in seven: the sixth stage has 6 layers, but the last one the head, which weighs more than 3 layers."""
    setup = make_setup(find("Qwen/Qwen3-8B"), pipeline_parallel=7, card=make_card(), max_model_len=8192)
    found = budgeting.work_out(setup)
    assert found.weights.last
    assert found.weights.layers == 5
    assert found.weights_bytes < found.weights.loaded_bytes * 1.001


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 5])
def test_stages_hold_all_of_the_model_and_nothing_twice(name: str, stages: int) -> None:
    model = find(name)
    whole = shares(model, 1)[0]
    parts = shares(model, stages)
    for field in ("experts_bytes", "rest_bytes"):
        assert sum(getattr(one, field) for one in parts) == pytest.approx(getattr(whole, field), rel=1e-6)
    ends = 2 if model.tie_word_embeddings and stages > 1 else 1
    assert sum(one.embedding_bytes for one in parts) == pytest.approx(ends * whole.embedding_bytes, abs=2)


@pytest.mark.parametrize("name", known_models.names())
def test_the_order_of_layers_is_known_of_every_model_of_the_table(name: str) -> None:
    model = find(name)
    assert sum(run.count for run in model.layer_runs) == model.num_hidden_layers
    routed = sum(run.count * run.routed_params for run in model.layer_runs)
    assert routed == (model.experts.routed_params if model.experts else 0)


any_runs = st.builds(LayerRun, st.integers(1, 40), st.integers(0, 10**9), st.integers(1, 10**9))


@given(st.lists(any_runs, min_size=1, max_size=5), st.integers(1, 16))
def test_shares_add_up_to_one(runs: list[LayerRun], stages: int) -> None:
    model = make_model(num_hidden_layers=sum(run.count for run in runs), layer_runs=tuple(runs))
    found = stage_layers.of(model, stages)
    assert sum(one.rest_share for one in found) == pytest.approx(1)
    assert sum(one.experts_share for one in found) == pytest.approx(1)
    assert sum(one.layers for one in found) == model.num_hidden_layers
