"""Whatever a case leaves out and would matter stands in `assumptions`: nothing is filled in silently."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import known_models
from tests.domain.test_estimate import ARCHITECTURE

FIGURES = (
    "weights_gib", "kv_bytes_per_token", "non_torch_gib", "activation_peak_gib", "cudagraph_gib", "kv_cache_gib",
    "kv_cache_tokens", "gpu_blocks", "max_concurrency", "fits", "needed_gib", "estimated_max_len",
)  # fmt: skip
FULL: dict[str, Any] = {
    "case_id": 1, "model": "acme/Own-8B", "architecture": {**ARCHITECTURE, "max_position_embeddings": 131072},
    "gpu": "RTX 3090", "gpu_memory_total_gib": 23.58, "num_gpus": 2, "tensor_parallel": 2, "pipeline_parallel": 1,
    "dtype": "bfloat16", "quantization": "none", "kv_cache_dtype": "bf16", "gpu_memory_utilization": 0.9,
    "max_model_len": 8192, "max_num_seqs": 256, "max_num_batched_tokens": 2048, "enforce_eager": False,
    "block_size": 16, "vllm_version": "0.10.2", "engine": "V1", "multimodal": False, "speculative": "none",
    "cpu_offload_gb": 0, "kv_cache_memory_gib": None,
}  # fmt: skip
# of each field a value other than the one above that makes another set-up of it
OTHERS: dict[str, Any] = {
    "model": "acme/Own-8B-AWQ", "architecture": {**ARCHITECTURE, "num_hidden_layers": 30}, "gpu": "H100 80GB",
    "gpu_memory_total_gib": 22.0, "num_gpus": 4, "tensor_parallel": 1, "pipeline_parallel": 2, "dtype": "float32",
    "quantization": "awq", "kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.8, "max_model_len": 16384,
    "max_num_seqs": 64, "max_num_batched_tokens": 65536, "enforce_eager": True, "block_size": 32,
    "vllm_version": "0.32.0", "engine": "V0", "multimodal": "yes, 16384 tokens", "speculative": "eagle 3",
    "cpu_offload_gb": 4, "kv_cache_memory_gib": 2.0,
}  # fmt: skip
# fields whose absence is told under another one's name
TOLD_OF = {"num_gpus": "tensor_parallel"}
MODELS = [
    "acme/Own-8B",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen2.5-VL-7B-Instruct",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "openai/gpt-oss-20b",
]


def ask(case: dict[str, Any]) -> dict[str, Any]:
    return estimate.estimate(case)


def figures(case: dict[str, Any]) -> tuple[object, ...] | str:
    """All numbers of the answer, or which fields were refused."""
    try:
        answer = ask(case)
    except RefusedError as refused:
        return ", ".join(refused.fields)
    return tuple(answer[name] for name in FIGURES)


def make_full(model: str) -> dict[str, Any]:
    known = known_models.find(model)
    return {**FULL, "model": model, "architecture": FULL["architecture"] if known is None else None}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("field", OTHERS)
def test_what_is_left_out_and_would_matter_is_told(model: str, field: str) -> None:
    full = make_full(model)
    if field == "architecture" and full["architecture"] is None:
        full = {**full, "architecture": ARCHITECTURE}
    full = {**full, "num_gpus": 4} if field == "pipeline_parallel" else full
    without = {**full, field: None}
    if field == "num_gpus":  # alone it says how many share the model only where tensor_parallel does not
        full, without = {**full, "tensor_parallel": None}, {**without, "tensor_parallel": None}
    matters = figures(full) != figures({**full, field: OTHERS[field]})
    if not matters:
        return
    try:
        told = ask(without)["assumptions"]
    except RefusedError as refused:
        assert any(name in (field, "architecture", "model") for name in refused.fields)
        return
    name = TOLD_OF.get(field, field)
    assert any(name in sentence or ("image" in sentence and field == "multimodal") for sentence in told), told


@pytest.mark.parametrize("field", [field for field in OTHERS if field not in {"kv_cache_memory_gib", "architecture"}])
def test_what_is_given_is_not_said_to_be_missing(field: str) -> None:
    assert not any(f"{field} is not given" in sentence for sentence in ask(FULL)["assumptions"])


def test_most_fields_matter_to_somebody() -> None:
    """Else the first test would be empty."""
    silent = [
        field
        for field, other in OTHERS.items()
        if all(figures(m) == figures({**m, field: other}) for m in map(make_full, MODELS))
    ]
    assert set(silent) <= {"num_gpus"}


def test_an_empty_case_but_for_its_model_lists_everything() -> None:
    told = " ".join(ask({"model": "Qwen/Qwen3-8B"})["assumptions"])
    for field in OTHERS:
        if field not in {"model", "num_gpus", "gpu_memory_total_gib"}:
            assert field in told, field


def told_of(**changes: Any) -> str:
    return " ".join(ask({**FULL, **changes})["assumptions"])


def test_that_the_card_was_taken_as_empty_is_told_unless_its_free_memory_is_given() -> None:
    assert "the card was taken as empty" in told_of()
    assert "the card was taken as empty" not in told_of(free_memory_at_start_gib=20.0)
    assert figures({**FULL, "free_memory_at_start_gib": 20.0}) != figures(FULL)


def test_that_adapters_and_a_reserve_were_not_counted_is_told() -> None:
    told = told_of()
    assert "No LoRA adapters were counted" in told and "No reserve was counted" in told


@pytest.mark.parametrize(
    ("model", "speculative", "told"),
    [
        ("acme/Own-8B", "ngram 4", "no weights and no cache of its own"),
        ("acme/Own-8B", "eagle 3", "GiB of weights were taken"),
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B, 4 tokens", "GiB of weights were added"),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "mtp 2", "The draft is taken to be the model's own layers"),
    ],
)
def test_what_a_draft_was_taken_to_weigh_is_told(model: str, speculative: str, told: str) -> None:
    case = {**make_full(model), "speculative": speculative, "gpu_memory_total_gib": 79.0, "gpu": "H100 80GB"}
    assert told in " ".join(ask(case)["assumptions"])


@pytest.mark.parametrize(("version", "told"), [("0.32.0", "hold 2 blocks"), ("0.12.0", "hold 1 block of")])
def test_what_a_request_holds_of_recurrent_states_is_told(version: str, told: str) -> None:
    model = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    case = {**make_full(model), "vllm_version": version, "gpu_memory_total_gib": 79.0, "gpu": "H100 80GB"}
    assert told in " ".join(ask(case)["assumptions"])
    assert "recurrent states" not in told_of()


def test_what_may_be_0_is_not_told_to_be_above_it() -> None:
    with pytest.raises(RefusedError) as error:
        estimate.estimate({"model": "Qwen/Qwen3-8B", "gpu": "RTX 4090", "cpu_offload_gb": -1})
    assert error.value.fields == {"cpu_offload_gb": "a number from 0 to 1e+06"}
