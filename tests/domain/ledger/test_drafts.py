"""What speculation adds: layers in the cache, and weights."""

from __future__ import annotations

import pytest

from controlplane.domain import estimate
from controlplane.domain.ledger import budget
from controlplane.domain.specs import known_models, precision
from controlplane.domain.specs.model import Layers
from tests.domain.ledger.setups import make_model, make_setup

GIB = 2**30


def make_case(**fields: object) -> dict[str, object]:
    return {"model": "meta-llama/Llama-3.3-70B-Instruct", "gpu": "H100 80GB", "num_gpus": 4, "tensor_parallel": 4,
            "vllm_version": "0.12.0", "max_model_len": 32768, **fields}  # fmt: skip


def weights_gib(**fields: object) -> float:
    found = estimate.estimate(make_case(**fields))["weights_gib"]
    assert isinstance(found, float)
    return found


def test_a_named_draft_model_brings_its_own_layers_and_weights() -> None:
    found = estimate.estimate(make_case(speculative="meta-llama/Llama-3.2-1B-Instruct, 5 tokens"))
    assert found["kv_bytes_per_token"] == 81_920 + 16 * 2 * 64 * 2 * 2
    small = known_models.find("meta-llama/Llama-3.2-1B-Instruct")
    assert small is not None
    whole = precision.parse(None, None, None, small).weight_bytes(small)
    assert found["weights_gib"] == pytest.approx(weights_gib() + whole / 4 / GIB, abs=0.001)
    notes = found["assumptions"]
    assert isinstance(notes, list)
    assert "The draft is meta-llama/llama-3.2-1b-instruct: its layers and 2.30 GiB of weights were added." in notes


def test_the_numbers_of_a_models_name_are_no_tokens() -> None:
    draft = make_setup(speculative="draft_model Qwen/Qwen2.5-0.5B-Instruct 4").draft
    assert draft is not None
    assert draft.tokens == 4
    assert sum(layer.count for layer in draft.layers) == 24
    unsaid = make_setup(speculative="meta-llama/Llama-3.2-1B-Instruct").draft
    assert unsaid is not None
    assert unsaid.tokens == 1


def test_a_layer_that_goes_on_from_hidden_vectors_has_weights_too() -> None:
    plain, eagle, third = weights_gib(), weights_gib(speculative="eagle 3"), weights_gib(speculative="eagle3 3")
    attention = 2 * 8192 * 8192 + 2 * 8192 * 1024
    layer = attention + 3 * 8192 * 28672
    assert eagle - plain == pytest.approx((layer + 2 * 8192 * 8192) * 2 / 4 / GIB, abs=0.001)
    assert third - plain == pytest.approx((layer + 3 * 8192 * 8192 + 32_000 * 8192) * 2 / 4 / GIB, abs=0.001)


def test_heads_named_after_their_base_are_no_second_model() -> None:
    named = make_setup(speculative="eagle3 yuhuili/EAGLE3-LLaMA3.1-Instruct-8B 3").draft
    assert named is not None
    assert (named.tokens, sum(layer.count for layer in named.layers), named.eagle) == (3, 1, True)


def test_own_draft_layers_are_loaded_where_they_are_used_alone() -> None:
    own = make_model(draft_layers=(Layers("full", 1, kv_heads=8, head_dim=128),), draft_parameters=250_000_000)
    loaded = {
        text: budget.work_out(make_setup(own, speculative=text)).weights.draft_bytes
        for text in ("mtp 1", "eagle 2", "ngram 4", None)
    }
    assert loaded == {"mtp 1": 500_000_000, "eagle 2": 500_000_000, "ngram 4": 0, None: 0}


def test_an_encoder_takes_no_draft_and_says_so() -> None:
    facts = known_models.find("BAAI/bge-m3")
    setup = make_setup(facts, speculative="meta-llama/Llama-3.2-1B-Instruct, 5 tokens")
    assert setup.draft is None
    assert any("takes no draft" in note for note in setup.assumptions)
