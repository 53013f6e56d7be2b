"""The planner in REST: whole answers, and refusals that name the field."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.deployments.models import LedgerRow
from controlplane.fleet.models import Pool
from tests.api.calling import error
from tests.console.making import make_variant

pytestmark = pytest.mark.services
PLAN = {"model": "Llama-3.1-8B-Instruct", "gpu": "H100 80GB", "cards_per_node": 2, "peak_requests_per_s": 10.0}


MIXTURE = {"model": "Qwen3-30B-A3B", "gpu": "H100 80GB", "cards_per_node": 4}
TRACE = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{n},{100 + n},{10 + n % 9}\n" for n in range(300))


def post(client: APIClient, what: str, body: Any) -> Any:
    return client.post(f"/api/v1/planner/{what}/", body, format="json")


def test_a_viewer_gets_the_whole_answer(viewer: APIClient) -> None:
    answer = post(viewer, "estimate", PLAN).json()
    ledger = answer["ledger"]
    assert sum(part["size_bytes"] for part in ledger["parts"]) == ledger["total_bytes"]
    assert ledger["verdict"]["fits"] is True and answer["runs"] is True
    assert len(answer["curve"]) > 3 and answer["knee"]["concurrency"] >= 1
    assert len(answer["precisions"]) == 8 and answer["triangle"] and answer["candidates"]
    assert answer["candidates"][0]["split"] == answer["split"]
    assert any("gpu_memory_utilization" in line for line in answer["assumptions"])


def test_what_does_not_fit_has_no_curve_but_the_sum(viewer: APIClient) -> None:
    answer = post(viewer, "estimate", {**PLAN, "model": "Llama-3.1-405B-Instruct"}).json()
    assert answer["ledger"]["verdict"]["fits"] is False and answer["runs"] is False
    assert answer["why_not"] and answer["curve"] == [] and answer["knee"] is None and answer["rejected"]


def test_capacity_goes_both_ways(viewer: APIClient) -> None:
    answer = post(viewer, "capacity", PLAN).json()
    assert answer["needed"]["plans"][0]["cards"] >= 1 and answer["needed"]["plans"][0]["steps"]
    assert answer["carried"]["peak_requests_per_s"] > 0
    without = post(viewer, "capacity", {name: PLAN[name] for name in ("model", "gpu")}).json()
    assert without["needed"] is None


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"cards_per_node": 8, "tensor_parallel": 3}, "tensor_parallel"),
        ({"gpu": "Voodoo 2"}, "gpu"),
        ({"gpu": ""}, "gpu"),
        ({"model": ""}, "model"),
        ({"model": "nobody"}, "model"),
        ({"variant": "none/none", "model": ""}, "variant"),
        ({"config": {"model_type": "llama"}, "model": ""}, "config"),
        ({"config": {"model_type": "llama"}}, "config"),
        ({"config": []}, "config"),
        ({"safetensors": {"weight_map": 3}}, "safetensors"),
        ({"safetensors": "text"}, "safetensors"),
        ({"max_num_seqs": -1}, "max_num_seqs"),
        ({"max_num_seqs": "4"}, "max_num_seqs"),
        ({"max_model_len": 1.5}, "max_model_len"),
        ({"gpu_memory_utilization": 7}, "gpu_memory_utilization"),
        ({"input_tokens": 1e17}, "input_tokens"),
        ({"peak_requests_per_s": True}, "peak_requests_per_s"),
        ({"mean_requests_per_s": 90}, "mean_requests_per_s"),
        ({"quantization": "int1"}, "quantization"),
        ({"dtype": "bf17"}, "dtype"),
        ({"kv_cache_dtype": "fp3"}, "kv_cache_dtype"),
        ({"purpose": "fun"}, "purpose"),
        ({"enforce_eager": "yes"}, "enforce_eager"),
        ({"sefety_factor": 0.5}, "sefety_factor"),
        ({"input_p95": 3000}, "input_p50"),
        ({"input_p50": 3000, "input_p95": 200}, "input_p95"),
        ({"input_p50": 3000, "input_tokens": 200}, "input_tokens"),
        ({"output_p50": 0}, "output_p50"),
        ({"trace": 7}, "trace"),
        ({"trace": "a,b\n1,2\n"}, "trace"),
        ({"trace": {"requests": 5}}, "trace"),
        ({"trace": TRACE, "input_tokens": 5}, "input_tokens"),
        ({"trace": TRACE, "output_p50": 5}, "output_p50"),
        ({"attention_copies": 2}, "attention_copies"),
        ({"expert_parallel": True}, "expert_parallel"),
        ({"expert_parallel": "yes"}, "expert_parallel"),
        ({**MIXTURE, "attention_copies": 2, "pipeline_parallel": 2}, "attention_copies"),
        ({**MIXTURE, "attention_copies": 2, "expert_parallel": False}, "expert_parallel"),
    ],
)
def test_a_refusal_names_the_field(viewer: APIClient, changes: dict[str, Any], field: str) -> None:
    answer = post(viewer, "capacity", {**PLAN, **changes})
    assert answer.status_code == 400, answer.json()
    assert field in error(answer)["details"]["fields"]


def test_percentiles_make_the_load(viewer: APIClient) -> None:
    asked = {**PLAN, "input_p50": 500, "input_p95": 4000, "input_p99": 8000, "output_p50": 200}
    answer = post(viewer, "estimate", asked).json()
    load = answer["workload"]
    assert (load["input_source"], load["output_source"]) == ("percentiles", "percentiles")
    assert 500 < load["input"]["mean"] < 4000 and load["input"]["p99"] == 8000
    assert load["output"]["p95"] is None  # nothing above the highest given percentile is told
    assert any("99th percentile" in line for line in answer["assumptions"])
    plain = post(viewer, "estimate", PLAN).json()
    assert answer["candidates"][0]["carried"]["requests_s"] < plain["candidates"][0]["carried"]["requests_s"]


def test_a_trace_makes_lengths_and_rates_and_its_short_form_says_the_same(viewer: APIClient) -> None:
    question = {name: PLAN[name] for name in ("model", "gpu", "cards_per_node")} | {"trace": TRACE}
    answer = post(viewer, "estimate", question).json()
    load = answer["workload"]
    assert load["rates_from_trace"] and load["mean_requests_per_s"] == pytest.approx(300 / 299)
    assert load["input"]["mean"] == pytest.approx(249.5) and "300 requests" in load["sentences"][0]
    short = post(viewer, "estimate", {**question, "trace": load["trace"]}).json()
    assert short["workload"]["trace"] == load["trace"]
    assert short["knee"]["concurrency"] == answer["knee"]["concurrency"]
    capacity = post(viewer, "capacity", question).json()
    assert capacity["needed"]["plans"] and capacity["workload"]["peak_requests_per_s"] >= 1
    own = post(viewer, "capacity", {**question, "peak_requests_per_s": 50.0}).json()
    assert not own["workload"]["rates_from_trace"]
    assert own["needed"]["plans"][0]["cards"] >= capacity["needed"]["plans"][0]["cards"]


def test_a_trace_of_rates_leaves_the_lengths_to_be_given(viewer: APIClient) -> None:
    rates = "window_start_s,total_rate_req_per_s\n0,3\n600,9\n"
    question = {"model": PLAN["model"], "gpu": PLAN["gpu"], "trace": rates, "input_tokens": 2000.0}
    load = post(viewer, "capacity", question).json()["workload"]
    assert (load["peak_requests_per_s"], load["mean_requests_per_s"], load["input"]["mean"]) == (9, 6, 2000)


def test_each_stage_that_differs_has_its_memory(viewer: APIClient) -> None:
    asked = {**PLAN, "model": "Llama-3.1-70B-Instruct", "cards_per_node": 8, "pipeline_parallel": 4}
    stages = post(viewer, "estimate", {**asked, "tensor_parallel": 2}).json()["stages"]
    assert [(one["first"], one["last"], one["cards"]) for one in stages] == [(1, 1, 2), (2, 3, 2), (4, 4, 2)]
    assert all(sum(part["size_bytes"] for part in one["parts"]) == one["total_bytes"] for one in stages)
    assert len(post(viewer, "estimate", PLAN).json()["stages"]) == 1


def test_a_split_with_experts_becomes_a_deployment(viewer: APIClient) -> None:
    asked = {**MIXTURE, "attention_copies": 4}
    answer = post(viewer, "estimate", asked).json()
    assert answer["split"]["label"] == "DP attention 4 x EP 4" and answer["deployment"]["can_start"]
    body = answer["deployment"]["body"]
    assert body["accelerators_per_replica"] == 4 and body["tensor_parallel"] == 1
    assert body["settings"] == {"data_parallel_size": 4, "enable_expert_parallel": True}
    wished = post(viewer, "estimate", {**MIXTURE, "expert_parallel": True}).json()
    assert wished["split"]["expert_parallel"] is True and wished["split_was_given"] is False


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cards_per_node": 4, "nodes": 2, "tensor_parallel": 4, "pipeline_parallel": 2}, "inside one node"),
        ({"kv_cache_dtype": "int8"}, "keeps no KV cache in INT8"),
        ({"model": "Llama-3.1-405B-Instruct"}, "more than"),
    ],
)
def test_what_headworks_can_not_start_says_why(viewer: APIClient, changes: dict[str, Any], why: str) -> None:
    deployment = post(viewer, "estimate", {**PLAN, **changes}).json()["deployment"]
    assert deployment["can_start"] is False and why in deployment["why_not"]


def test_a_body_of_two_megabytes_is_read_and_of_more_is_refused(viewer: APIClient) -> None:
    names = {f"model.layers.{n % 32}.weight_of_some_length_{n}": "model-00001-of-00002" for n in range(22_000)}
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": names}
    assert post(viewer, "estimate", {**PLAN, "safetensors": index}).status_code == 200
    answer = post(viewer, "estimate", {**PLAN, "config": {"x": "x" * 4_300_000}})
    assert answer.status_code == 413 and error(answer)["code"] == "too_large"


def test_measured_points_calibrate_the_prediction_and_say_by_how_much(viewer: APIClient) -> None:
    plain = post(viewer, "estimate", {**PLAN, "tensor_parallel": 1}).json()
    assert plain["calibration"] is None and plain["before_calibration"] is None
    point = plain["curve"][2]
    measured = {"concurrency": point["concurrency"] / plain["copies"], "tpot_ms": 1.5 * point["tpot_ms"]}
    asked = {**PLAN, "tensor_parallel": 1, "points": [{**measured, "ttft_ms": 2 * point["ttft_ms"]}]}
    answer = post(viewer, "estimate", asked).json()
    told = answer["calibration"]
    assert told["source"] == "given" and told["sentence"].startswith("Calibrated by 1 point")
    assert 1.2 < told["tpot_factor"] <= 1.5 and 1 < told["first_token_factor"] <= 2
    (row,) = told["points"]
    assert row["tpot_before_ms"] == pytest.approx(point["tpot_ms"])
    assert row["tpot_after_ms"] == pytest.approx(answer["curve"][2]["tpot_ms"])
    assert answer["before_calibration"]["tpot_ms"] == plain["candidates"][0]["at_load"]["tpot_ms"]
    carried = post(viewer, "capacity", asked).json()
    assert (
        carried["carried"]["peak_requests_per_s"]
        < post(viewer, "capacity", PLAN).json()["carried"]["peak_requests_per_s"]
    )
    assert carried["calibration"]["sentence"] == told["sentence"]


@pytest.mark.parametrize(
    "points",
    [
        [{"concurrency": 4}], [{"concurrency": 0, "tpot_ms": 20}], [{"concurrency": 4, "tpot_ms": -1}], "4 many",
        [{"concurrency": 4, "tpot_ms": 20, "colour": 1}], [{"concurrency": 4, "tpot_ms": 20}] * 17,
    ],
)  # fmt: skip
def test_points_that_are_none_are_refused_at_their_field(viewer: APIClient, points: Any) -> None:
    answer = post(viewer, "estimate", {**PLAN, "points": points})
    assert answer.status_code == 400 and any(
        name.startswith("points") for name in error(answer)["details"]["fields"]
    ), answer.json()


def test_each_candidate_has_a_ledger_of_its_own(viewer: APIClient) -> None:
    answer = post(viewer, "estimate", {**PLAN, "model": "Llama-3.1-70B-Instruct", "cards_per_node": 8}).json()
    by_split = {one["split"]["label"]: one["ledger"] for one in answer["candidates"]}
    assert by_split[answer["split"]["label"]]["parts"] == answer["ledger"]["parts"]
    weights = [
        next(part["size_bytes"] for part in ledger["parts"] if part["name"] == "weights")
        for ledger in by_split.values()
    ]
    assert len(set(weights)) > 1 and all(ledger["verdict"]["fits"] for ledger in by_split.values())


def test_the_ledger_tells_what_it_carries_at_typical_lengths(viewer: APIClient) -> None:
    ledger = post(viewer, "estimate", {**PLAN, "max_model_len": 8192}).json()["ledger"]
    held = {one["tokens"]: one["requests"] for one in ledger["concurrency_by_length"]}
    assert list(held) == [1024, 2048, 4096, 8192]
    assert held[1024] == pytest.approx(8 * held[8192]) and held[8192] == ledger["max_concurrency"]
    small = post(viewer, "estimate", {**PLAN, "model": "Llama-3.1-405B-Instruct"}).json()["ledger"]
    assert small["concurrency_by_length"] == []


def test_a_correction_is_told_with_the_starts_that_it_is_from(viewer: APIClient) -> None:
    plain = post(viewer, "estimate", PLAN).json()["ledger"]
    assert plain["correction"]["observations"] == 0 and plain["correction"]["sentence"] == ""
    measured = {"predicted_weights_bytes": 100, "measured_weights_bytes": 110}
    comparison = {**measured, "predicted_kv_bytes": None, "measured_kv_bytes": None}
    for replica in ("one", "two"):
        LedgerRow.objects.create(
            replica=replica, deployment="chat", engine_version="0.32", accelerator="H100-SXM", family="llama",
            uncorrected=comparison, measured_at=timezone.now(),
        )  # fmt: skip
    answer = post(viewer, "estimate", PLAN).json()
    for ledger in (answer["ledger"], answer["candidates"][0]["ledger"]):
        assert ledger["correction"]["observations"] == 2
        assert ledger["correction"]["weights_ratio"] == pytest.approx(1 + 0.1 * 2 / 3)
        assert ledger["correction"]["sentence"].startswith("Corrected by 2 measured starts")


def test_capacity_by_what_a_card_was_measured_to_carry(viewer: APIClient) -> None:
    asked = {**PLAN, "peak_requests_per_s": 2000.0, "tensor_parallel": 1, "requests_per_s_a_card": 20.0}
    exact = {"safety_factor": 1.0, "utilization_target": 1.0, "survive_node_loss": False}
    answer = post(viewer, "capacity", {**asked, **exact}).json()
    (plan,) = answer["needed"]["plans"]
    assert (plan["cards"], plan["hot_cards"]) == (100, 70)
    assert plan["steps"][0]["working"] == "As given, 20 requests/s a card."
    assert answer["carried"]["peak_requests_per_s"] == pytest.approx(40)
    tokens = {**PLAN, "output_tokens": 500.0, "tokens_per_s_a_card": 100.0, "tensor_parallel": 2, **exact}
    assert post(viewer, "capacity", tokens).json()["carried"]["peak_requests_per_s"] == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"requests_per_s_a_card": 20, "tokens_per_s_a_card": 100}, "tokens_per_s_a_card"),
        ({"requests_per_s_a_card": 0}, "requests_per_s_a_card"), ({"tokens_per_s_a_card": -1}, "tokens_per_s_a_card"),
    ],
)  # fmt: skip
def test_a_rate_of_a_card_that_can_not_be_is_refused_at_its_field(
    viewer: APIClient, changes: dict[str, Any], field: str
) -> None:
    answer = post(viewer, "capacity", {**PLAN, **changes})
    assert answer.status_code == 400 and field in error(answer)["details"]["fields"]


def test_what_the_ledger_knows_more_of_an_engine_counts_in_the_planner(viewer: APIClient) -> None:
    def sizes(**more: Any) -> dict[str, int]:
        asked = {**PLAN, "tensor_parallel": 1, "max_model_len": 8192, **more}
        answer = post(viewer, "estimate", asked).json()
        found = {part["name"]: part["size_bytes"] for part in answer["ledger"]["parts"]}
        return found | {"kv_bytes_per_token": answer["ledger"]["kv_bytes_per_token"]}

    plain, gib = sizes(), 2**30
    assert sizes(cpu_offload_gib=4.0)["weights"] == pytest.approx(plain["weights"] - 4 * gib, rel=0.05)
    assert sizes(max_loras=4, max_lora_rank=64)["adapters"] > 0
    assert sizes(speculative="eagle3", draft_model="/srv/eagle")["kv_bytes_per_token"] > plain["kv_bytes_per_token"]
    blocks = [
        post(viewer, "estimate", {**PLAN, "tensor_parallel": 1, "block_size": size}).json()["ledger"]["gpu_blocks"]
        for size in (16, 32)
    ]
    assert blocks[0] == pytest.approx(2 * blocks[1], rel=0.001)
    pictures = {"model": "Qwen2.5-VL-7B-Instruct"}
    assert sizes(**pictures, media="refused")["activation"] < sizes(**pictures)["activation"]


def test_what_the_times_leave_out_is_told(viewer: APIClient) -> None:
    asked = {**PLAN, "cpu_offload_gib": 4.0, "max_loras": 2}
    told = " ".join(post(viewer, "estimate", asked).json()["assumptions"])
    assert "read over PCIe in each step" in told and "without adapters" in told


def test_the_body_that_is_answered_makes_the_deployment_as_planned(viewer: APIClient, operator: APIClient) -> None:
    Pool.objects.get_or_create(name="hot")
    make_variant("llama-3.1-8b-instruct", "bf16", source="meta-llama/Llama-3.1-8B-Instruct")
    asked: dict[str, Any] = {
        "variant": "llama-3.1-8b-instruct/bf16", "gpu": "H100 80GB", "cards_per_node": 4, "tensor_parallel": 2,
        "pool": "hot", "max_model_len": 8192, "block_size": 32, "speculative": "ngram", "speculative_tokens": 4,
        "max_loras": 2, "cpu_offload_gib": 2.0, "reserve_gib": 4.0, "kv_cache_dtype": "fp8",
    }  # fmt: skip
    planned = post(viewer, "estimate", asked).json()["deployment"]
    assert planned["can_start"] and "stay free" in planned["note"]
    made = operator.put("/api/v1/deployments/planned/", planned["body"], format="json")
    assert made.status_code == 201, made.json()
    told = made.json()
    assert {name: told[name] for name in planned["body"]} == planned["body"]
    assert told["settings"]["extra_args"].startswith("--speculative-config") and told["replicas"] == 2
