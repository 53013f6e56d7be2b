"""Files of another model than the config.json are refused or told: their sum would look exact and be wrong."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import known_models, precision, safetensors_index
from controlplane.domain.specs.model import ModelFacts

DENSE = "model.layers.{}.mlp.up_proj.weight"
EXPERT = "model.layers.{}.mlp.experts.0.up_proj.weight"


def find(name: str) -> ModelFacts:
    facts = known_models.find(name)
    assert facts is not None
    return facts


def make_index(total_bytes: int, layers: int, name: str = DENSE) -> dict[str, Any]:
    names = {name.format(layer): "model.safetensors" for layer in range(layers)}
    return {"metadata": {"total_size": total_bytes}, "weight_map": names}


def join(facts: ModelFacts, index: dict[str, Any]) -> ModelFacts:
    return safetensors_index.with_files(facts, safetensors_index.read(index))


def refused(facts: ModelFacts, index: dict[str, Any]) -> RefusedError:
    with pytest.raises(RefusedError) as error:
        join(facts, index)
    return error.value


def test_the_models_own_index_is_taken_to_the_byte() -> None:
    facts = join(find("meta-llama/Llama-3.1-8B"), make_index(16_060_522_496, 32))
    assert facts.weight_bytes == 16_060_522_496
    assert not any("check that both" in sentence for sentence in facts.assumptions)


def test_an_index_with_other_layers_is_of_another_model() -> None:
    error = refused(find("Qwen/Qwen3-8B"), make_index(16_060_522_496, 32))
    assert "32 layers" in error.message
    assert "36" in error.message
    assert "weight_map" in error.fields


def test_an_index_with_more_layers_than_a_draft_layer_explains_is_of_another_model() -> None:
    assert "weight_map" in refused(find("meta-llama/Llama-3.2-3B"), make_index(6_425_499_648, 32)).fields


def test_an_index_of_another_size_is_of_another_model() -> None:
    error = refused(find("Qwen/Qwen2.5-14B"), make_index(65_527_752_704, 48))
    assert "65.53 GB" in error.message
    assert "metadata.total_size" in error.fields


def test_an_index_with_experts_is_not_of_a_dense_model() -> None:
    facts = find("Qwen/Qwen3-8B")
    assert "experts" in refused(facts, make_index(2 * facts.parameters, 36, EXPERT)).message


def test_a_small_difference_is_told() -> None:
    facts = find("Qwen/Qwen3-8B")
    joined = join(facts, make_index(round(2.1 * facts.parameters), 36))
    assert any("check that both are of one model" in sentence for sentence in joined.assumptions)


@pytest.mark.parametrize(
    "name", ["Qwen/Qwen3-8B", "Qwen/Qwen2.5-0.5B", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"]
)
def test_what_is_left_open_is_no_difference(name: str) -> None:
    """Files in 32 bits, a second copy of a tied embedding, draft layers."""
    facts = find(name)
    kinds = precision.parse(None, None, None, facts)
    own, extra = kinds.weight_bytes(facts), kinds.part_bytes(facts).draft_bytes
    if facts.tie_word_embeddings:
        extra += 2 * facts.embedding_parameters
    sizes = [own, own + extra] if kinds.quantized else [own, own + extra, 2 * own]
    pattern = EXPERT if facts.experts else DENSE
    for size in sizes:
        joined = join(facts, make_index(size, facts.num_hidden_layers, pattern))
        assert not any("check that both" in sentence for sentence in joined.assumptions)


@pytest.mark.parametrize(
    ("name", "total_bytes"),
    [
        ("deepseek-ai/DeepSeek-V3", 688_586_727_753),
        ("openai/gpt-oss-20b", 13_761_264_768),
        ("openai/gpt-oss-120b", 65_248_815_744),
        ("mistralai/Mixtral-8x7B-v0.1", 93_405_585_408),
        ("Qwen/Qwen2.5-VL-7B-Instruct", 16_584_333_312),
        ("Qwen/Qwen3-0.6B", 1_503_300_328),
    ],
)
def test_published_totals_are_of_their_own_models(name: str, total_bytes: int) -> None:
    facts = find(name)
    pattern = EXPERT if facts.experts else DENSE
    joined = join(facts, make_index(total_bytes, facts.num_hidden_layers, pattern))
    assert joined.weight_bytes == total_bytes
    assert not any("check that both" in sentence for sentence in joined.assumptions)


def test_a_draft_layer_behind_the_last_one_is_no_difference() -> None:
    facts = find("deepseek-ai/DeepSeek-V3")
    kinds = precision.parse(None, None, None, facts)
    assert join(facts, make_index(kinds.weight_bytes(facts), 62, EXPERT)).weight_bytes


def test_files_of_a_quantized_model_are_not_those_of_the_plain_one() -> None:
    facts = find("Qwen/Qwen2.5-72B-Instruct-AWQ")
    assert "metadata.total_size" in refused(facts, make_index(2 * facts.parameters, 80)).fields
