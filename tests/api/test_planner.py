"""The planner in REST: whole answers, and refusals that name the field."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from tests.api.calling import error

pytestmark = pytest.mark.services
PLAN = {"model": "Llama-3.1-8B-Instruct", "gpu": "H100 80GB", "cards_per_node": 2, "peak_requests_per_s": 10.0}


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
    ],
)
def test_a_refusal_names_the_field(viewer: APIClient, changes: dict[str, Any], field: str) -> None:
    answer = post(viewer, "capacity", {**PLAN, **changes})
    assert answer.status_code == 400, answer.json()
    assert field in error(answer)["details"]["fields"]


def test_a_body_of_two_megabytes_is_read_and_of_more_is_refused(viewer: APIClient) -> None:
    names = {f"model.layers.{n}.weight_of_some_length_{n}": "model-00001-of-00002.safetensors" for n in range(20_000)}
    index = {"metadata": {"total_size": 16_060_522_496}, "weight_map": names}
    assert post(viewer, "estimate", {**PLAN, "safetensors": index}).status_code == 200
    answer = post(viewer, "estimate", {**PLAN, "config": {"x": "x" * 4_300_000}})
    assert answer.status_code == 413 and error(answer)["code"] == "too_large"
