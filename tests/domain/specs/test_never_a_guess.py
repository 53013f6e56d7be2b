"""What is no description of a model, a precision or a card is refused by its field's name and not guessed."""

from __future__ import annotations

import pytest

from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import config_json, formats

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


def test_a_memory_that_the_named_card_can_not_have_is_refused() -> None:
    case = {"model": "meta-llama/Llama-3.1-8B-Instruct", "gpu": "H100 80GB", "gpu_memory_total_gib": 1000}
    with pytest.raises(RefusedError) as refused:
        estimate.read_setup(case)
    assert "gpu_memory_total_gib" in refused.value.fields
    setup = estimate.read_setup({**case, "gpu_memory_total_gib": 140})
    assert any("more than" in one and "H100" in one for one in setup.assumptions)
