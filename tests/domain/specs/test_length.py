"""The longest request by a config.json, as vLLM derives it."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.footprint.engine_rules import rules_for
from controlplane.domain.ledger import setup
from controlplane.domain.ledger.setup import Setup, Wishes
from controlplane.domain.specs import config_json, known_models, precision
from controlplane.domain.specs.model import ModelFacts
from tests.domain.ledger.setups import make_card

WIDTHS = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def read(**fields: Any) -> ModelFacts:
    return config_json.read({**WIDTHS, **fields})


def start(model: ModelFacts, version: str, max_model_len: int | None = None) -> Setup:
    kinds = precision.parse(None, None, None, model)
    return setup.resolve(model, kinds, make_card(), rules_for(version), Wishes(max_model_len=max_model_len))


@pytest.mark.parametrize(
    "name", ["max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length",
             "max_seq_length", "seq_len", "model_max_length"]
)  # fmt: skip
def test_the_limit_is_read_under_every_name(name: str) -> None:
    assert read(**{name: 8192}).max_position_embeddings == 8192


def test_of_several_names_the_smallest_counts() -> None:
    assert read(max_position_embeddings=32768, seq_length=8192).max_position_embeddings == 8192


def test_the_models_own_word_goes_before_all_of_them() -> None:
    assert read(max_position_embeddings=8192, model_max_length=131072).max_position_embeddings == 131072


@pytest.mark.parametrize("name", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(
    ("scaling", "limit"),
    [
        ({"type": "linear", "factor": 4.0}, 16384),
        ({"rope_type": "linear", "factor": 2}, 8192),
        ({"type": "dynamic", "factor": 2.5}, 10240),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 4096),
        ({"rope_type": "longrope", "factor": 32, "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}, 4096),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 4096),
        ({"rope_type": "default", "rope_theta": 10000.0}, 4096),
        ({"type": "linear", "factor": None}, 4096),
        ({"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {"type": "default"}}, 32768),
    ],
)  # fmt: skip
def test_scaling_multiplies_the_limit_where_configs_leave_it_unscaled(
    name: str, scaling: dict[str, Any], limit: int
) -> None:
    assert read(max_position_embeddings=4096, **{name: scaling}).max_position_embeddings == limit


def test_gemma_3_states_the_scaled_limit() -> None:
    facts = read(model_type="gemma3_text", max_position_embeddings=131072, rope_scaling={"type": "linear", "factor": 8})
    assert facts.max_position_embeddings == 131072


def test_engines_before_0_32_scale_yarn_themselves() -> None:
    model = read(max_position_embeddings=40960, rope_scaling=YARN)
    assert start(model, "0.19.0").max_model_len == 131072
    assert start(model, "0.32.0").max_model_len == 40960


def test_under_yarn_a_long_length_is_no_breach_in_engines_that_scale_it() -> None:
    model = read(max_position_embeddings=40960, rope_scaling=YARN)
    assert start(model, "0.32.0", 131072).length_is_beyond_model
    assert not start(model, "0.19.0", 131072).length_is_beyond_model


def test_under_longrope_a_length_that_is_not_given_is_the_short_one_since_0_11_1() -> None:
    model = known_models.find("microsoft/Phi-4-mini-instruct")
    assert model is not None
    assert start(model, "0.11.1").max_model_len == 4096
    assert start(model, "0.10.2").max_model_len == 131072
    assert start(model, "0.11.1", 100_000).max_model_len == 100_000


@pytest.mark.parametrize(
    ("name", "limit", "own"),
    [
        ("Qwen/Qwen2.5-7B-Instruct", 32768, True), ("Qwen/Qwen2.5-7B", 131072, True),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", 32768, True), ("Qwen/Qwen2.5-7B-Instruct-1M", 32768, False),
        ("Qwen/Qwen3-8B-Base", 32768, True), ("Qwen/Qwen3-8B", 40960, True), ("Qwen/Qwen2.5-3B", 32768, True),
        ("acme/Llama-3-8B-Instruct-262k", 8192, False), ("mistralai/Mistral-Small-24B-Instruct-2501", 32768, True),
        ("mistralai/Devstral-Small-2-24B-Instruct-2512", 393216, True), ("tencent/Hunyuan-7B-Instruct", 32768, False),
    ],
)  # fmt: skip
def test_limits_are_of_the_name_itself_a_tune_may_have_another(name: str, limit: int, own: bool) -> None:
    facts = known_models.find(name)
    assert facts is not None
    assert (facts.max_position_embeddings, facts.length_is_certain) == (limit, own)


def test_a_config_without_any_limit_is_served_with_2048_tokens() -> None:
    assert start(read(), "0.19.0").max_model_len == 2048
    assert start(read(), "0.19.0", 30_000).max_model_len == 30_000


def test_positions_of_roberta_begin_at_two() -> None:
    facts = read(model_type="xlm-roberta", num_key_value_heads=32, max_position_embeddings=514)
    assert facts.max_position_embeddings == 512


@pytest.mark.parametrize(
    ("field", "scaling"),
    [
        ("rope_scaling.factor", {"type": "linear", "factor": -2}),
        ("rope_scaling.factor", {"type": "linear", "factor": "four"}),
        ("rope_scaling.factor", {"type": "dynamic", "factor": 1e30}),
        ("rope_scaling.original_max_position_embeddings", {**YARN, "original_max_position_embeddings": 0}),
        ("rope_scaling", "yarn"),
    ],
)
def test_scaling_that_cannot_be_is_refused_by_name(field: str, scaling: object) -> None:
    with pytest.raises(RefusedError) as refused:
        read(max_position_embeddings=4096, rope_scaling=scaling)
    assert field in refused.value.fields
