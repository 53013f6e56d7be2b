"""The planner's page and its answers."""

from __future__ import annotations

import html
import json
from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.console import planner_answer
from controlplane.deployments.models import LedgerRow
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.parallelism.split import Split
from tests.console import making
from tests.console.calling import make_client

pytestmark = pytest.mark.services
LLAMA = {"source": "known", "model": "Llama-3.1-8B-Instruct", "gpu": "H100 80GB"}
CONFIG = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 8192,
}  # fmt: skip


@pytest.fixture
def viewer(db: None) -> Client:
    return make_client("viewer")


def test_an_empty_page_teaches_the_next_step(viewer: Client) -> None:
    page = viewer.get("/planner/").content.decode()
    assert "Choose a model and cards" in page and "Show an example" in page
    assert 'href="/planner/"' in page


def test_the_address_holds_the_question(viewer: Client) -> None:
    page = viewer.get("/planner/", {**LLAMA, "max_num_seqs": "64", "peak_requests_per_s": "5"}).content.decode()
    assert 'value="64"' in page and "Fits" in page and "Cards for this load" in page


def test_the_answer_tells_what_does_not_fit(viewer: Client) -> None:
    answer = viewer.post("/planner/answer/", {**LLAMA, "model": "Llama-3.1-70B-Instruct"})
    assert answer.status_code == 200
    assert "Does not fit" in answer.content.decode() and "is more than the" in answer.content.decode()


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("max_num_seqs", "-5"), ("max_num_seqs", "many"), ("gpu_memory_utilization", "NaN"), ("max_model_len", "1e30"),
        ("tensor_parallel", "3"), ("gpu", "Voodoo 2"), ("quantization", "int1"), ("model", "nobody's-model"),
        ("kv_cache_memory_gib", "0"), ("mean_requests_per_s", "99"), ("purpose", "fun"), ("cards_per_node", "1e3"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(viewer: Client, field: str, text: str) -> None:
    values = {**LLAMA, "cards_per_node": "8", "peak_requests_per_s": "1", field: text}
    answer = viewer.post("/planner/answer/", values)
    assert answer.status_code == 422
    assert list(answer.context["problems"]) == [field] and answer.context["problems"][field]


@pytest.mark.parametrize(
    "text", ["no json", "[]", "[" * 100_000, "{}", '{"hidden_size": -1}', json.dumps(CONFIG | {"hidden_size": "many"})]
)
def test_a_config_that_is_none_is_told_at_its_field(viewer: Client, text: str) -> None:
    answer = viewer.post("/planner/answer/", {"source": "config", "config": text, "gpu": "H100"})
    assert answer.status_code == 422 and list(answer.context["problems"]) == ["config"]


def test_a_config_of_two_megabytes_is_told_at_its_field(viewer: Client) -> None:
    config = json.dumps(CONFIG | {"more": "x" * 2_000_000})
    answer = viewer.post("/planner/answer/", {"source": "config", "config": config, "gpu": "H100"})
    assert answer.status_code == 422 and list(answer.context["problems"]) == ["config"]


def test_a_pasted_config_is_answered(viewer: Client) -> None:
    answer = viewer.post("/planner/answer/", {"source": "config", "config": json.dumps(CONFIG), "gpu": "H100"})
    assert answer.status_code == 200 and answer.context["answer"].question.model.parameters > 7e9


def test_an_uploaded_index_makes_the_weights_exact(viewer: Client) -> None:
    index = {
        "metadata": {"total_size": 16_060_522_496},
        "weight_map": {f"model.layers.{n}.mlp.up_proj.weight": "a" for n in range(32)},
    }
    short = viewer.post("/planner/files/", json.dumps(index), content_type="application/json").json()["safetensors"]
    assert len(short) < 200
    answer = viewer.post("/planner/answer/", {**LLAMA, "safetensors": short})
    assert answer.context["answer"].question.model.weight_bytes == 16_060_522_496


@pytest.mark.parametrize(
    "body", ["{}", "[]", "nothing", '{"weight_map": 3}', "[" * 100_000, "x" * (2 * 1024 * 1024 + 1)]
)
def test_a_file_that_is_no_index_is_refused(viewer: Client, body: str) -> None:
    answer = viewer.post("/planner/files/", body, content_type="application/json")
    assert answer.status_code == 422 and answer.json()["problem"]


def test_a_deployment_follows_from_the_plan() -> None:
    making.make_pool()
    making.make_variant("llama-3.1-8b-instruct", "bf16", source="meta-llama/Llama-3.1-8B-Instruct")
    operator = make_client("operator")
    values = {
        "source": "catalog", "variant": "llama-3.1-8b-instruct/bf16", "gpu": "H100 80GB", "cards_per_node": "2",
        "tensor_parallel": "2", "max_model_len": "4096", "kv_cache_memory_gib": "10",
    }  # fmt: skip
    address = operator.post("/planner/answer/", values).context["new_url"]
    asked = parse_qs(urlsplit(address).query)
    assert asked["variant"] == ["llama-3.1-8b-instruct/bf16"] and asked["tensor_parallel"] == ["2"]
    assert asked["settings.max_model_len"] == ["4096"]
    assert asked["settings.kv_cache_memory_bytes"] == [str(10 * 2**30)]
    page = operator.get(address).content.decode()
    assert 'value="4096"' in page and str(10 * 2**30) in page


test_a_deployment_follows_from_the_plan = pytest.mark.django_db(test_a_deployment_follows_from_the_plan)


@pytest.mark.django_db
def test_weights_that_nobody_has_made_can_not_be_started() -> None:
    making.make_pool()
    making.make_variant("llama-3.1-8b-instruct", "bf16", source="meta-llama/Llama-3.1-8B-Instruct")
    operator = make_client("operator")
    values = {"source": "catalog", "variant": "llama-3.1-8b-instruct/bf16", "gpu": "H100 80GB", "quantization": "int4"}
    answer = operator.post("/planner/answer/", values)
    assert "Weights in INT4 have to lie in the model&#x27;s files" in answer.content.decode()
    made = operator.post("/planner/answer/", {**values, "quantization": "fp8"})
    assert "settings.quantization=fp8" in made.context["new_url"]


@pytest.mark.django_db
def test_experts_go_into_the_form_of_a_deployment() -> None:
    making.make_pool()
    operator = make_client("operator")
    values = {
        "source": "known",
        "model": "Qwen3-30B-A3B",
        "gpu": "H100",
        "cards_per_node": "4",
        "attention_copies": "4",
    }
    address = operator.post("/planner/answer/", values).context["new_url"]
    asked = parse_qs(urlsplit(address).query)
    assert asked["settings.data_parallel_size"] == ["4"] and asked["settings.enable_expert_parallel"] == ["true"]
    page = operator.get(address).content.decode()
    assert "Copies of attention" in page and "Whole experts on ranks" in page


def test_a_trace_is_cut_down_to_what_an_address_holds(viewer: Client) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:{n // 60:02}:{n % 60:02}.5,{500 + n},{20 + n % 30}\n" for n in range(600)
    )
    found = viewer.post("/planner/trace/", text, content_type="text/plain").json()
    assert found["kind"] == "lengths" and len(found["trace"]) < 500
    answer = viewer.post("/planner/answer/", {**LLAMA, "trace": found["trace"], "input_tokens": "5", "input_p50": "x"})
    page = answer.content.decode()
    assert "The load as it was understood" in page and "600 requests in" in page
    assert answer.context["asked"].input.mean == pytest.approx(799.5)


@pytest.mark.parametrize("body", ["", "a,b\n1,2", b"\xff\xfe", "x" * (2 * 1024 * 1024 + 1)])
def test_what_is_no_trace_is_refused(viewer: Client, body: str | bytes) -> None:
    answer = viewer.post("/planner/trace/", body, content_type="text/plain")
    assert answer.status_code == 422 and answer.json()["problem"]


@pytest.mark.parametrize("text", ["[]", "{}", '{"requests": 4}', "nothing"])
def test_a_trace_that_was_tampered_with_is_told_at_its_field(viewer: Client, text: str) -> None:
    answer = viewer.post("/planner/answer/", {**LLAMA, "trace": text})
    assert answer.status_code == 422 and list(answer.context["problems"]) == ["trace"]


def test_percentiles_count_only_where_they_are_chosen(viewer: Client) -> None:
    values = {**LLAMA, "input_tokens": "900", "input_p50": "100", "input_p95": "50"}
    assert viewer.post("/planner/answer/", values).context["asked"].input.mean == 900
    wrong = viewer.post("/planner/answer/", {**values, "lengths": "percentiles"})
    assert list(wrong.context["problems"]) == ["input_p95"]


def test_stages_have_bars_and_a_table(viewer: Client) -> None:
    values = {**LLAMA, "model": "Llama-3.1-70B-Instruct", "cards_per_node": "4", "pipeline_parallel": "4"}
    page = viewer.post("/planner/answer/", values).content.decode()
    assert page.count('class="bar-frame"') == 3 and "Stages 2–3" in page and "layers 21–60" in page
    assert "What holds the memory of a card in each stage, in GiB" in page


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tensor_parallel": "3", "cards_per_node": "8"}, "1, 2, 4, 8, 16, 32 之一"),
        ({"mean_requests_per_s": "9", "peak_requests_per_s": "1"}, "不超过峰值 1"),
        ({"vllm_version": "new"}, "版本号，例如 0.32"),
        ({"max_model_len": "1024", "input_tokens": "4000"}, "不小于 4300，即平均提示词与回答之和"),
        ({"lengths": "percentiles", "input_p95": "9"}, "给出更高分位数时也要给出"),
    ],
)
def test_what_would_be_right_is_said_in_chinese(viewer: Client, changes: dict[str, str], told: str) -> None:
    answer = viewer.post("/planner/answer/", {**LLAMA, **changes}, headers={"accept-language": "zh-hans"})
    assert any(told in text for text in answer.context["problems"].values()), answer.context["problems"]


def test_a_viewer_is_offered_no_deployment(viewer: Client) -> None:
    assert "Create deployment from this" not in viewer.get("/planner/", LLAMA).content.decode()


def test_an_answer_takes_few_queries(viewer: Client) -> None:
    with CaptureQueriesContext(connection) as queries:
        viewer.post("/planner/answer/", LLAMA)
    assert len(queries) <= 5  # session, user, what measured starts taught, and whether any of its kind ran


def test_measured_starts_correct_the_answer(viewer: Client) -> None:
    before = viewer.post("/planner/answer/", LLAMA).context["ledger"]
    comparison = {
        "predicted_weights_bytes": 100, "measured_weights_bytes": 110, "predicted_kv_bytes": None,
        "measured_kv_bytes": None,
    }  # fmt: skip
    LedgerRow.objects.create(
        replica="one", deployment="one", engine_version=".".join(str(part) for part in before.setup.rules.version[:2]),
        accelerator=before.setup.card.facts.name, family="llama", uncorrected=comparison, measured_at=timezone.now(),
    )  # fmt: skip
    answer = viewer.post("/planner/answer/", LLAMA)
    assert answer.context["ledger"].budget.weights_bytes > before.budget.weights_bytes
    assert "Corrected by 1 measured start" in answer.content.decode()


def test_points_that_were_measured_show_what_was_predicted_before_and_after(viewer: Client) -> None:
    values = {**LLAMA, "tensor_parallel": "1"}
    plain = viewer.post("/planner/answer/", values).context["chosen"].curve[2]
    points = f"requests tpot ttft\n{plain.concurrency:g}; {1.4 * plain.tpot_ms:.2f}"
    answer = viewer.post("/planner/answer/", {**values, "points": points})
    page = answer.content.decode()
    assert "Calibrated by 1 point" in page and "before calibration" in page and "At this load before and now" in page
    assert answer.context["before"].curve[2] == plain
    assert answer.context["chosen"].curve[2].tpot_ms > 1.2 * plain.tpot_ms
    assert '"concurrency": ' in answer.context["rest"]


def test_the_rest_call_says_no_where_the_form_does(viewer: Client) -> None:
    answer = viewer.post("/planner/answer/", {**LLAMA, "survive_node_loss": "false", "own_measurements": "false"})
    assert '"survive_node_loss": false' in answer.context["rest"]
    assert '"own_measurements": false' in answer.context["rest"]


@pytest.mark.parametrize("points", ["4", "4 a", "4,20,30,40", "0,20", "1 2\n" * 17, "x" * 5000])
def test_points_that_are_none_are_told_at_their_field(viewer: Client, points: str) -> None:
    answer = viewer.post("/planner/answer/", {**LLAMA, "points": points})
    assert answer.status_code == 422 and list(answer.context["problems"]) == ["points"]


def test_a_measured_rate_of_a_card_makes_the_capacity(viewer: Client) -> None:
    values = {**LLAMA, "tensor_parallel": "1", "peak_requests_per_s": "2000", "requests_per_s_a_card": "20"}
    page = viewer.get("/planner/", {**values, "safety_factor": "1", "survive_node_loss": "false"}).content.decode()
    assert "100 x TP 1 on 100 H100-SXM: 70 hot, 30 cold." in page and "As given, 20 requests/s a card." in page


TRACE = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{n},{100 + n},{10 + n % 9}\n" for n in range(300))
INDEX = {"metadata": {"total_size": 16_060_522_496}, "weight_map": {"model.layers.31.mlp.up_proj.weight": "a"}}


def make_file(text: str) -> SimpleUploadedFile:
    return SimpleUploadedFile("given.txt", text.encode())


def test_a_trace_and_an_index_are_given_without_any_script(viewer: Client) -> None:
    files = {"trace_file": make_file(TRACE), "safetensors_file": make_file(json.dumps(INDEX))}
    sent = viewer.post("/planner/question/", {**LLAMA, "input_tokens": "", "max_num_seqs": "64", **files})
    assert sent.status_code == 303
    page = viewer.get(sent["location"])
    assert page.context["asked"].trace.requests == 300
    assert page.context["answer"].question.model.weight_bytes == 16_060_522_496
    assert 'value="64"' in page.content.decode() and "csrf" not in sent["location"]
    left = viewer.post("/planner/question/", {**values_of(sent["location"]), "leave_out": "trace"})
    again = viewer.get(left["location"])
    assert again.context["asked"].trace is None and again.context["answer"].question.model.weight_bytes


def values_of(address: str) -> dict[str, str]:
    return {name: texts[0] for name, texts in parse_qs(urlsplit(address).query).items()}


def test_a_pasted_trace_takes_the_place_of_lengths_without_any_script(viewer: Client) -> None:
    sent = viewer.post("/planner/question/", {**LLAMA, "input_tokens": "500", "trace_text": TRACE})
    page = viewer.get(sent["location"])
    assert page.status_code == 200 and page.context["problems"] == {}
    assert page.context["asked"].input_source == "trace"


@pytest.mark.parametrize(
    ("field", "text"),
    [("trace", "a,b\n1,2\n"), ("trace", "x" * (2 * 1024 * 1024 + 1)), ("safetensors", "[]"), ("safetensors", "no")],
    ids=["columns", "size", "list", "words"],
)
def test_a_file_that_can_not_be_read_is_told_at_its_field_without_any_script(
    viewer: Client, field: str, text: str
) -> None:
    page = viewer.post("/planner/question/", {**LLAMA, "max_num_seqs": "64", f"{field}_file": make_file(text)})
    assert page.status_code == 422 and page.context["problems"][field]
    assert page.context["problems"][field] in html.unescape(page.content.decode())
    assert 'value="64"' in page.content.decode()


def test_the_hint_of_an_empty_rate_goes_by_the_trace(viewer: Client) -> None:
    assert "as many as the cards carry.</span>" in viewer.get("/planner/", LLAMA).content.decode()
    sent = viewer.post("/planner/question/", {**LLAMA, "trace_text": TRACE})
    page = viewer.get(sent["location"]).content.decode()
    assert "that of the trace.</span>" in page and "as many as the cards carry.</span>" not in page


def test_each_split_that_dropped_out_is_told_however_many_reasons_there_are() -> None:
    found = [Rejection(Split(1, number), "memory", f"Too large by {number} GiB.") for number in range(1, 40)]
    found += [Rejection(Split(number), "heads", f"Heads / {number}.") for number in (3, 5, 7)]
    first, behind = planner_answer.rejected(found)
    assert [one.reason for one in first] == [one.reason for one in found[:24]]
    assert [(one.splits, one.reason) for one in behind] == [(one.split.label, one.reason) for one in found[24:]]
    assert planner_answer.rejected(found[:2])[1] == []


def test_each_split_that_dropped_out_for_one_reason_is_named() -> None:
    found = [Rejection(Split(1, number), "memory", "Too large.") for number in range(1, 8)]
    ((one,), _behind) = planner_answer.rejected(found)
    labels = [wrong.split.label for wrong in found]
    assert (one.splits, one.others) == (", ".join(labels[:3]), ", ".join(labels[3:])) and one.others_count == 4


def test_the_head_says_of_each_figure_whether_it_is_of_a_copy_or_of_all(viewer: Client) -> None:
    question = {**LLAMA, "model": "Llama-3.1-70B-Instruct", "cards_per_node": "8", "tensor_parallel": "2"}
    answer = viewer.post("/planner/answer/", {**question, "max_model_len": "8192", "peak_requests_per_s": "2"})
    head, page = answer.context["head"], answer.content.decode()
    assert head.copies == 4 and page.count("all 4:") == 4 and "of a card" in page
    for amount in (head.tokens, head.at_once, head.at_full_length, head.output_tok_s):
        assert amount.together == pytest.approx(4 * amount.each)
    assert head.output_tok_s.together == answer.context["chosen"].at_load.output_tok_s
    single = viewer.post("/planner/answer/", {**LLAMA, "cards_per_node": "1"})
    assert "of the one copy" in single.content.decode() and "all 1" not in single.content.decode()


def test_a_copy_with_groups_of_attention_has_the_caches_of_all_of_them(viewer: Client) -> None:
    question = {**LLAMA, "model": "DeepSeek-V3", "gpu": "H200", "cards_per_node": "8", "max_model_len": "8192"}
    answer = viewer.post("/planner/answer/", {**question, "attention_copies": "8", "expert_parallel": "true"})
    assert answer.context["head"].tokens.each == 8 * answer.context["ledger"].tokens
    assert answer.content.decode().count("of one of the 8 caches of a copy") == 3


def test_of_a_model_that_answers_with_a_vector_no_time_a_token_is_told(viewer: Client) -> None:
    question = {**LLAMA, "model": "BAAI/bge-m3", "input_tokens": "400", "peak_requests_per_s": "5"}
    answer = viewer.post("/planner/answer/", question)
    page = answer.content.decode()
    assert answer.context["asked"].output.mean == 1
    assert any("one vector or score" in note for note in answer.context["answer"].assumptions)
    assert "output tokens a second" not in page and "An answer after" in page
    assert [chart["key"] for chart in answer.context["curves"]] == ["ttft"]


def test_what_no_memory_would_help_is_told_as_not_starting(viewer: Client) -> None:
    page = viewer.post("/planner/answer/", {**LLAMA, "max_model_len": "200000"}).content.decode()
    assert "Does not start" in page and "Does not fit" not in page
    assert "config.json allows" in html.unescape(page)
