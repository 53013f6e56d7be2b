"""Where an engine refuses to start because a card can't calculate in what it was given, and what it falls back to."""

from __future__ import annotations

import pytest

from controlplane.domain.footprint import card_formats, cards
from controlplane.domain.footprint.engine_rules import rules_for
from controlplane.domain.ledger import result
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.specs import formats
from tests.domain.ledger.setups import make_model, make_setup


def start(
    gpu: str,
    *,
    dtype: str | None = None,
    quantization: str | None = None,
    version: str = "0.32.0",
    family: str = "llama",
) -> Ledger:
    model = make_model(family=family)
    card = cards.resolve(gpu, 64.0)
    return result.work_out(
        make_setup(model, card=card, version=version, dtype=dtype, quantization=quantization, max_model_len=2048)
    )


@pytest.mark.parametrize(
    ("gpu", "dtype", "quantization", "starts"),
    [
        ("T4", "bfloat16", None, False),
        ("V100 32GB", "bfloat16", None, False),
        ("A100", "bfloat16", None, True),
        ("T4", "float16", None, True),
        ("V100 32GB", None, "fp8", False),
        ("T4", None, "fp8", True),
        ("A100", None, "fp8", True),
        ("L4", None, "fp8", True),
        ("V100 32GB", None, "awq", False),
        ("T4", None, "awq", True),
        ("V100 32GB", None, "gptq int4", True),
        ("V100 32GB", None, "int8", False),
        ("T4", None, "int8", True),
        ("T4", None, "mxfp4", False),
        ("A100", None, "mxfp4", True),
        ("H100", None, "nvfp4", True),
        ("V100 32GB", None, "bitsandbytes 4bit", True),
        ("P100", None, None, False),
        ("P40", "float16", None, False),
    ],
)
def test_it_starts_where_the_engine_has_kernels(
    gpu: str, dtype: str | None, quantization: str | None, starts: bool
) -> None:
    verdict = start(gpu, dtype=dtype, quantization=quantization).verdict
    assert verdict.fits is starts
    assert (verdict.reason == "precision") is not starts


@pytest.mark.parametrize(
    ("gpu", "dtype", "quantization", "advised"),
    [
        ("T4", "bfloat16", None, "Set dtype float16"),
        ("V100 32GB", None, "awq", "Take GPTQ or FP16 weights"),
        ("P100", None, None, "Take a newer card"),
    ],
)
def test_the_refusal_says_the_capability_and_what_to_do(
    gpu: str, dtype: str | None, quantization: str | None, advised: str
) -> None:
    sentence = start(gpu, dtype=dtype, quantization=quantization).verdict.sentence
    assert "compute capability" in sentence
    assert advised in sentence


def test_without_a_word_on_the_data_type_fp16_takes_the_place_of_bf16() -> None:
    ledger = start("T4")
    assert ledger.verdict.fits
    assert ledger.setup.precision.plain_dtype == "fp16"
    assert ledger.kv_bytes_per_token == start("A100").kv_bytes_per_token
    assert any("FP16 was taken, as T4 has no BF16" in sentence for sentence in ledger.assumptions)


def test_families_that_are_unstable_in_fp16_take_fp32_instead() -> None:
    plain, wide = start("A100", family="gemma3_text"), start("T4", family="gemma3_text")
    assert wide.setup.precision.plain_dtype == "fp32"
    assert wide.budget.weights_bytes == pytest.approx(2 * plain.budget.weights_bytes, rel=0.01)
    assert wide.kv_bytes_per_token == 2 * plain.kv_bytes_per_token


def test_families_that_are_unstable_in_fp16_are_refused_in_it() -> None:
    assert start("A100", dtype="float16", family="gemma3").verdict.reason == "precision"
    assert start("A100", dtype="float16", family="gemma3", version="0.8.0").verdict.fits


@pytest.mark.parametrize(("gpu", "plain"), [("A100", "bf16"), ("T4", "fp32"), ("Flux Capacitor", "bf16")])
def test_files_of_an_unstable_family_in_other_types_are_not_refused_unasked(gpu: str, plain: str) -> None:
    """Gemma 2 files are stored in FP32, which engines load in 16 bits: in BF16 then, never in FP16."""
    model = make_model(family="gemma2", torch_dtype="float32")
    ledger = result.work_out(make_setup(model, card=cards.resolve(gpu, 64.0), version="0.32.0", max_model_len=2048))
    assert ledger.verdict.fits
    assert ledger.setup.precision.plain_dtype == plain


def test_turing_unpacks_fp8_since_about_0_14() -> None:
    assert start("T4", quantization="fp8", version="0.10.0").verdict.reason == "precision"
    assert start("T4", quantization="fp8", version="0.19.0").verdict.fits


def test_nvfp4_needed_blackwell_before_0_9() -> None:
    least = [
        card_formats.least_capability(formats.FORMATS["nvfp4"], rules_for(text))
        for text in ("0.8.5", "0.10.0", "0.32.0")
    ]
    assert least == [10.0, 8.0, 7.5]


def test_nothing_is_refused_of_a_card_that_is_not_known() -> None:
    assert start("Flux Capacitor", dtype="bfloat16").verdict.fits
