from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.footprint import activation
from controlplane.domain.footprint.activation import ActivationPeak
from controlplane.domain.footprint.engine_rules import rules_for
from controlplane.domain.specs.model import ModelFacts
from tests.domain.ledger.setups import make_latent_model, make_model

GIB = 2**30


def make_peak(
    model: ModelFacts | None = None, *, version: str = "0.10.2", engine: str = "V1", tokens: int = 2048, **given: int
) -> ActivationPeak:
    return activation.peak(
        model or make_model(),
        rules_for(version, engine),
        batched_tokens=tokens,
        sequences=given.pop("sequences", 256),
        tensor_parallel=given.pop("tensor_parallel", 1),
        element_bytes=2,
        **given,
    )


def test_whole_prompts_of_v0_grow_as_two_logs_show() -> None:
    """8B without chunked prefill: 2.07 GiB at 20,000 tokens, 2.99 at 29,000."""
    for tokens, logged in ((20_000, 2.07), (29_000, 2.99)):
        found = make_peak(version="0.6.4", engine="V0", tokens=tokens)
        assert found.peak_bytes / GIB == pytest.approx(logged, abs=0.02)
        assert found.reason == "the forward pass of a full token budget"


def test_sampling_decides_for_small_batches_of_tokens() -> None:
    """8B with 256 sequences: 1.19 GiB."""
    found = make_peak(version="0.6.4", engine="V0", tokens=512)
    assert found.peak_bytes / GIB == pytest.approx(1.19, abs=0.02)
    assert found.reason == "the sampler's logits of a full batch"


def test_few_sequences_need_few_logits() -> None:
    assert make_peak(sequences=1).sampling_bytes < make_peak(sequences=256).sampling_bytes / 20


def test_rows_are_never_more_than_tokens() -> None:
    few = make_peak(tokens=64, sequences=1024)
    assert few.sampling_bytes == make_peak(tokens=64, sequences=64).sampling_bytes


def test_a_layer_from_the_host_comes_on_top() -> None:
    model = make_latent_model()
    with_layer = make_peak(model, tokens=40_000, visiting_layer_bytes=GIB)
    assert with_layer.forward_bytes - make_peak(model, tokens=40_000).forward_bytes == GIB


def test_images_of_v0_went_through_the_encoder_together() -> None:
    """Qwen2-VL at 8,192 tokens: 1.16 GiB."""
    found = make_peak(version="0.6.5", engine="V0", tokens=8192, multimodal_tokens=16384)
    assert found.encoder_bytes / GIB == pytest.approx(1.16, abs=0.05)


def test_a_larger_encoder_and_more_patches_a_token_need_more() -> None:
    def size(family: str, parameters: int) -> int:
        model = make_model(family=family, tower_parameters=parameters)
        return make_peak(model, multimodal_tokens=16384).encoder_bytes

    assert size("internvl_chat", 6_000_000_000) == pytest.approx(2.08 * size("internvl_chat", 670_000_000), rel=0.01)
    assert size("llava", 670_000_000) == pytest.approx(size("qwen2_vl", 670_000_000) / 4, rel=0.01)


@given(st.integers(1, 100_000), st.integers(1, 4096), st.sampled_from([1, 2, 4, 8]))
def test_a_larger_budget_never_needs_less(tokens: int, sequences: int, ranks: int) -> None:
    small = make_peak(tokens=tokens, sequences=sequences, tensor_parallel=ranks)
    large = make_peak(tokens=tokens + 1024, sequences=sequences + 8, tensor_parallel=ranks)
    assert small.peak_bytes <= large.peak_bytes
