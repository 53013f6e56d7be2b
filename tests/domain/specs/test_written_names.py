"""Names as people write them: repositories, re-uploads in other precisions, loose texts. Unknown ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.domain.specs import known_models
from controlplane.domain.specs.known import fewer_experts

_LINES = (Path(__file__).parent / "written_names.txt").read_text().splitlines()
ROWS = [tuple(line.split(" | ")) for line in _LINES if line and not line.startswith("#")]
KNOWN = [row for row in ROWS if row[1] != "?"]
NOT_TO_BE_GUESSED = [row[0] for row in ROWS if row[1] == "?"]


@pytest.mark.parametrize(("name", "billions", "precision"), KNOWN, ids=[row[0] for row in KNOWN])
def test_a_written_name_is_read_as_the_model_and_precision_that_it_means(
    name: str, billions: str, precision: str
) -> None:
    facts = known_models.find(name)
    assert facts is not None
    assert facts.parameters / 1e9 == pytest.approx(float(billions), rel=0.03)
    assert (facts.quantization or "-") == precision


@pytest.mark.parametrize("name", NOT_TO_BE_GUESSED)
def test_what_is_not_known_is_not_taken_for_something_like_it(name: str) -> None:
    assert known_models.find(name) is None


def test_the_list_is_long_enough_to_tell_something() -> None:
    assert len(KNOWN) > 1000
    assert len(NOT_TO_BE_GUESSED) > 100


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("QuantTrio/GLM-4.6-GPTQ-Int4-Int8Mix", "mixed"),
        ("Qwen3-8B (quantized)", "not how"),
        ("acme/Qwen3-Foo-8B", "not known by itself"),
        ("llava/mistral-7B-class VLM", "not known by itself"),
    ],
)
def test_what_a_name_leaves_open_is_told(name: str, told: str) -> None:
    facts = known_models.find(name)
    assert facts is not None
    assert any(told in sentence for sentence in facts.assumptions)


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("mistralai/Ministral-3-14B-Instruct-2512-BF16", None), ("mistralai/Ministral-3-14B-Reasoning-2512", None),
        ("mistralai/Ministral-3-14B-Instruct-2512", "fp8"), ("mistralai/Mistral-Large-3-675B-Base-2512", None),
        ("mistralai/Mistral-Large-3-675B-Instruct-2512", "fp8"), ("XiaomiMiMo/MiMo-V2-Flash", "fp8_block"),
        ("cyankiwi/Ministral-3-14B-Instruct-2512-AWQ-4bit", "int4_awq"),
    ],
)  # fmt: skip
def test_files_that_are_published_in_eight_bits_are_so_unless_the_name_says_otherwise(
    name: str, precision: str | None
) -> None:
    facts = known_models.find(name)
    assert facts is not None
    assert facts.quantization == precision


@pytest.mark.parametrize(
    ("name", "layers", "attending"), [("Nemotron-Super-49B", 80, 49), ("Nemotron-Ultra-253B", 162, 64)]
)
def test_a_model_that_search_made_smaller_keeps_a_cache_where_it_still_attends(
    name: str, layers: int, attending: int
) -> None:
    facts = known_models.find(name)
    assert facts is not None
    assert facts.num_hidden_layers == layers
    assert {layer.kind: layer.count for layer in facts.layers} == {"full": attending, "none": layers - attending}


@pytest.mark.parametrize("name", sorted(fewer_experts.MODELS))
def test_a_mixture_with_fewer_experts_has_the_size_that_its_name_says_and_its_bases_cache(name: str) -> None:
    facts, base = known_models.find(f"cerebras/{name}"), known_models.find(name.split("-REAP")[0])
    assert facts is not None and facts.experts is not None
    said = float(name.split("REAP-")[1].split("B")[0])
    assert facts.parameters / 1e9 == pytest.approx(said, rel=0.006)
    assert base is None or base.layers == facts.layers
