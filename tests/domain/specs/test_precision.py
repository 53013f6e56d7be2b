"""Precision: what names mean, bits a weight, which parts stay as they are, what a card does with it."""

from __future__ import annotations

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import precision
from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.model import Experts, Layers, ModelFacts


def make_facts(quantization: str | None = None, experts: Experts | None = None) -> ModelFacts:
    return ModelFacts(
        name="tiny", family="llama", parameters=10_000_000, active_parameters=10_000_000, hidden_size=256,
        num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=4, head_dim=64, intermediate_size=1024,
        vocab_size=4000, layers=(Layers("full", 4, kv_heads=4, head_dim=64),), embedding_parameters=2_000_000,
        attention_parameters=1_000_000, unquantized_parameters=10_000, replicated_parameters=10_000, experts=experts,
        quantization=quantization,
    )  # fmt: skip


def make_card(capability: str, *, fp8: float | None = None, bf16: float | None = 1e14) -> AcceleratorFacts:
    return AcceleratorFacts(
        "card", (), "NVIDIA", "any", 2**34, None, 1e12, bf16_flops=bf16, fp16_flops=1e14, fp8_flops=fp8, int8_ops=2e14,
        fp4_flops=None, link_bytes_per_s=None, pcie_bytes_per_s=None, compute_capability=capability,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("mxfp4", "mxfp4"), ("bitsandbytes 4bit", "bnb_nf4"), ("auto_round int4", "int4"), ("awq_marlin", "int4_awq"),
        ("modelopt nvfp4", "nvfp4"), ("fp8 block", "fp8_block"), ("4 bit", "int4"), ("W4A16", "int4"),
        ("gptq_marlin", "int4_gptq"), ("W8A8-INT8", "int8"), ("int8-w8a16", "int8_w8a16"), ("modelopt", "fp8"),
        ("gguf:Q4_K_M", "gguf:Q4_K_M"), ("ptpc_fp8", "fp8"), ("fp8_e4m3", "fp8"), ("bitsandbytes", "bnb_nf4"),
        ("int4:g32:experts", "int4:g32:experts"), ("experts_int8", "int8_experts"), ("bfloat16", "bf16"),
    ],
)  # fmt: skip
def test_names_that_people_write_are_understood(asked: str, name: str) -> None:
    assert precision.parse(None, asked, None, make_facts()).name == name


@pytest.mark.parametrize(
    ("asked", "bits"),
    [("int4_awq", 4.15625), ("int4", 4.125), ("mxfp4", 4.25), ("nvfp4", 4.5), ("bnb_nf4", 4.5), ("fp8", 8.0)],
)
def test_scales_and_zero_points_are_part_of_a_weight(asked: str, bits: float) -> None:
    assert precision.parse(None, asked, None, make_facts()).weight_bits == bits


@pytest.mark.parametrize("asked", ["seven bits", "", "x" * 300])
def test_a_name_without_bits_is_refused_by_field(asked: str) -> None:
    if not asked:
        assert not precision.parse(None, asked, None, make_facts()).quantized
        return
    with pytest.raises(RefusedError) as refused:
        precision.parse(None, asked, None, make_facts())
    assert list(refused.value.fields) == ["quantization"]


def test_a_method_that_doesn_t_tell_its_bits_is_an_assumption() -> None:
    asked = precision.parse(None, "compressed-tensors", None, make_facts())
    assert asked.name == "int4"
    assert asked.assumptions
    assert precision.parse(None, "int8 (w8a16)", None, make_facts()).name == "int8_w8a16"


def test_a_looser_name_means_what_the_files_are() -> None:
    assert precision.parse(None, "fp8", None, make_facts("fp8_block")).name == "fp8_block"
    assert precision.parse("int4", None, None, make_facts("int4:g32:experts")).name == "int4:g32:experts"
    assert precision.parse(None, "compressed-tensors", None, make_facts("int4")).name == "int4"


def test_another_precision_than_the_files_is_said() -> None:
    assert precision.parse(None, "int4_awq", None, make_facts("fp8")).assumptions


def test_embeddings_and_norms_keep_sixteen_bits() -> None:
    parts = precision.parse(None, "fp8", None, make_facts()).part_bytes(make_facts())
    assert parts.embedding_bytes == 4_000_000
    assert parts.rest_bytes == 10_000 * 2 + 7_990_000
    assert parts.total_bytes == precision.parse(None, "fp8", None, make_facts()).weight_bytes(make_facts())


def test_experts_alone_are_quantized_where_the_method_says_so() -> None:
    facts = make_facts("mxfp4:experts", Experts(8, 2, routed_params=4_000_000))
    parts = precision.parse(None, None, None, facts).part_bytes(facts)
    assert parts.routed_experts_bytes == 4_000_000 * 4.25 / 8
    assert parts.rest_bytes == 4_000_000 * 2


def test_the_cache_has_its_own_precision() -> None:
    cache = precision.parse("float16", None, "fp8_e5m2", make_facts()).kv
    assert (cache.name, cache.vector_bytes(128), cache.latent_bytes(576)) == ("fp8", 128, 576)
    assert precision.parse("float16", None, "auto (assumed)", make_facts()).kv.name == "fp16"
    assert precision.parse(None, None, "fp8_ds_mla", make_facts()).kv.latent_bytes(576) == 656
    assert precision.parse(None, None, "nvfp4", make_facts()).kv.vector_bytes(128) == 72
    assert cache.indexer_bytes(128) == 132
    assert precision.parse(None, None, "tq-t4nc", make_facts()).kv.vector_bytes(256) == 131  # of 130 and 132
    assert precision.parse(None, None, "turboquant_k8v4", make_facts()).kv.vector_bytes(128) == 98  # of 128 and 68


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("auto (assumed)", "bf16"), ("auto", "bf16"), ("auto (fp8 from checkpoint)", "fp8"), ("auto (fp8_e4m3)", "fp8"),
        ("fp8 calculated scales", "fp8"), ("fp8_per_tensor", "fp8"), ("fp8_per_token_head", "fp8_per_token_head"),
        ("FP8-KV cache", "fp8"), ("fp8_ds_mla", "fp8_ds_mla"),
    ],
)  # fmt: skip
def test_cache_types_are_read_as_people_write_them(written: str, name: str) -> None:
    assert precision.parse(None, None, written, make_facts()).kv.name == name


def test_an_unknown_cache_type_is_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        precision.parse(None, None, "int7", make_facts())
    assert list(refused.value.fields) == ["kv_cache_dtype"]


def test_a_card_multiplies_what_its_vendor_states_a_rate_for() -> None:
    fp8 = precision.parse(None, "fp8", None, make_facts())
    assert precision.support(fp8, make_card("9.0", fp8=2e15)).level == "native"
    assert precision.support(fp8, make_card("8.0")).level == "emulated"
    assert precision.support(fp8, make_card("7.0")).level == "none"
    assert (
        precision.support(precision.parse("bf16", None, None, make_facts()), make_card("7.5", bf16=None)).level
        == "none"
    )
    assert precision.support(precision.parse(None, "gptq", None, make_facts()), make_card("7.0")).level == "emulated"
    int4 = precision.parse(None, "int4", None, make_facts())
    assert precision.support(int4, make_card("9.0", fp8=2e15)).level == "emulated"
