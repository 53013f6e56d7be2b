"""What a pasted config.json keeps for a request, where its fields look like another family's."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import config_json, known_models
from controlplane.domain.specs.model import ModelFacts

LATENT = {
    "hidden_size": 2560, "intermediate_size": 6400, "num_hidden_layers": 8, "num_attention_heads": 40,
    "num_key_value_heads": 40, "vocab_size": 73448, "kv_lora_rank": 256, "q_lora_rank": 768, "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32, "v_head_dim": 64, "tie_word_embeddings": True,
}  # fmt: skip
HYBRIDS = [6, 12, 18, 24, 30, 36, 42, 47, 51]
ZAMBA_2 = {
    "model_type": "zamba2", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 54,
    "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000, "mamba_d_state": 64, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_ngroups": 1, "n_mamba_heads": 80, "num_mem_blocks": 2, "adapter_rank": 128,
    "use_shared_attention_adapter": False, "hybrid_layer_ids": HYBRIDS,
    "max_position_embeddings": 4096, "tie_word_embeddings": True,
}  # fmt: skip


def make_latent(model_type: str, **more: Any) -> dict[str, Any]:
    return {**LATENT, "model_type": model_type, **more}


def kept(facts: ModelFacts) -> dict[str, int]:
    return {layer.kind: layer.count for layer in facts.layers}


@pytest.mark.parametrize(
    "model_type", ["deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "axk1", "pangu_ultra_moe", "sarvam_mla"]
)
def test_types_that_the_engine_computes_in_latents_keep_latents(model_type: str) -> None:
    facts = config_json.read(make_latent(model_type))
    assert kept(facts) == {"mla": 8}
    assert facts.layers[0].latent_elements == 288


def test_minicpm_3_projects_through_latents_but_keeps_every_head() -> None:
    (layer,) = config_json.read(make_latent("minicpm3")).layers
    assert (layer.kind, layer.count, layer.kv_heads, layer.head_dim, layer.value_head_dim) == ("full", 8, 40, 96, None)
    named = known_models.find("openbmb/MiniCPM3-4B")
    assert named is not None and kept(named) == {"full": 62}


def test_ling_2_5_keeps_a_state_in_all_but_the_last_layer_of_a_group() -> None:
    facts = config_json.read(make_latent("bailing_hybrid", layer_group_size=4, head_dim=64))
    assert kept(facts) == {"linear": 6, "mla": 2}
    state = next(layer.state for layer in facts.layers if layer.kind == "linear")
    assert state is not None and state.ssm_elements == 40 * 64 * 64


def test_a_deepseek_without_latents_keeps_every_head() -> None:
    nothing = {"kv_lora_rank": None, "q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0}
    config = make_latent("deepseek_v2", **nothing, use_mla=False)
    facts = config_json.read({"model_type": "deepseek_vl_v2", "language_config": config})
    assert kept(facts) == {"full": 8}
    assert facts.head_dim == 64


@pytest.mark.parametrize(
    "config",
    [
        make_latent("dots3_note"),
        make_latent("longcat_flash_ngram"),
        make_latent("bailing_hybrid", layer_group_size=4, architectures=["BailingMoeV3ForCausalLM"]),
    ],
)
def test_a_cache_that_is_not_summed_is_refused_though_its_fields_look_known(config: dict[str, Any]) -> None:
    with pytest.raises(RefusedError) as refused:
        config_json.read(config)
    assert list(refused.value.fields) == ["model_type"]


def test_zambas_shared_blocks_are_stored_once_and_keep_a_cache_each_time_they_run() -> None:
    facts = config_json.read(ZAMBA_2)
    assert facts.parameters == 2_662_214_560
    assert kept(facts) == {"mamba2": 54, "full": 9}
    attention = next(layer for layer in facts.layers if layer.kind == "full")
    assert (attention.kv_heads, attention.head_dim) == (32, 160)


def test_zambas_layers_may_be_listed_by_kind() -> None:
    kinds = ["hybrid" if layer in HYBRIDS else "mamba" for layer in range(54)]
    listed = config_json.read({**ZAMBA_2, "hybrid_layer_ids": None, "layers_block_type": kinds})
    assert listed == config_json.read(ZAMBA_2)


def test_one_more_run_of_a_shared_block_costs_its_own_adapters_alone() -> None:
    more = config_json.read({**ZAMBA_2, "hybrid_layer_ids": [*HYBRIDS, 53]})
    own = 2560 * 2560 + 128 * (2560 + 2 * 10240)
    assert more.parameters - config_json.read(ZAMBA_2).parameters == own


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hybrid_layer_ids": None}, "hybrid_layer_ids"),
        ({"hybrid_layer_ids": [54]}, "hybrid_layer_ids"),
        ({"layers_block_type": ["mamba"] * 53}, "layers_block_type"),
        ({"layers_block_type": ["what"] * 54}, "layers_block_type"),
        ({"n_mamba_heads": 7}, "mamba_n_heads"),
    ],
)
def test_a_zamba_that_cannot_be_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        config_json.read({**ZAMBA_2, **changes})
    assert list(refused.value.fields) == [field]


@pytest.mark.parametrize(
    ("model_type", "said"),
    [
        ("bart", "up to 0.10.2, and needs the package bart-plugin since"), ("florence2", "bart-plugin"),
        ("donut", "up to 0.10.2, and not since"), ("t5", "in no version"), ("nemotron_parse", "vLLM 0.32 serves it"),
    ],
)  # fmt: skip
def test_a_decoder_beside_an_encoder_is_refused_with_what_the_engine_serves_of_it(model_type: str, said: str) -> None:
    with pytest.raises(RefusedError) as refused:
        config_json.read({"model_type": model_type, "is_encoder_decoder": True, "d_model": 512})
    assert said in refused.value.message
    assert list(refused.value.fields) == ["model_type"]


def test_an_unknown_kind_of_them_is_refused_too() -> None:
    with pytest.raises(RefusedError) as refused:
        config_json.read({"model_type": "foo", "is_encoder_decoder": True, "d_model": 512})
    assert "Whisper" in refused.value.message
    assert list(refused.value.fields) == ["is_encoder_decoder"]


def test_a_zamba_by_name_keeps_a_cache_each_time_a_shared_block_runs() -> None:
    facts = known_models.find("Zyphra/Zamba2-7B")
    assert facts is not None and kept(facts) == {"mamba2": 81, "full": 13}
