"""Weights to the byte: headers, indexes, parts, hostile input."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import config_json, precision, safetensors_index, tensor_names
from controlplane.domain.specs.model import ModelFacts

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "vocab_size": 10,
}  # fmt: skip
BYTES = {"F32": 4, "BF16": 2, "F8_E4M3": 1}


def make_header(*tensors: tuple[str, list[int]], dtype: str = "BF16") -> dict[str, Any]:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, shape in tensors:
        size = BYTES[dtype]
        for axis in shape:
            size *= axis
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [position, position + size]}
        position += size
    return header


def make_llama(dtype: str = "BF16", layers: int = 2) -> dict[str, Any]:
    tensors: list[tuple[str, list[int]]] = [("model.embed_tokens.weight", [10, 8]), ("lm_head.weight", [10, 8])]
    for layer in range(layers):
        at = f"model.layers.{layer}"
        tensors += [(f"{at}.self_attn.{name}_proj.weight", [8, 8]) for name in "qkvo"]
        tensors += [(f"{at}.mlp.{name}_proj.weight", [16, 8]) for name in ("gate", "up")]
        tensors += [(f"{at}.mlp.down_proj.weight", [8, 16]), (f"{at}.input_layernorm.weight", [8])]
        tensors += [(f"{at}.post_attention_layernorm.weight", [8])]
    return make_header(*tensors, ("model.norm.weight", [8]), dtype=dtype)


def make_facts(**changes: Any) -> ModelFacts:
    return config_json.read({**CONFIG, **changes})


def test_bytes_are_those_of_the_tensors() -> None:
    files = safetensors_index.read(make_llama())
    assert files.total_bytes == 2 * make_facts().parameters
    assert files.dtype_bytes == {"BF16": files.total_bytes}


def test_headers_of_several_files_are_one_model() -> None:
    one, two = make_header(("a.weight", [2])), make_header(("b.weight", [4]))
    for several in ([one, two], {"model-1.safetensors": one, "model-2.safetensors": two}):
        assert safetensors_index.read(several).total_bytes == 12


def test_parts_are_told_by_names() -> None:
    facts = safetensors_index.with_files(make_facts(), safetensors_index.read(make_llama()))
    assert facts.weight_parts is not None
    assert facts.weight_parts.embedding_bytes == 2 * 2 * 80
    assert facts.weight_parts.replicated_bytes == 2 * 5 * 8
    assert facts.weight_parts.total_bytes == facts.weight_bytes
    assert precision.parse(None, None, None, facts).weight_bytes(facts) == facts.weight_bytes


def test_a_second_copy_of_a_tied_embedding_is_not_loaded() -> None:
    facts = safetensors_index.with_files(make_facts(tie_word_embeddings=True), safetensors_index.read(make_llama()))
    assert facts.weight_parts is not None
    assert facts.weight_bytes == facts.weight_parts.total_bytes + 2 * 80
    assert facts.parameters == make_facts(tie_word_embeddings=True).parameters


def test_files_in_thirty_two_bits_are_loaded_in_sixteen() -> None:
    facts = safetensors_index.with_files(make_facts(), safetensors_index.read(make_llama("F32")))
    assert facts.weight_parts is not None
    assert facts.weight_bytes == 2 * facts.weight_parts.total_bytes


def test_layers_beyond_the_last_are_draft_layers() -> None:
    facts = safetensors_index.with_files(make_facts(), safetensors_index.read(make_llama(layers=3)))
    assert facts.weight_parts is not None
    assert facts.weight_parts.draft_bytes == 2 * (4 * 64 + 3 * 128 + 16)
    assert facts.parameters == make_facts().parameters


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.layers.3.mlp.experts.7.gate_proj.weight", "routed_experts"),
        ("model.layers.3.mlp.experts.gate_up_proj_blocks", "routed_experts"),
        ("model.layers.3.block_sparse_moe.experts.1.w1.weight", "routed_experts"),
        ("model.layers.3.mlp.shared_experts.gate_proj.weight", "rest"),
        ("model.layers.3.mlp.gate.weight", "replicated"),
        ("model.layers.3.mlp.gate_proj.weight", "rest"),
        ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", "replicated"),
        ("model.layers.3.input_layernorm.weight", "replicated"),
        ("model.embed_tokens.weight", "embedding"),
        ("transformer.wte.weight", "embedding"),
        ("lm_head.weight", "head"),
        ("visual.blocks.0.attn.qkv.weight", "tower"),
        ("model.vision_tower.vision_model.embeddings.patch_embedding.weight", "tower"),
        ("multi_modal_projector.linear_1.weight", "tower"),
        ("language_model.model.layers.0.mlp.up_proj.weight", "rest"),
        ("mtp.layers.0.mlp.experts.0.up_proj.weight", "draft"),
        ("talker.model.layers.0.mlp.up_proj.weight", "unused"),
        ("backbone.layers.1.mixer.experts.3.up_proj.weight", "routed_experts"),
    ],
)
def test_a_name_tells_the_part(name: str, part: str) -> None:
    assert tensor_names.part(name) == part


def test_an_index_tells_the_total_alone() -> None:
    total = 2 * make_facts().parameters + 1000
    index = {"metadata": {"total_size": total}, "weight_map": {"model.embed_tokens.weight": "model-1.safetensors"}}
    facts = safetensors_index.with_files(make_facts(), safetensors_index.read(index))
    assert facts.weight_parts is not None
    assert facts.weight_bytes == facts.weight_parts.total_bytes == total
    assert facts.weight_parts.embedding_bytes == 2 * 2 * 80
    assert facts.assumptions


def test_a_real_file_is_counted_to_the_byte() -> None:
    folder = Path.home() / ".cache/headworks/models/smollm2-135m-instruct"
    if not (folder / "model.safetensors").is_file():
        pytest.skip(f"no model at {folder}")
    with (folder / "model.safetensors").open("rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    files = safetensors_index.read(header)
    assert files.total_bytes == (folder / "model.safetensors").stat().st_size - 8 - length
    config = json.loads((folder / "config.json").read_text())
    assert (
        safetensors_index.with_files(config_json.read(config), files).parameters == config_json.read(config).parameters
    )


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "safetensors"), ([], "safetensors"), ("x", "safetensors"), (None, "safetensors"), ([1], "safetensors"),
        ({"__metadata__": {}}, "safetensors"), ({"weight_map": {}}, "weight_map"), ({"weight_map": {"a": 1}},
        "weight_map"),
        ({"weight_map": {"a": "f"}}, "metadata.total_size"),
        ({"weight_map": {"a": "f"}, "metadata": {"total_size": -1}}, "metadata.total_size"),
        ({"weight_map": {"a": "f"}, "metadata": {"total_size": 1e30}}, "metadata.total_size"),
        ({"a": 1}, "a"), ({"a": {"dtype": "F3"}}, "a.dtype"), ({"a": {"dtype": "BF16", "shape": [-1]}}, "a.shape"),
        ({"a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 5]}}, "a.data_offsets"),
        ({"a": {"dtype": "BF16", "shape": [10**15] * 16, "data_offsets": [0, 5]}}, "a.data_offsets"),
    ],
)  # fmt: skip
def test_what_is_no_header_is_refused_by_field(given: Any, field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        safetensors_index.read(given)
    assert list(refused.value.fields) == [field]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["dtype", "shape", "data_offsets", "weight_map", "metadata", "total_size", "a.safetensors"])
            | st.text(max_size=8),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=300, deadline=None)
@given(_JSON)
def test_arbitrary_json_is_read_or_refused(given: Any) -> None:
    try:
        files = safetensors_index.read(given)
    except RefusedError as refused:
        assert refused.fields
    else:
        assert safetensors_index.with_files(make_facts(), files).weight_bytes == files.total_bytes


def test_deep_nesting_is_refused() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"a.safetensors": deep}
    with pytest.raises(RefusedError):
        safetensors_index.read(deep)
