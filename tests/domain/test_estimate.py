from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import ledger as benchmark
from benchmarks import ledger_cross_validation
from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError

ARCHITECTURE = {
    "total_params": 8030261248,
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
ANSWERED = {
    "case_id", "weights_gib", "kv_bytes_per_token", "non_torch_gib", "activation_peak_gib", "cudagraph_gib",
    "kv_cache_gib", "kv_cache_tokens", "gpu_blocks", "max_concurrency", "fits", "needed_gib", "estimated_max_len",
    "assumptions",
}  # fmt: skip


def make_case(**fields: Any) -> dict[str, Any]:
    return {
        "case_id": 1,
        "model": "meta-llama/Llama-3.1-8B-Instruct",
        "gpu": "A100 80GB",
        "max_model_len": 8192,
        "vllm_version": "0.11.0",
        **fields,
    }


def refused(**fields: Any) -> dict[str, str]:
    with pytest.raises(RefusedError) as error:
        estimate.estimate(make_case(**fields))
    return error.value.fields


def test_a_case_gets_every_figure() -> None:
    found = estimate.estimate(make_case())
    assert set(found) >= ANSWERED
    assert found["fits"] is True
    assert found["kv_bytes_per_token"] == 131072
    assert found["needed_gib"] == 1.0


def test_a_described_model_needs_no_known_name() -> None:
    named, described = (
        estimate.estimate(make_case()),
        estimate.estimate(make_case(model="x", architecture=ARCHITECTURE)),
    )
    assert described["kv_bytes_per_token"] == named["kv_bytes_per_token"]
    assert described["weights_gib"] == pytest.approx(named["weights_gib"], rel=0.005)


def test_an_unknown_model_is_asked_for_its_architecture() -> None:
    assert "architecture" in refused(model="(unnamed)")
    assert "model" in refused(model=None)


def test_a_description_that_disagrees_with_the_name_goes_first() -> None:
    found = estimate.estimate(make_case(architecture={**ARCHITECTURE, "num_hidden_layers": 16}))
    assert found["kv_bytes_per_token"] == 65536


def test_a_given_cache_decides_without_a_card() -> None:
    for cap, fits in ((1.01, True), (0.98, False)):
        found = estimate.estimate(make_case(gpu=None, kv_cache_memory_gib=cap))
        assert (found["fits"], found["kv_cache_gib"]) == (fits, cap)


def test_without_a_card_the_cache_is_not_guessed() -> None:
    found = estimate.estimate(make_case(gpu=None))
    assert (found["fits"], found["kv_cache_gib"], found["gpu_blocks"]) == (None, None, None)
    assert found["weights_gib"]


def test_what_was_assumed_is_told() -> None:
    notes = " ".join(estimate.estimate({"model": "Qwen/Qwen3-8B", "gpu": "24GB card"})["assumptions"])  # type: ignore[arg-type]
    for name in ("vllm_version", "gpu_memory_total_gib", "gpu_memory_utilization", "max_model_len", "max_num_seqs"):
        assert name in notes


def test_all_cards_work_together_where_ranks_are_not_given() -> None:
    found = estimate.estimate(make_case(num_gpus=4))
    assert found["kv_bytes_per_token"] == 131072 / 4


def test_so_many_cards_work_together_as_divide_the_heads() -> None:
    found = estimate.estimate(make_case(num_gpus=6))
    assert found["kv_bytes_per_token"] == 131072 / 4
    assert any("4 was taken, of 6 cards" in note for note in found["assumptions"])  # type: ignore[attr-defined]


def test_a_name_may_say_how_the_files_are_quantized() -> None:
    plain, small, phi = (
        estimate.estimate(make_case(model=name, architecture={**ARCHITECTURE, "num_hidden_layers": 30}))["weights_gib"]
        for name in ("acme/Foo-8B", "acme/Foo-8B-AWQ", "acme/Fooi-4-8B")
    )
    assert isinstance(plain, float)
    assert isinstance(small, float)
    assert small < plain / 2
    assert phi == plain


def test_a_batch_that_leaves_no_room_is_taken_smaller_where_it_was_not_given() -> None:
    """gpt-oss-120b serves on one H100, though 1024 rows of 201,088 logits would not fit beside it."""
    case = make_case(model="openai/gpt-oss-120b", gpu="H100", vllm_version="0.11.0", tensor_parallel=1)
    found = estimate.estimate(case)
    assert found["fits"] is True
    assert any("256 were taken" in note for note in found["assumptions"])  # type: ignore[attr-defined]
    assert estimate.estimate({**case, "max_num_seqs": 1024})["fits"] is False


def test_weights_beyond_one_card_decide_nothing_where_ranks_are_not_known() -> None:
    found = estimate.estimate(make_case(model="meta-llama/Llama-3.1-405B-Instruct"))
    assert found["fits"] is None
    assert estimate.estimate(make_case(model="meta-llama/Llama-3.1-405B-Instruct", tensor_parallel=1))["fits"] is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tensor_parallel", 3),
        ("tensor_parallel", -1),
        ("tensor_parallel", "two"),
        ("pipeline_parallel", 0),
        ("pipeline_parallel", 33),
        ("gpu", "Flux Capacitor"),
        ("gpu", ["H100"]),
        ("gpu_memory_total_gib", -80),
        ("gpu_memory_total_gib", float("nan")),
        ("gpu_memory_total_gib", 1e30),
        ("gpu_memory_total_gib", 1e-9),
        ("gpu_memory_total_gib", 80_000),
        ("gpu_memory_utilization", 1.5),
        ("gpu_memory_utilization", 0),
        ("max_model_len", -5),
        ("max_model_len", 1e30),
        ("max_model_len", 4096.5),
        ("max_num_seqs", 0),
        ("max_num_batched_tokens", True),
        ("block_size", 0),
        ("block_size", -1),
        ("block_size", 7),
        ("block_size", 24),
        ("cpu_offload_gb", -1),
        ("kv_cache_memory_gib", 0),
        ("dtype", "float3"),
        ("quantization", {"deep": {}}),
        ("kv_cache_dtype", "int17"),
        ("enforce_eager", "yes"),
        ("architecture", [1]),
        ("architecture", {"total_params": -1}),
        ("architecture", {**ARCHITECTURE, "mamba_layers": 4096}),
        ("vllm_version", 0.11),
        ("vllm_version", "abc"),
        ("architecture", {**ARCHITECTURE, "total_params": 8030}),
        ("speculative", "eagle -5"),
        ("model", 5),
    ],
)
def test_what_cannot_be_is_refused_by_name(field: str, value: object) -> None:
    assert any(field in name for name in refused(**{field: value}))


def test_more_ranks_than_cards_are_refused() -> None:
    assert any("num_gpus" in name for name in refused(num_gpus=2, tensor_parallel=8))


def test_a_step_holds_a_token_of_each_request() -> None:
    names = refused(max_num_seqs=256, max_num_batched_tokens=64)
    assert any("max_num_batched_tokens" in name for name in names)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(benchmark.FIELDS), anything, max_size=8))
def test_nothing_makes_it_stumble(fields: dict[str, Any]) -> None:
    """Whatever comes in, out comes an answer of finite numbers or a refusal that names a field."""
    for case in (fields, {**make_case(), **fields}):
        try:
            json.dumps(estimate.estimate(case), allow_nan=False)
        except RefusedError as error:
            assert error.fields
            json.dumps(estimate.refusal(case, error), allow_nan=False)


@given(
    st.sampled_from(["0.6.4", "0.7.2", "0.8.5", "0.11.0", "0.21.0", "0.32.0", None]),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 10**9),
    st.integers(1, 10**6),
    st.floats(0.01, 1.0),
)
def test_a_cache_below_one_requests_need_never_fits(
    version: str | None, ranks: int, length: int, sequences: int, utilization: float
) -> None:
    case = make_case(
        vllm_version=version,
        tensor_parallel=ranks,
        max_model_len=length,
        max_num_seqs=sequences,
        gpu_memory_utilization=utilization,
    )
    needed = estimate.estimate(case)["needed_gib"]
    assert isinstance(needed, float)
    assert estimate.estimate({**case, "kv_cache_memory_gib": needed * 0.98})["fits"] is False


@pytest.fixture
def logged(shared_data: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    folder = shared_data / "ledger"
    return json.loads((folder / "cases.json").read_text()), json.loads((folder / "models.json").read_text())


@pytest.mark.parametrize("by_name", [False, True])
def test_estimates_come_as_near_to_logged_starts_as_they_should(
    logged: tuple[list[dict[str, Any]], dict[str, Any]], by_name: bool
) -> None:
    cases, models = logged[0], {} if by_name else logged[1]
    answers = {case["case_id"]: benchmark.ask(benchmark.setup_of(case, models)) for case in cases}
    figures = benchmark.score(cases, models, answers)
    kv = figures["kv_bytes_per_token"]
    assert kv["cases"] >= 31
    assert kv["p90_percent"] <= 0.1
    assert kv["beyond_0.1_percent_and_rounding"] <= 1
    assert figures["weights"]["median_percent"] <= 0.5
    assert figures["kv_gib_end_to_end"]["median_percent"] <= 3
    assert figures["kv_gib_end_to_end"]["p90_percent"] <= 8
    needed = figures["needed_gib_of_refused"]
    assert needed["median_percent"] <= 0.2
    assert needed["largest_percent"] <= 5  # whether a recurrent state takes one block or two, its log does not say
    assert figures["verdict"]["share_right"] >= 0.95


def test_learned_constants_hold_on_sources_they_do_not_come_from(
    logged: tuple[list[dict[str, Any]], dict[str, Any]],
) -> None:
    figures = ledger_cross_validation.cross_validate(*logged)
    assert figures["kv_gib_end_to_end_left_out"]["median_percent"] <= 3
    assert figures["kv_gib_end_to_end_left_out"]["p90_percent"] <= 8
    for name, value in figures["constants"].items():
        assert figures["in_use"][name] == pytest.approx(value, rel=0.5), name


@pytest.mark.parametrize(("engine", "told"), [("sglang", True), ("TensorRT-LLM", True), ("V1", False), ("vLLM", False)])
def test_engines_other_than_vllm_are_told_by_whose_rules_they_were_summed_up(engine: str, told: bool) -> None:
    found: Any = estimate.estimate(make_case(engine=engine))
    assert any("by the rules of vLLM" in one for one in found["assumptions"]) == told


def test_an_old_card_runs_the_old_engine_where_no_other_is_named() -> None:
    old = {"model": "Qwen/Qwen2.5-3B-Instruct", "gpu": "T4", "vllm_version": "0.8.5", "max_model_len": 32768}
    unsaid, named = (estimate.estimate(make_case(**old, engine=engine)) for engine in (None, "V0"))
    assert unsaid["kv_cache_gib"] == named["kv_cache_gib"]
    notes = unsaid["assumptions"]
    assert isinstance(notes, list)
    assert [note for note in notes if "engine is not given" in note] == [
        "V0 was taken, as engine is not given: before 0.10.2 it ran cards below compute capability 8.0."
    ]


@pytest.mark.parametrize(
    ("fields", "kv_bytes"),
    [
        ({}, 163_840),
        ({"kv_cache_dtype": "bfloat16"}, 327_680),
        ({"vllm_version": "0.10.2"}, 327_680),
        ({"model": "nvidia/Llama-3.3-70B-Instruct-FP8"}, 163_840),
        ({"model": "RedHatAI/Llama-3.3-70B-Instruct-NVFP4"}, 327_680),
        ({"model": "nvidia/Llama-3.3-70B-Instruct"}, 327_680),
    ],
)
def test_nvidias_own_files_decide_the_cache(fields: dict[str, Any], kv_bytes: int) -> None:
    case = {"model": "nvidia/Llama-3.3-70B-Instruct-NVFP4", "gpu": "B200", "vllm_version": "0.12.0"}
    assert estimate.estimate(make_case(**{**case, **fields}))["kv_bytes_per_token"] == kv_bytes


def test_blocks_of_latent_attention_follow_the_card() -> None:
    latent = {"model": "deepseek-ai/DeepSeek-V2-Lite-Chat", "vllm_version": "0.9.0", "kv_cache_memory_gib": 4.0}
    ampere, hopper = (estimate.estimate(make_case(**latent, gpu=gpu))["gpu_blocks"] for gpu in ("A100 40GB", "H100"))
    assert (ampere, hopper) == (4 * 2**30 // (16 * 27 * 1152), 4 * 2**30 // (64 * 27 * 1152))
