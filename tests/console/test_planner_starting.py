"""Every choice that is made in the planner is found again in the deployment that is made from it."""

from __future__ import annotations

import json
import shlex
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.test import Client

from controlplane.deployments.models import Deployment
from controlplane.deployments.planner.inputs import NAMES
from controlplane.deployments.services import ledgers
from controlplane.domain.placement_cards import Make
from tests.console import making
from tests.console.calling import make_client

pytestmark = [pytest.mark.services, pytest.mark.django_db]
GIB = 2**30
CARD = Make("gpu", "NVIDIA H100 80GB HBM3", round(79.6 * GIB), "0.32")
BASE = {"source": "catalog", "variant": "llama-3.1-8b-instruct/bf16", "gpu": "H100 80GB", "cards_per_node": "8"}
MIXTURE = {**BASE, "variant": "qwen3-30b-a3b/bf16"}
PICTURES = {**BASE, "variant": "qwen2.5-vl-7b-instruct/bf16"}
DRAFT = {"method": "eagle3", "num_speculative_tokens": 5, "model": "/srv/models/eagle"}

# what is chosen -> what the form of the deployment has
CHOICES: list[tuple[dict[str, str], dict[str, object], dict[str, str]]] = [
    (BASE, {"variant": "llama-3.1-8b-instruct/bf16"}, {}),
    (BASE, {"pool": "hot"}, {"pool": "hot"}),
    (BASE, {"settings.gpu_memory_utilization": "0.8"}, {"gpu_memory_utilization": "0.8"}),
    (BASE, {"settings.kv_cache_memory_bytes": str(10 * GIB)}, {"kv_cache_memory_gib": "10"}),
    (BASE, {"settings.max_num_seqs": "48"}, {"max_num_seqs": "48"}),
    (BASE, {"settings.max_model_len": "4096"}, {"max_model_len": "4096"}),
    (BASE, {"settings.max_num_batched_tokens": "2048"}, {"max_num_batched_tokens": "2048"}),
    (BASE, {"settings.block_size": "32"}, {"block_size": "32"}),
    (BASE, {"settings.enforce_eager": "true"}, {"enforce_eager": "true"}),
    (BASE, {"settings.enforce_eager": "false"}, {"enforce_eager": "false"}),
    (BASE, {"settings.quantization": "fp8"}, {"quantization": "fp8"}),
    (BASE, {"settings.dtype": "float16"}, {"dtype": "fp16"}),
    (BASE, {"settings.kv_cache_dtype": "fp8"}, {"kv_cache_dtype": "fp8"}),
    (BASE, {"tensor_parallel": "4"}, {"tensor_parallel": "4"}),
    (BASE, {"tensor_parallel": "2", "pipeline_parallel": "2"}, {"tensor_parallel": "2", "pipeline_parallel": "2"}),
    (
        MIXTURE, {"settings.data_parallel_size": "4", "settings.enable_expert_parallel": "true"},
        {"attention_copies": "4"},
    ),
    (MIXTURE, {"settings.enable_expert_parallel": "true"}, {"tensor_parallel": "2", "expert_parallel": "true"}),
    (
        BASE, {"extra": {"speculative-config": {"method": "ngram", "num_speculative_tokens": 3}}},
        {"speculative": "ngram"},
    ),
    (
        BASE, {"extra": {"speculative-config": DRAFT}},
        {"speculative": "eagle3", "speculative_tokens": "5", "draft_model": "/srv/models/eagle"},
    ),
    (
        BASE, {"extra": {"enable-lora": "", "max-loras": "4", "max-lora-rank": "32"}},
        {"max_loras": "4", "max_lora_rank": "32"},
    ),
    (BASE, {"extra": {"cpu-offload-gb": "6"}}, {"cpu_offload_gib": "6"}),
    (PICTURES, {"extra": {"limit-mm-per-prompt": {"image": 0, "video": 0, "audio": 0}}}, {"media": "refused"}),
    (BASE, {"settings.gpu_memory_utilization": "0.8694"}, {"reserve_gib": "4"}),
    (BASE, {"settings.gpu_memory_utilization": "0.7494"}, {"reserve_gib": "4", "gpu_memory_utilization": "0.8"}),
]  # fmt: skip
NOT_OF_A_DEPLOYMENT = {
    "model": "the form asks for a variant of the catalog", "config": "the same", "safetensors": "the same",
    **dict.fromkeys(("gpu", "gpu_memory_total_gib", "cards_per_node", "nodes", "link_group"), "the fleet's"),
    "price_per_hour": "a node's", "vllm_version": "a node's", "foreign_gib": "what the fleet sees",
    **dict.fromkeys(
        (
            "input_tokens", "input_p50", "input_p95", "input_p99", "output_tokens", "output_p50", "output_p95",
            "output_p99", "trace", "purpose", "ttft_ms", "tpot_ms", "mean_requests_per_s", "hot_share",
            "safety_factor", "utilization_target", "survive_node_loss", "requests_per_s_a_card",
            "tokens_per_s_a_card", "points", "own_measurements",
        ),
        "makes the number of replicas and the split",
    ),
    "peak_requests_per_s": "the same: tested below",
}  # fmt: skip


@pytest.fixture
def operator() -> Client:
    making.make_pool()
    making.make_pool("hot")
    making.make_variant("llama-3.1-8b-instruct", "bf16", source="meta-llama/Llama-3.1-8B-Instruct")
    making.make_variant("qwen3-30b-a3b", "bf16", source="Qwen/Qwen3-30B-A3B")
    making.make_variant("qwen2.5-vl-7b-instruct", "bf16", source="Qwen/Qwen2.5-VL-7B-Instruct")
    return make_client("operator")


def make_from(operator: Client, values: dict[str, str]) -> tuple[dict[str, Any], Deployment]:
    """What the planner's button fills the form in with, and the deployment that the form makes as it is."""
    answer = operator.post("/planner/answer/", values)
    assert answer.status_code == 200, answer.context["problems"]
    assert answer.context["start"].can_start, answer.context["start"].why_not
    filled = dict(parse_qsl(urlsplit(answer.context["new_url"]).query))
    page = operator.get(answer.context["new_url"])
    assert page.status_code == 200
    made = operator.post("/deployments/new/", {**filled, "name": "planned"})
    assert made.status_code in (200, 302), made.context["error"]
    return filled, Deployment.objects.get(name="planned")


def options(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    words = shlex.split(text)
    for index, word in enumerate(words):
        if word.startswith("--"):
            value = words[index + 1] if index + 1 < len(words) and not words[index + 1].startswith("--") else ""
            found[word[2:]] = json.loads(value) if value.startswith("{") else value
    return found


@pytest.mark.parametrize(("base", "expected", "chosen"), CHOICES, ids=lambda value: "-".join(value)[:50])
def test_a_choice_survives(
    operator: Client, base: dict[str, str], expected: dict[str, Any], chosen: dict[str, str]
) -> None:
    filled, made = make_from(operator, {**base, **chosen})
    for name, value in expected.items():
        if name == "extra":
            assert options(filled["settings.extra_args"]) == value
        else:
            assert filled[name] == value, name
    kept = {**made.revision.spec, **made.revision.spec["settings"]} if made.revision else {}
    for name, value in filled.items():
        short = name.removeprefix("settings.")
        if short in kept:
            assert str(kept[short]).lower() == value.lower(), name
        elif short == "pool":
            assert made.pool.name == value


def test_all_choices_of_one_deployment_survive_together(operator: Client) -> None:
    chosen = {
        "pool": "hot", "gpu_memory_utilization": "0.85", "max_num_seqs": "48", "max_model_len": "4096",
        "max_num_batched_tokens": "2048", "block_size": "32", "enforce_eager": "true", "quantization": "fp8",
        "kv_cache_dtype": "fp8", "tensor_parallel": "2", "speculative": "ngram", "max_loras": "2",
        "cpu_offload_gib": "1", "reserve_gib": "2", "gpu_memory_total_gib": "79.6",
    }  # fmt: skip
    planned = operator.post("/planner/answer/", {**BASE, **chosen}).context["ledger"]
    filled, made = make_from(operator, {**BASE, **chosen})
    assert made.revision is not None and made.pool.name == "hot"
    assert made.replicas_wanted == int(filled["replicas"]) == 4
    started = ledgers.of_spec(made.variant, made.revision.spec, CARD)
    assert isinstance(started, ledgers.Known)
    budget = started.ledger.budget
    assert (budget.weights_bytes, budget.adapter_bytes) == (planned.budget.weights_bytes, planned.budget.adapter_bytes)
    assert started.ledger.tokens == pytest.approx(planned.tokens, rel=0.002)
    assert started.ledger.layout.block_tokens == planned.layout.block_tokens == 32


def test_what_is_to_stay_free_is_free_in_the_deployment_too(operator: Client) -> None:
    chosen = {"reserve_gib": "6", "gpu_memory_total_gib": "79.6", "tensor_parallel": "1", "max_model_len": "8192"}
    answer = operator.post("/planner/answer/", {**BASE, **chosen})
    assert "becomes 0.8446" in answer.context["start"].note
    made = make_from(operator, {**BASE, **chosen})[1]
    assert made.revision is not None
    started = ledgers.of_spec(made.variant, made.revision.spec, CARD)
    assert isinstance(started, ledgers.Known)
    assert started.ledger.tokens == pytest.approx(answer.context["ledger"].tokens, rel=0.002)


def test_pictures_that_are_refused_are_not_profiled_in_the_deployment_either(operator: Client) -> None:
    chosen = {"media": "refused", "tensor_parallel": "1", "max_model_len": "8192", "gpu_memory_total_gib": "79.6"}
    planned = operator.post("/planner/answer/", {**PICTURES, **chosen}).context["ledger"]
    made = make_from(operator, {**PICTURES, **chosen})[1]
    assert made.revision is not None and planned.setup.multimodal_tokens == 0
    started = ledgers.of_spec(made.variant, made.revision.spec, CARD)
    assert isinstance(started, ledgers.Known) and started.ledger.tokens == planned.tokens


def test_a_plan_makes_the_number_of_replicas(operator: Client) -> None:
    values = {**BASE, "tensor_parallel": "1", "peak_requests_per_s": "100", "requests_per_s_a_card": "10"}
    filled, made = make_from(operator, values)
    plan = operator.post("/planner/answer/", values).context["capacity"].needed.best.plan
    assert made.replicas_wanted == int(filled["replicas"]) == plan.replicas > 10


def test_every_field_of_the_planner_is_carried_over_or_said_not_to_be() -> None:
    carried = {name for base, _, chosen in CHOICES for name in (*chosen, *(set(base) & {"variant"}))}
    missing = set(NAMES) - carried - set(NOT_OF_A_DEPLOYMENT)
    assert missing == set(), "add what becomes of it to CHOICES or NOT_OF_A_DEPLOYMENT"
    assert set(NOT_OF_A_DEPLOYMENT) <= set(NAMES) and not set(NOT_OF_A_DEPLOYMENT) & carried


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"peak_requests_per_s": "100000", "requests_per_s_a_card": "10"}, "more than the 1024 that one deployment"),
        ({"speculative": "eagle3"}, "The draft model is not given"),
        ({"kv_cache_dtype": "int8"}, "keeps no KV cache in INT8"),
    ],
)
def test_what_can_not_be_started_is_disabled_with_its_reason(
    operator: Client, changes: dict[str, str], why: str
) -> None:
    answer = operator.post("/planner/answer/", {**BASE, "tensor_parallel": "1", **changes})
    assert why in answer.context["start"].why_not and not answer.context["start"].can_start
    assert "disabled aria-describedby" in answer.content.decode()


def test_a_length_that_rotary_scaling_allows_can_be_started(operator: Client) -> None:
    config = {
        "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "max_position_embeddings": 32768,
    }  # fmt: skip
    scaling = {"rope_type": "linear", "factor": 4.0}
    values = {"source": "config", "gpu": "H100 80GB", "max_model_len": "100000"}
    plain = operator.post("/planner/answer/", {**values, "config": json.dumps(config)})
    scaled = operator.post("/planner/answer/", {**values, "config": json.dumps({**config, "rope_scaling": scaling})})
    assert "32768 tokens" in plain.context["start"].why_not
    assert scaled.context["start"].can_start


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"pool": "nowhere"}, "pool"), ({"speculative": "magic"}, "speculative"),
        ({"speculative": "mtp"}, "speculative"),
        ({"draft_model": "/x"}, "draft_model"), ({"speculative_tokens": "4"}, "speculative_tokens"),
        ({"max_lora_rank": "7", "max_loras": "1"}, "max_lora_rank"), ({"media": "some"}, "media"),
        ({"block_size": "7"}, "block_size"), ({"cpu_offload_gib": "-1"}, "cpu_offload_gib"),
    ],
)  # fmt: skip
def test_a_setting_that_can_not_be_is_told_at_its_field(operator: Client, changes: dict[str, str], field: str) -> None:
    answer = operator.post("/planner/answer/", {**BASE, **changes})
    assert answer.status_code == 422 and list(answer.context["problems"]) == [field]
