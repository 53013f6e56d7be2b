"""What is no description of a model, a precision or a card is refused by its field's name and not guessed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import architecture, config_json, formats

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({}, "intermediate_size"),
        ({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}, "moe_intermediate_size"),
        ({"model_type": "unheard_of", "ffn_size": 14336}, "intermediate_size"),
    ],
)
def test_a_config_without_the_width_of_its_feed_forwards_is_refused(more: dict[str, object], field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        config_json.read({**LLAMA, **more})
    assert field in refused.value.fields


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("head_dim", 100_000), ("intermediate_size", 1), ("intermediate_size", 10**7), ("hidden_size", 2**20),
        ("num_attention_heads", 100_000), ("num_key_value_heads", 100_000), ("intermediate_size", 200_000),
    ],
)  # fmt: skip
def test_numbers_that_no_model_has_are_refused_by_their_field(field: str, value: int) -> None:
    """In a config.json and in a short architecture alike."""
    widths = {**LLAMA, "intermediate_size": 14336, field: value}
    readers: tuple[Callable[[dict[str, object]], object], ...] = (
        config_json.read, lambda given: architecture.read({"total_params": 8_000_000_000, **given}),
    )  # fmt: skip
    for read in readers:
        with pytest.raises(RefusedError) as refused:
            read(widths)
        assert any(field in name for name in refused.value.fields), refused.value.fields


@pytest.mark.parametrize("total", [8, 70])
def test_billions_are_no_number_of_parameters(total: int) -> None:
    with pytest.raises(RefusedError) as refused:
        architecture.read({"total_params": total, "num_hidden_layers": 32, "num_key_value_heads": 8, "head_dim": 128})
    assert "not in billions" in refused.value.fields["architecture.total_params"]


def test_numbers_of_towers_and_states_have_bounds_too() -> None:
    seen = {**LLAMA, "intermediate_size": 14336}
    tower = {"model_type": "clip_vision_model", "hidden_size": 1024, "patch_size": 100_000}
    for config, field in (
        ({"model_type": "llava", "text_config": seen, "vision_config": tower}, "vision_config.patch_size"),
        ({**seen, "num_local_experts": 10**5, "num_experts_per_tok": 2, "model_type": "mixtral"}, "num_local_experts"),
        ({**seen, "kv_lora_rank": 10**6, "model_type": "deepseek_v2"}, "kv_lora_rank"),
    ):
        with pytest.raises(RefusedError) as refused:
            config_json.read(config)
        assert field in refused.value.fields


def test_an_expert_narrower_than_any_is_refused() -> None:
    mixture = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    with pytest.raises(RefusedError) as refused:
        config_json.read({**LLAMA, **mixture, "intermediate_size": 14336, "moe_intermediate_size": 8})
    assert "moe_intermediate_size" in refused.value.fields


@pytest.mark.parametrize(
    "widths",
    [
        {"hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 128},
        {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 37},
        {"hidden_size": 65536, "num_attention_heads": 512, "num_key_value_heads": 8, "intermediate_size": 262144},
    ],
)  # fmt: skip
def test_the_smallest_models_for_tests_and_ones_larger_than_any_are_read(widths: dict[str, object]) -> None:
    assert config_json.read({**LLAMA, "intermediate_size": 32, **widths}).parameters > 0


def test_a_width_of_none_is_a_width() -> None:
    assert config_json.read({**LLAMA, "intermediate_size": 0}).parameters < 3e9


@pytest.mark.parametrize("name", ["int3000", "int44", "fp80", "nvfp40", "w4a4000", "gptq-int99", "8bit8", "48bit"])
def test_bits_that_no_format_has_are_no_format(name: str) -> None:
    assert formats.named(name) is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("fp8 128x128", "fp8"), ("int4 g128", "int4"), ("w4a16_g128", "int4"), ("4 bit", "int4"),
        ("awq_marlin", "int4_awq"),
        ("bitsandbytes 4bit", "bnb_nf4"), ("auto_round int4", "int4"), ("modelopt nvfp4", "nvfp4"), ("w8a8", "int8"),
    ],
)  # fmt: skip
def test_loose_spellings_are_still_understood(name: str, found: str) -> None:
    known = formats.named(name)
    assert known is not None and known.name.removesuffix("_block") == found


@pytest.mark.parametrize("name", ["A100 640GB", "8x A100 640GB", "H100 800 GB", "V100 64GB", "RTX 5090 512GB"])
def test_a_size_in_a_name_that_no_such_card_has_is_refused(name: str) -> None:
    with pytest.raises(RefusedError) as refused:
        estimate.read_setup({"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": name})
    assert "num_gpus" in refused.value.fields["gpu"]


@pytest.mark.parametrize(
    ("name", "gib"),
    [("RTX 4090 48GB", 44.4), ("RTX 2080 Ti 22GB", 21.5), ("H100 80 GB", 79.2), ("GH200 480GB", 94.5)],
)  # fmt: skip
def test_boards_with_other_chips_and_slices_are_read(name: str, gib: float) -> None:
    card = estimate.read_setup({"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": name}).card
    assert (card.total_bytes or 0) / 2**30 == pytest.approx(gib, rel=0.01)


def test_a_memory_that_the_named_card_can_not_have_is_refused() -> None:
    case = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100 80GB", "gpu_memory_total_gib": 1000}
    with pytest.raises(RefusedError) as refused:
        estimate.read_setup(case)
    assert "gpu_memory_total_gib" in refused.value.fields
    for total, said in ((140, "more than H100"), (10, "a part of what H100")):
        setup = estimate.read_setup({**case, "gpu_memory_total_gib": total})
        assert any(said in one for one in setup.assumptions)
