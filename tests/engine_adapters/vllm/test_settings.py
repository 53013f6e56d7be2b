from __future__ import annotations

import pytest

from controlplane.domain.desired import SettingValue
from engine_adapters.vllm import settings


def problem_of(**given: SettingValue) -> str:
    problems = settings.validate(given)
    assert len(problems) <= 1
    return problems[0].message if problems else ""


def test_no_settings_and_the_first_deployment_s_settings_are_fine() -> None:
    assert settings.validate({}) == []
    assert problem_of(enforce_eager=True, dtype="bfloat16", max_model_len=2048, max_num_seqs=16) == ""


@pytest.mark.parametrize(
    "given",
    [
        {"max_model_len": 0},
        {"max_model_len": "2048"},
        {"max_model_len": 2048.5},
        {"max_num_seqs": True},
        {"gpu_memory_utilization": 1.0},
        {"gpu_memory_utilization": float("nan")},
        {"dtype": "int3"},
        {"enforce_eager": "yes"},
        {"quantization": "fp8; rm"},
        {"quantization": 8},
        {"seed": -1},
        {"no_such_setting": 1},
        {"extra_args": "a\nb"},
    ],
)
def test_a_wrong_value_is_named_with_what_would_be_right(given: dict[str, SettingValue]) -> None:
    (problem,) = settings.validate(given)
    assert problem.field == next(iter(given))
    assert problem.message.endswith(".")


def test_a_step_needs_a_token_for_each_seat() -> None:
    assert "at least 64" in problem_of(max_num_seqs=64, max_num_batched_tokens=32)


@pytest.mark.parametrize(
    "text",
    [
        "--long-prefill-token-threshold 512",
        "--reasoning-parser deepseek_r1 --enable-auto-tool-choice",
        "--hf-overrides '{\"rope_theta\": 5e5}'",
        "--limit-mm-per-prompt={}",
        "--compilation-config.mode 3",
        "--cpu-offload-gb -1",
        "",
    ],
)
def test_further_arguments_of_the_engine_pass(text: str) -> None:
    assert problem_of(extra_args=text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "--host 0.0.0.0",
        "--host=0.0.0.0",
        "--HOST 0.0.0.0",
        "--port 1",
        "--api-key k",
        "--api_key k",
        "--api-k k",
        "--model /other",
        "--middleware other.Guard",
        "--served_model_name other",
        "--config /etc/other.yaml",
        "--uds /tmp/s",
        "--grpc",
        "--allowed-origins '[\"*\"]'",
        "--no-disable-uvicorn-access-log",
        "--no-disable-uvicorn",
        "--tensor-parallel-size 8",
        "--scheduler-cls some.module.Scheduler",
        "--tool-parser-plugin /tmp/code.py",
        "--logits-processors a.b:C",
        "--kv-transfer-config.kv_role both",
        "--enable-log-requests",
        "--hf-token secret",
    ],
)
def test_what_headworks_decides_can_t_be_given(text: str) -> None:
    assert "can't be given here" in problem_of(extra_args=text)


def test_an_option_that_is_a_setting_is_pointed_to_it() -> None:
    assert "use the setting max_model_len" in problem_of(extra_args="--max-model-len 10")
    assert "use the setting enable_prefix_caching" in problem_of(extra_args="--no-enable-prefix-caching")
    assert "use the setting max_model_len" in problem_of(extra_args="--max-model 10")
    assert "use the setting data_parallel_size" in problem_of(extra_args="--data-parallel-size 2")
    assert "use the setting enable_expert_parallel" in problem_of(extra_args="--enable-expert-parallel")


@pytest.mark.parametrize("text", ["-q fp8", "value --enable-lora", "--a 'open", "-- x", "--=x"])
def test_arguments_that_are_none_are_refused(text: str) -> None:
    assert problem_of(extra_args=text)


def test_every_field_has_words_for_a_person() -> None:
    for field in settings.FIELDS:
        assert field.label and field.help.endswith((".", "512. Options that Headworks sets itself are refused."))


def test_the_cache_is_capped_in_bytes_or_as_a_share_not_both() -> None:
    assert problem_of(kv_cache_memory_share=0.4) == ""
    assert problem_of(kv_cache_memory_share=0.4, kv_cache_memory_bytes=2**30).startswith("Give the KV cache in bytes")
    assert problem_of(kv_cache_memory_share=1.0)
