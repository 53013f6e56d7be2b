"""Quantized weights that ranks can share in whole blocks or groups only."""

from __future__ import annotations

import pytest

from controlplane.domain import estimate
from controlplane.domain.footprint import widths
from controlplane.domain.footprint.engine_rules import rules_for
from controlplane.domain.specs import known_models, precision
from controlplane.domain.specs.model import ModelFacts


def make_known(name: str) -> ModelFacts:
    facts = known_models.find(name)
    assert facts is not None
    return facts


def refusal(name: str, ranks: int, *, version: str = "0.12.0", whole_experts: bool = False) -> str:
    facts = make_known(name)
    kinds = precision.parse(None, None, None, facts)
    return widths.refusal(facts, kinds, rules_for(version), tensor_parallel=ranks, whole_experts=whole_experts)


@pytest.mark.parametrize(
    ("name", "ranks", "loads"),
    [
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", 8, False),  # 1536 / 8 = 192
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", 4, True),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", 8, True),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8", 8, False),  # 2560 / 8 = 320
        ("Qwen/Qwen3-30B-A3B-FP8", 4, False),
        ("Qwen/Qwen3-30B-A3B-FP8", 2, True),
        ("deepseek-ai/DeepSeek-R1", 8, True),
        ("deepseek-ai/DeepSeek-R1", 16, True),
        ("deepseek-ai/DeepSeek-R1", 32, False),  # 18432 / 32 = 576, of the first three layers
        ("Qwen/Qwen3-32B-FP8", 8, True),
        ("Qwen/Qwen3-4B-FP8", 8, False),  # 9728 / 8 = 1216
        ("Qwen/Qwen2.5-14B-Instruct-AWQ", 8, False),  # 13824 / 8 = 1728
        ("Qwen/Qwen2.5-14B-Instruct-AWQ", 4, True),
        ("Qwen/Qwen2.5-14B-Instruct-GPTQ-Int4", 8, False),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", 8, True),  # published with 29696 instead of 29568 for this very reason
        ("Qwen/Qwen2.5-0.5B-Instruct-AWQ", 2, False),  # 14 heads of 64
        ("hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4", 8, True),
        ("zai-org/GLM-4.5-Air-FP8", 2, True),  # a scale a channel; 10944 / 2 would be no whole number of blocks
        ("RedHatAI/Qwen3-30B-A3B-FP8-dynamic", 4, True),
        ("Qwen/Qwen3-30B-A3B-GPTQ-Int4", 8, True),
        ("openai/gpt-oss-120b", 8, True),  # MXFP4 is padded
    ],
)
def test_it_loads_where_each_rank_gets_whole_blocks_or_groups(name: str, ranks: int, loads: bool) -> None:
    assert (refusal(name, ranks) == "") is loads


def test_the_refusal_says_the_sum_and_what_runs() -> None:
    assert refusal("Qwen/Qwen3-235B-A22B-FP8", 8) == (
        "FP8 in blocks of 128 x 128: 1536 wide experts over 8 ranks are 192 each, no multiple of 128: the engine does "
        "not start. Take tensor_parallel 4, or expert parallelism, which leaves experts whole."
    )


def test_expert_parallelism_cuts_no_expert() -> None:
    assert refusal("Qwen/Qwen3-235B-A22B-FP8", 8, whole_experts=True) == ""
    assert refusal("deepseek-ai/DeepSeek-R1", 32, whole_experts=True) != ""


def test_engines_from_032_make_the_scales_of_experts_finer() -> None:
    assert refusal("Qwen/Qwen3-235B-A22B-FP8", 8, version="0.31.0") != ""
    assert refusal("Qwen/Qwen3-235B-A22B-FP8", 8, version="0.32.0") == ""
    assert refusal("Qwen/Qwen3-4B-FP8", 8, version="0.32.0") != ""


def test_a_width_that_is_not_known_refuses_nothing() -> None:
    unknown = precision.parse(None, "fp8_block", None, make_known("Nemotron-3-Nano-30B-A3B"))
    assert widths.refusal(make_known("Nemotron-3-Nano-30B-A3B"), unknown, rules_for("0.12.0"), tensor_parallel=2) == ""


def make_case(**fields: object) -> dict[str, object]:
    return {"model": "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "gpu": "H100 80GB", "num_gpus": 8,
            "tensor_parallel": 8, "vllm_version": "0.12.0", "max_model_len": 32768, **fields}  # fmt: skip


def test_the_verdict_tells_of_it() -> None:
    found = estimate.estimate(make_case())
    assert found["fits"] is False
    assert "192 each" in str(found["reason"])
    assert estimate.estimate(make_case(expert_parallel=True))["fits"] is True


def test_ranks_that_nobody_gave_are_such_that_it_loads() -> None:
    found = estimate.estimate(make_case(model="Qwen/Qwen2.5-14B-Instruct-AWQ", tensor_parallel=None))
    assert found["fits"] is True
    assert "tensor_parallel is not given; 4 was taken, of 8 cards." in found["assumptions"]  # type: ignore[operator]
