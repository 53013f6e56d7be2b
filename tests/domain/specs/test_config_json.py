"""Facts from config.json: families, what is kept for a request, quantization, hostile input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import config_json, precision
from controlplane.domain.specs.model import ModelFacts
from tests.domain.specs.family_configs import FAMILIES

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
}  # fmt: skip
MLA: dict[str, Any] = {
    "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip


def make_config(**changes: Any) -> dict[str, Any]:
    return {**LLAMA, **changes}


def kinds(facts: ModelFacts) -> dict[str, int]:
    return {layers.kind: layers.count for layers in facts.layers}


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_are_those_that_the_published_code_builds(family: str) -> None:
    parameters, config = FAMILIES[family]
    assert config_json.read(config).parameters == pytest.approx(parameters, rel=2e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_known_and_its_parts_fit_into_the_whole(family: str) -> None:
    facts = config_json.read(FAMILIES[family][1])
    routed = facts.experts.routed_params if facts.experts else 0
    parts = facts.embedding_parameters + facts.tower_parameters + facts.attention_parameters + routed
    assert parts + facts.unquantized_parameters <= facts.parameters
    assert facts.unquantized_parameters <= facts.replicated_parameters
    assert facts.active_parameters <= facts.parameters
    assert not facts.assumptions


def test_one_two_and_many_kv_heads() -> None:
    for heads in (1, 8, 32):
        layers = config_json.read(make_config(num_key_value_heads=heads)).layers
        assert [(kind.kind, kind.count, kind.kv_heads, kind.head_dim) for kind in layers] == [("full", 32, heads, 128)]


def test_latents_are_kept_in_place_of_heads() -> None:
    facts = config_json.read(make_config(model_type="deepseek_v3", num_key_value_heads=32, **MLA))
    assert [(kind.kind, kind.latent_elements, kind.kv_heads) for kind in facts.layers] == [("mla", 576, 0)]


def test_sparse_attention_keeps_keys_of_its_indexer() -> None:
    config = make_config(model_type="deepseek_v32", num_key_value_heads=32, index_head_dim=128, index_n_heads=64, **MLA)
    assert config_json.read(config).layers[0].indexer_elements == 128


@pytest.mark.parametrize(
    ("fields", "full"),
    [
        ({}, 32),
        ({"index_topk_freq": 4}, 9),  # 0, 1, then every fourth from 5
        ({"index_topk_freq": 4, "index_skip_topk_offset": 3}, 10),  # 0, 1, 2, then every fourth from 6
        ({"indexer_types": ["full", "shared"] * 16}, 16),
    ],
)
def test_layers_may_share_another_ones_indexer(fields: dict[str, object], full: int) -> None:
    sparse = {"model_type": "glm_moe_dsa", "num_key_value_heads": 32, "index_head_dim": 128, "index_n_heads": 64, **MLA}
    layers = config_json.read(make_config(**{**sparse, **fields})).layers
    assert sum(kind.count for kind in layers if kind.indexer_elements) == full
    assert sum(kind.count for kind in layers) == 32


@pytest.mark.parametrize("types", [["full"] * 3, ["full", "half"] * 16])
def test_odd_indexer_types_are_refused(types: list[str]) -> None:
    sparse = {"model_type": "glm_moe_dsa", "num_key_value_heads": 32, "index_head_dim": 128, "index_n_heads": 64, **MLA}
    with pytest.raises(RefusedError) as refused:
        config_json.read(make_config(**{**sparse, "indexer_types": types}))
    assert "indexer_types" in refused.value.fields


def test_windows_by_a_list_and_by_a_pattern() -> None:
    listed = ["sliding_attention", "full_attention"] * 16
    assert kinds(config_json.read(make_config(layer_types=listed, sliding_window=128))) == {"sliding": 16, "full": 16}
    assert kinds(config_json.read(make_config(model_type="gemma3_text", sliding_window=512))) == {
        "sliding": 27,
        "full": 5,
    }
    assert kinds(config_json.read(make_config(sliding_window=4096))) == {"sliding": 32}
    assert kinds(config_json.read(make_config(sliding_window=None))) == {"full": 32}


def test_a_window_that_is_switched_off_or_longer_than_the_model_is_none() -> None:
    off = make_config(model_type="qwen2", sliding_window=4096, use_sliding_window=False)
    assert kinds(config_json.read(off)) == {"full": 32}
    assert kinds(config_json.read(make_config(sliding_window=262144))) == {"full": 32}


def test_chunks_with_every_fourth_layer_full() -> None:
    config = make_config(model_type="llama4_text", attention_chunk_size=8192)
    assert kinds(config_json.read(config)) == {"chunked": 24, "full": 8}


def test_a_null_window_inside_a_text_config_is_no_window() -> None:
    text = {"model_type": "mistral", "hidden_size": 5120, "sliding_window": None, "head_dim": 128}
    facts = config_json.read({"model_type": "mistral3", "text_config": text})
    assert kinds(facts) == {"full": 32}


def test_a_tower_is_counted_beside_the_text_model() -> None:
    vision = {"model_type": "clip_vision_model", "hidden_size": 1024, "intermediate_size": 4096,
    "num_hidden_layers": 24,
              "patch_size": 14, "image_size": 336}  # fmt: skip
    facts = config_json.read({"model_type": "llava", "text_config": LLAMA, "vision_config": vision})
    assert facts.tower_parameters == pytest.approx(303_507_456 + 1024 * 4096 + 4096 * 4096, rel=1e-3)
    assert facts.parameters - facts.tower_parameters == config_json.read(LLAMA).parameters


def test_an_encoder_keeps_nothing() -> None:
    bert = make_config(
        model_type="bert",
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        num_key_value_heads=None,
        vocab_size=30522,
        max_position_embeddings=512,
    )
    assert kinds(config_json.read(bert)) == {"encoder": 24}
    assert config_json.read(bert).parameters == pytest.approx(335_141_888, rel=0.005)


def test_tied_embeddings_are_counted_once() -> None:
    once, twice = (config_json.read(make_config(tie_word_embeddings=tied)) for tied in (True, False))
    assert twice.parameters - once.parameters == 128256 * 4096
    assert (once.embedding_parameters, twice.embedding_parameters) == (128256 * 4096, 2 * 128256 * 4096)


def test_draft_layers_stand_apart() -> None:
    with_draft = config_json.read(make_config(num_nextn_predict_layers=1))
    assert with_draft.parameters == config_json.read(LLAMA).parameters
    assert [layers.count for layers in with_draft.draft_layers] == [1]
    assert with_draft.draft_parameters > 2 * 4096 * 4096


ATTENTION = [f"model.layers.{layer}.self_attn.{one}_proj" for layer in range(32) for one in "qkvo"]


@pytest.mark.parametrize(
    ("quantization", "name"),
    [
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "int4_awq:g64"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8_w8a16"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8_block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "mxfp4"}, "mxfp4:experts"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "bnb_nf4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bnb_int8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["model.layers.0.self_attn*"]}, "nvfp4:mlp"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}, "int4_gptq"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 4, "type": "int", "group_size": 32}}}, "ignore": ["re:.*self_attn.*", "re:.*shared_experts.*"]},
         "int4:g32:experts"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 8, "type": "float"}, "input_activations": {"num_bits": 8}}}}, "fp8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 8, "type": "int"}, "input_activations": {"num_bits": 8}}}}, "int8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {
            "num_bits": 4, "type": "float", "group_size": 16}}}}, "nvfp4"),
        ({"quant_method": "compressed-tensors", "config_groups": {
            "group_0": {"weights": {"num_bits": 8, "type": "float", "strategy": "block"}, "targets": ["re:.*attn.*"]},
            "group_1": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}, "targets": ["re:.*ffn.*"]}}},
         "nvfp4:mlp"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4,
        "type": "int"}}},
          "ignore": [f"visual.blocks.{layer}.attn.qkv" for layer in range(32)] + ["model.layers.0.self_attn.q_proj"]},
         "int4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4",
          "exclude_modules": [f"model.layers.{layer}.self_attn.q_proj" for layer in range(32)]}, "nvfp4:mlp"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "fp8"),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ATTENTION}, "fp8:mlp"),
        ({"quant_method": "fp8", "ignored_layers": ATTENTION}, "fp8:mlp"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": ATTENTION},
         "fp8_block:mlp"),
        ({"quant_method": "fp8", "modules_to_not_convert": [f"model.layers.{n}.self_attn.q_norm" for n in range(32)]},
         "fp8"),
        ({"quant_method": "fp8", "modules_to_not_convert": [f"model.layers.{n}.linear_attn.a" for n in range(32)]},
         "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "exclude_modules": ATTENTION}, "fp8:mlp"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "modules_to_not_convert": ["self_attn"]},
         "int4_awq:g64:mlp"),
        ({"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["visual"]}, "int4_awq"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*self_attn.*": {}}}, "int4_gptq:mlp"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*self_attn.*": {"bits": 8}}}, "int4_gptq"),
        ({"quant_method": "auto-round", "bits": 4, "extra_config": {name: {"bits": 16} for name in ATTENTION}},
         "int4_gptq:mlp"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": ATTENTION}, "bnb_nf4:mlp"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "llm_int8_skip_modules": ["lm_head"]}, "bnb_nf4"),
        ({"quant_method": "quark", "exclude": ATTENTION, "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}},
         "fp8:mlp"),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}, "int4"),
        (None, None),
    ],
)  # fmt: skip
def test_the_files_own_quantization(quantization: dict[str, Any] | None, name: str | None) -> None:
    assert config_json.read(make_config(quantization_config=quantization)).quantization == name


@pytest.mark.parametrize(
    ("quantization", "cache"),
    [
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}, "fp8"),
        ({"quant_method": "fp8", "kv_cache_scheme": None}, "bf16"),
    ],
)
def test_the_files_say_which_cache_they_were_calibrated_for(quantization: dict[str, Any], cache: str) -> None:
    facts = config_json.read(make_config(quantization_config=quantization))
    assert precision.parse(None, None, None, facts).kv.name == cache
    assert precision.parse(None, None, "bfloat16", facts).kv.name == "bf16"


def test_a_real_config_json_counts_to_its_files(recorded_model: Path) -> None:
    facts = config_json.read(json.loads((recorded_model / "config.json").read_text()))
    assert facts.parameters == 134_515_008


@pytest.fixture
def recorded_model() -> Path:
    folder = Path.home() / ".cache/headworks/models/smollm2-135m-instruct"
    if not (folder / "config.json").is_file():
        pytest.skip(f"no model at {folder}")
    return folder


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": -4096}, "hidden_size"),
        ({"hidden_size": 4096.5}, "hidden_size"),
        ({"hidden_size": 1e30}, "hidden_size"),
        ({"hidden_size": True}, "hidden_size"),
        ({"hidden_size": [4096]}, "hidden_size"),
        ({"num_hidden_layers": 0}, "num_hidden_layers"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"num_attention_heads": float("nan")}, "num_attention_heads"),
        ({"num_attention_heads": 33, "num_key_value_heads": 33}, "num_attention_heads"),
        ({"num_key_value_heads": 7}, "num_key_value_heads"),
        ({"vocab_size": None}, "vocab_size"),
        ({"model_type": 7}, "model_type"),
        ({"torch_dtype": "int3"}, "torch_dtype"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["what"] * 32}, "layer_types"),
        ({"layer_types": "full"}, "layer_types"),
        ({"layer_types": ["sliding_attention"] * 32}, "sliding_window"),
        ({"num_experts": 8}, "num_experts_per_tok"),
        ({"num_experts": 8, "num_experts_per_tok": 9}, "num_experts_per_tok"),
        ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
        ({"quantization_config": "fp8"}, "quantization_config"),
        ({"quantization_config": {"quant_method": "magic"}}, "quantization_config.quant_method"),
        ({"quantization_config": {"quant_method": "awq", "bits": 5}}, "quantization_config.bits"),
        ({"text_config": []}, "text_config"),
        ({"model_type": "rwkv"}, "model_type"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "MX"}, "hybrid_override_pattern"),
    ],
)
def test_a_wrong_field_is_named_with_what_would_be_right(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        config_json.read(make_config(**changes))
    assert list(refused.value.fields) == [field]
    assert refused.value.code == "model_config"
    assert refused.value.hint


@pytest.mark.parametrize(
    "config", [{}, [], "llama", None, 7, {"weight_map": {}}, {"architectures": ["LlamaForCausalLM"]}]
)
def test_what_is_no_config_is_refused(config: Any) -> None:
    with pytest.raises(RefusedError) as refused:
        config_json.read(config)
    assert refused.value.fields


def test_a_huge_config_is_answered() -> None:
    noise = {f"field_{number}": "x" * 100 for number in range(20_000)}
    assert config_json.read({**noise, **LLAMA}).parameters == 8_030_261_248


def test_deep_nesting_is_answered() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = {"text_config": deep, "default": deep}
    for name in ("text_config", "quantization_config", "vision_config", "layer_types", "hidden_size"):
        answered(make_config(**{name: deep}))


def answered(config: Any) -> None:
    """Facts or a refusal that names a field; anything else is a bug."""
    try:
        facts = config_json.read(config)
    except RefusedError as refused:
        assert refused.fields
        assert refused.message
    else:
        assert facts.parameters > 0
        assert facts.layers


_SCALARS = (
    st.none() | st.booleans() | st.integers(-5, 300) | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["auto", "full_attention", "sliding_attention", "linear_attention", "mamba", "M*-E", 1e30,
    10**40])
)  # fmt: skip
_JSON = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
_ALL = sorted({field for _, config in FAMILIES.values() for field in config} | {"quantization_config", "block_configs"})


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.dictionaries(st.sampled_from(_ALL), _JSON, max_size=4))
def test_any_change_of_a_real_config_is_read_or_refused(family: str, changes: dict[str, Any]) -> None:
    answered({**FAMILIES[family][1], **changes})


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(
        [name for name, (_, config) in FAMILIES.items() if any(isinstance(v, dict) for v in config.values())]
    ),
    st.data(),
)
def test_any_change_inside_of_a_part_is_read_or_refused(family: str, data: st.DataObject) -> None:
    config = dict(FAMILIES[family][1])
    name = data.draw(st.sampled_from([key for key, value in config.items() if isinstance(value, dict)]))
    part = dict(config[name])
    for key in data.draw(st.lists(st.sampled_from(sorted(part)), min_size=1, max_size=3)):
        part[key] = data.draw(_JSON)
    answered({**config, name: part})


@settings(max_examples=200, deadline=None)
@given(_JSON)
def test_arbitrary_json_is_refused_with_a_field(config: Any) -> None:
    answered(config)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(["quant_method", "bits", "config_groups", "ignore", "quant_algo", "quant_type",
                                        "weight_block_size", "group_size", "global_quant_config", "format"]),
                                        _JSON))  # fmt: skip
def test_any_quantization_config_is_read_or_refused(quantization: dict[str, Any]) -> None:
    for method in ("awq", "compressed-tensors", "modelopt", "torchao", "quark", "gguf", "auto-round", None):
        answered(make_config(quantization_config={"quant_method": method, **quantization}))
