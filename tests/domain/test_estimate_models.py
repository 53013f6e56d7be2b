"""What an estimate says of models that its engine does not serve, or computed otherwise in its time."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError


def make_case(**fields: Any) -> dict[str, Any]:
    return {"case_id": 1, "gpu": "A100 80GB", "max_model_len": 8192, **fields}


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("google/flan-t5-xl", "in no version"),
        ("facebook/bart-large-cnn", "up to 0.10.2"),
        ("microsoft/Florence-2-large", "bart-plugin"),
        ("facebook/nllb-200-3.3B", "in no version"),
    ],
)
def test_a_decoder_beside_an_encoder_is_refused_by_its_name_with_what_the_engine_serves(model: str, said: str) -> None:
    with pytest.raises(RefusedError) as caught:
        estimate.estimate(make_case(model=model, vllm_version="0.11.0"))
    assert said in caught.value.message
    assert list(caught.value.fields) == ["model"]


@pytest.mark.parametrize(
    ("version", "bytes_per_token"),
    [("0.6.4", 27 * 2 * 16 * 256 * 2), ("0.8.5", 27 * 576 * 2), ("0.11.0", 27 * 576 * 2)],
)
def test_engines_before_latents_kept_every_head_of_deepseek(version: str, bytes_per_token: int) -> None:
    answer = estimate.estimate(make_case(model="deepseek-ai/DeepSeek-V2-Lite-Chat", vllm_version=version))
    assert answer["kv_bytes_per_token"] == pytest.approx(bytes_per_token)
