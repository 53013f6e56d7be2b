from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain import estimate_performance
from controlplane.domain.specs import known_models
from controlplane.domain.specs.model import ModelFacts
from tests.domain.performance.setups import make_dense

SHARED = Path(os.environ.get("HEADWORKS_SHARED", Path(__file__).resolve().parents[3] / "shared"))
SWEEPS = SHARED / "data/perf/sweeps.json"
RESULTS = ("_mean_ms", "_p50_ms", "_p95_ms", "_p99_ms", "_tok_s")


def find_model(name: str) -> ModelFacts | None:
    return make_dense() if name == "dense-13b" else None


def make_case(**fields: Any) -> dict[str, Any]:
    case: dict[str, Any] = {
        "id": "a", "model": "dense-13b", "dtype": "bf16", "gpu": "H100-SXM", "gpu_count": 1, "tp": 1, "engine": "vllm",
        "input_len": 1000, "output_len": 200, "load_mode": "closed_loop", "concurrency": 8,
    }  # fmt: skip
    return {**case, **fields}


def ask(*cases: object, calibrate: bool = False) -> list[dict[str, Any]]:
    return estimate_performance.run(list(cases), calibrate=calibrate, find_model=find_model)


def test_a_case_gets_latency_and_throughput() -> None:
    (answer,) = ask(make_case())
    assert answer["case_id"] == "a"
    assert 7 < answer["tpot_ms"] < 25
    assert 50 < answer["ttft_ms"] < 1000
    assert 300 < answer["output_tok_s"] < 8 * 1000 / answer["tpot_ms"]


def test_case_id_wins_over_id() -> None:
    assert ask(make_case(case_id=7))[0]["case_id"] == 7


@pytest.mark.parametrize("name", [float("nan"), float("inf"), ["a"], {"a": 1}])
def test_a_name_that_is_none_is_dropped(name: object) -> None:
    (answer,) = ask(make_case(case_id=name))
    assert answer["case_id"] is None
    assert ask(make_case(case_id=None))[0]["case_id"] == "a"
    json.dumps(answer, allow_nan=False)


def test_a_model_that_writes_nothing_has_no_time_a_token() -> None:
    case = make_case(model="BAAI/bge-m3")
    answer: Any = estimate_performance.run([case], calibrate=False, find_model=known_models.find)[0]
    assert "writes" in answer["error"]["fields"]["model"]


def test_more_stages_than_cards_are_refused_by_their_own_field() -> None:
    assert "pp" in ask(make_case(pp=99))[0]["error"]["fields"]


def test_no_cases_no_answers() -> None:
    assert ask() == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("gpu", "Quantum 9000"),
        ("gpu", None),
        ("gpu", 5),
        ("gpu", "x" * 100_000),
        ("model", ["a"]),
        ("model", {"a": {"b": {}}}),
        ("concurrency", -1),
        ("concurrency", 0),
        ("concurrency", float("nan")),
        ("concurrency", 1e30),
        ("concurrency", "8"),
        ("concurrency", True),
        ("input_len", -5),
        ("input_len", [1000]),
        ("output_len", 1e300),
        ("output_len", 10**400),
        ("gpu_count", 0),
        ("gpu_count", 1.5),
        ("tp", 2),
        ("tp", -1),
        ("dtype", "ternary"),
        ("dtype", 16),
        ("kv_cache_dtype", "int1"),
        ("load_mode", "sometimes"),
        ("request_rate", float("inf")),
        ("params_b", "7B"),
    ],
)
def test_a_value_that_can_not_be_is_named(field: str, value: object) -> None:
    wrong, right = ask(make_case(**{field: value}), make_case())
    assert list(wrong["error"]["fields"]) == [field]
    assert wrong["error"]["fields"][field]
    assert len(json.dumps(wrong)) < 1000
    assert "tpot_ms" in right


@pytest.mark.parametrize("case", [None, 5, "text", [], [[[]]]])
def test_what_is_no_object_is_an_error_of_its_own(case: object) -> None:
    wrong, right = ask(case, make_case())
    assert wrong["error"]["code"]
    assert wrong["case_id"] is None
    assert "tpot_ms" in right


def test_an_unknown_model_needs_its_size() -> None:
    wrong, sized = ask(
        make_case(model="nobody/knows"), make_case(model="nobody/knows", params_b=13, active_params_b=13)
    )
    assert list(wrong["error"]["fields"]) == ["model"]
    known = ask(make_case())[0]
    assert sized["tpot_ms"] == pytest.approx(known["tpot_ms"], rel=0.3)
    assert any("architecture" in sentence for sentence in sized["assumptions"])


def test_more_active_than_all_parameters_is_refused() -> None:
    (wrong,) = ask(make_case(model="x", params_b=7, active_params_b=70))
    assert "active_params_b" in wrong["error"]["fields"]


def test_measured_lengths_win_over_nominal_ones() -> None:
    nominal, measured = ask(make_case(), make_case(input_len_mean=100, output_len_mean=20))
    assert measured["ttft_ms"] < nominal["ttft_ms"]


def test_unknown_lengths_are_assumed_and_said() -> None:
    (answer,) = ask(make_case(input_len=None, output_len=None))
    assert sum("ShareGPT" in sentence for sentence in answer["assumptions"]) == 2


def test_a_measured_point_corrects_its_series_and_no_other() -> None:
    plain = ask(make_case(series_id="s"), make_case(series_id="t"))
    slow = make_case(series_id="s", concurrency=16, tpot_mean_ms=60.0)
    answers = ask(make_case(series_id="s"), make_case(series_id="t"), slow, calibrate=True)
    assert answers[0]["tpot_ms"] > 1.5 * plain[0]["tpot_ms"]
    assert answers[0]["calibrated_from"] == 1
    assert answers[1]["tpot_ms"] == plain[1]["tpot_ms"]


def test_a_measured_first_token_corrects_that_of_the_series() -> None:
    plain = ask(make_case(series_id="s"))[0]
    point = make_case(series_id="s", concurrency=16, tpot_mean_ms=16.0, ttft_mean_ms=3 * plain["ttft_ms"])
    assert ask(make_case(series_id="s"), point, calibrate=True)[0]["ttft_ms"] > 1.5 * plain["ttft_ms"]


def test_a_row_is_never_answered_from_its_own_result() -> None:
    case = make_case(series_id="s", tpot_mean_ms=60.0)
    assert ask(case, calibrate=True)[0]["tpot_ms"] == ask(case)[0]["tpot_ms"]


@pytest.mark.parametrize("result", [0, -5, float("nan"), "12", True, [1], 1e30, 10**400])
def test_a_result_that_can_not_be_is_no_measured_point(result: object) -> None:
    answers = ask(make_case(series_id="s"), make_case(series_id="s", tpot_mean_ms=result), calibrate=True)
    assert "calibrated_from" not in answers[0]


def test_a_rate_a_set_up_can_keep_up_with_is_met() -> None:
    (answer,) = ask(make_case(load_mode="open_loop", concurrency=None, request_rate=0.5))
    assert answer["output_tok_s"] == pytest.approx(100, rel=0.02)


def test_a_burst_waits_far_longer_for_its_first_token() -> None:
    calm, burst = ask(make_case(), make_case(load_mode="burst", concurrency=None, num_requests=2000))
    assert burst["ttft_ms"] > 10 * calm["ttft_ms"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(make_case())), JSON)
def test_any_value_in_any_field_gives_an_answer_or_an_error(field: str, value: object) -> None:
    (answer,) = ask(make_case(**{field: value}), calibrate=True)
    json.dumps(answer, allow_nan=False)
    assert ("error" in answer) != ("tpot_ms" in answer)
    if "tpot_ms" in answer:
        assert 0 < answer["tpot_ms"] < 1e9
        assert 0 < answer["output_tok_s"] < 1e9


@pytest.mark.skipif(not SWEEPS.exists(), reason="HEADWORKS_SHARED is not there")
def test_published_sweeps_are_answered_near_what_was_measured() -> None:
    cases = json.loads(SWEEPS.read_text())
    asked = [{name: value for name, value in case.items() if not name.endswith(RESULTS)} for case in cases]
    answers: list[dict[str, Any]] = estimate_performance.run(asked, calibrate=False)
    errors = sorted(
        abs(answer["tpot_ms"] / case["tpot_mean_ms"] - 1)
        for answer, case in zip(answers, cases, strict=True)
        if case["engine"] in {"vllm", "sglang"}
    )
    assert errors[len(errors) // 2] < 0.15
