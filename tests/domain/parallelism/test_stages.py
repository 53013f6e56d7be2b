"""Memory of each stage of a pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.footprint import stage_layers
from controlplane.domain.parallelism import copy_ledger, stages
from controlplane.domain.parallelism.split import Split
from controlplane.domain.specs import known_models
from controlplane.domain.specs.model import ModelFacts
from tests.domain.parallelism.questions import make_large, make_question


def make_llama() -> ModelFacts:
    """A model whose embedding and head are known."""
    found = known_models.find("Llama-3.1-70B-Instruct")
    assert found is not None
    return found


def sizes(stage: stages.Stage) -> dict[str, int]:
    return {part.name: part.size_bytes for part in stage.parts}


@pytest.mark.parametrize(
    ("layers", "count", "dealt"),
    [(80, 4, (20, 20, 20, 20)), (61, 4, (15, 15, 16, 15)), (5, 3, (2, 2, 1)), (6, 4, (1, 2, 2, 1)), (3, 1, (3,))],
)
def test_layers_are_dealt_out_as_the_engine_does(layers: int, count: int, dealt: tuple[int, ...]) -> None:
    assert stage_layers.dealt(layers, count) == dealt


@given(st.integers(1, 200), st.integers(1, 32))
def test_no_layer_is_lost(layers: int, count: int) -> None:
    found = stage_layers.dealt(layers, count)
    assert sum(found) == layers and max(found) - min(found) <= 1


def test_one_stage_is_the_ledger() -> None:
    ledger = copy_ledger.of(make_question(make_large()), Split(4))
    (stage,) = stages.of(ledger, 4)
    assert stage.parts == ledger.budget.parts and stage.cards == 4 and stage.fullest


def test_ends_hold_what_lies_there_and_neighbours_that_are_alike_are_one() -> None:
    ledger = copy_ledger.of(make_question(make_llama()), Split(1, 4))
    first, middle, last = stages.of(ledger, 1)
    assert (first.embedding, first.head, last.embedding, last.head) == (True, False, False, True)
    assert (middle.first, middle.last, middle.first_layer, middle.last_layer) == (2, 3, 21, 60)
    assert sizes(middle)["weights"] < sizes(first)["weights"] == ledger.budget.weights_bytes
    assert sizes(middle)["kv_cache"] == sizes(first)["kv_cache"]
    for stage in (first, middle, last):
        assert sum(sizes(stage).values()) == ledger.budget.total_bytes


def test_sampling_is_done_on_the_last_stage_alone() -> None:
    question = make_question(make_large())
    question = replace(question, wishes=replace(question.wishes, max_num_seqs=1024, max_num_batched_tokens=2048))
    ledger = copy_ledger.of(question, Split(1, 4))
    first, middle, last = stages.of(ledger, 1)
    assert sizes(last)["activation"] == ledger.budget.activation_bytes > sizes(first)["activation"]
    assert last.fullest and not middle.fullest


def test_uneven_layers_make_uneven_stages() -> None:
    model = make_large()
    ledger = copy_ledger.of(make_question(model), Split(1, 3))
    first, second, last = stages.of(ledger, 1)
    assert (first.layers, second.layers, last.layers) == (27, 27, 26)
    assert sizes(last)["kv_cache"] == pytest.approx(sizes(first)["kv_cache"] * 26 / 27, rel=1e-6)
    assert (first.last_layer, second.first_layer, last.last_layer) == (27, 28, 80)
