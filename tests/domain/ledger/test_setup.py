from __future__ import annotations

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs.model import Layers
from tests.domain.ledger.setups import make_card, make_model, make_setup


def test_what_is_not_given_is_the_engines_default_and_noted() -> None:
    found = make_setup(version="0.11.0", card=make_card(79.2, "H100 80GB"))
    assert (found.max_num_seqs, found.max_num_batched_tokens, found.utilization) == (1024, 8192, 0.90)
    for name in ("max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "max_model_len"):
        assert any(note.startswith(name) for note in found.assumptions)


def test_what_is_given_is_not_noted() -> None:
    found = make_setup(
        max_num_seqs=8,
        max_num_batched_tokens=2048,
        utilization=0.8,
        max_model_len=4096,
        tensor_parallel=1,
        enforce_eager=False,
    )
    assert found.assumptions == ()


def test_a_length_beyond_the_models_own_limit_is_told_apart_from_one_that_a_tune_may_have() -> None:
    assert make_setup(max_model_len=200_000).length_is_beyond_model
    assert not make_setup(max_model_len=131_072).length_is_beyond_model
    assert not make_setup(make_model(length_is_certain=False), max_model_len=200_000).length_is_beyond_model


def test_no_more_requests_than_tokens_a_step_are_taken() -> None:
    assert make_setup(max_num_batched_tokens=128).max_num_seqs == 128
    assert make_setup(max_num_batched_tokens=4096).max_num_seqs == 256


def test_ranks_must_divide_the_heads() -> None:
    with pytest.raises(RefusedError) as refused:
        make_setup(tensor_parallel=3)
    assert refused.value.fields == {"tensor_parallel": "one of 1, 2, 4, 8, 16, 32"}


def test_ranks_and_key_value_heads_must_divide_one_another() -> None:
    model = make_model(num_attention_heads=24, layers=(Layers("full", 32, kv_heads=8, head_dim=128),))
    with pytest.raises(RefusedError) as refused:
        make_setup(model, tensor_parallel=12)
    assert "8 key-value heads" in refused.value.fields["tensor_parallel"]


def test_stages_need_a_layer_each() -> None:
    with pytest.raises(RefusedError) as refused:
        make_setup(pipeline_parallel=33)
    assert "pipeline_parallel" in refused.value.fields


def test_a_draft_adds_its_layers() -> None:
    draft = Layers("full", 1, kv_heads=8, head_dim=128)
    found = make_setup(make_model(draft_layers=(draft,)), speculative="mtp 3")
    assert found.draft is not None
    assert found.draft.tokens == 3
    assert draft in found.layers


def test_an_unknown_draft_is_one_more_layer() -> None:
    found = make_setup(speculative="eagle3")
    assert sum(layer.count for layer in found.layers) == 33
    assert any("eagle3" in note for note in found.assumptions)


def test_looking_words_up_in_the_prompt_adds_no_layer() -> None:
    assert make_setup(speculative="ngram 4").layers == make_setup().layers


def test_images_are_profiled_only_where_the_model_takes_them() -> None:
    assert make_setup().multimodal_tokens == 0
    assert make_setup(make_model(tower_parameters=600_000_000)).multimodal_tokens > 0
    assert make_setup(make_model(tower_parameters=600_000_000), multimodal=False).multimodal_tokens == 0
    assert make_setup(multimodal="53248 encoder tokens").multimodal_tokens == 53248
