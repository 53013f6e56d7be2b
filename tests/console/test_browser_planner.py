"""The planner in a real browser: it answers while one drags, the address holds the question, axe finds nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.console.conftest import Site
from tests.console.looking import hidden_by_the_bar, overflow, take_picture, violations

pytestmark = [pytest.mark.browser, pytest.mark.services]
PLAN = (
    "/planner/?source=known&model=Llama-3.1-70B-Instruct&gpu=H100+80GB&cards_per_node=8&max_model_len=8192"
    "&input_tokens=1000&output_tokens=300&peak_requests_per_s=4"
)
TOO_LARGE = "/planner/?source=known&model=DeepSeek-V3&gpu=RTX+4090&cards_per_node=2"
WRONG = "/planner/?source=known&model=Llama-3.1-70B-Instruct&gpu=H100+80GB&cards_per_node=8&tensor_parallel=3"
TRACE = {
    "requests": 6015, "span_s": 1881, "window_s": 60, "peak_requests_per_s": 4.11667, "mean_requests_per_s": 3.19777,
    "decoding_context_tokens": 13998.8, "step_s": 2.999,
    "input": {"mean": 12781.1, "mean_square": 439763000.0, "p50": 7590, "p95": 41560, "p99": 91305},
    "output": {"mean": 346.774, "mean_square": 184555.0, "p50": 356, "p95": 708, "p99": 1137},
}  # fmt: skip
STAGES = (
    "/planner/?source=known&model=Llama-3.1-405B-Instruct&quantization=fp8&gpu=H100+80GB&cards_per_node=8&nodes=2"
    "&tensor_parallel=4&pipeline_parallel=4&lengths=percentiles&input_p50=700&input_p95=6000&output_p50=200"
    "&output_p95=900&output_p99=2000"
)
EXPERTS = "/planner/?source=known&model=DeepSeek-V3&gpu=H200&cards_per_node=8&max_model_len=65536&trace=" + quote(
    json.dumps(TRACE)
)
CALIBRATED = PLAN + "&tensor_parallel=4&points=" + quote("1, 19.5, 240\n8, 24.1, 310\n32, 41, 900")
RATED = PLAN + "&tensor_parallel=4&requests_per_s_a_card=0.6&speculative=ngram&max_loras=4&reserve_gib=4"
PAGES = {
    "calibrated": CALIBRATED, "rated": RATED,
    "empty": "/planner/", "plan": PLAN, "too-large": TOO_LARGE, "wrong": WRONG, "stages": STAGES, "experts": EXPERTS,
}  # fmt: skip


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("HEADWORKS_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_the_planner_is_accessible_and_fits(site: Site, pictures: Path, width: int, theme: str) -> None:
    page = site.page(width, theme)
    found = {}
    for name, path in PAGES.items():
        page.goto(site.url + path)
        page.wait_for_timeout(400)
        take_picture(page, pictures / f"planner-{name}-{width}-{theme}.png")
        problems = violations(page) if (width, theme) in ((1440, "light"), (390, "dark")) else []
        if overflow(page) > 0:
            problems.append(f"it is {overflow(page)} px too wide")
        if width < 720 and hidden_by_the_bar(page) > 0:
            problems.append(f"the bottom bar hides {hidden_by_the_bar(page)} px")
        if problems:
            found[name] = problems
    assert found == {}


def test_it_answers_while_one_drags(site: Site) -> None:
    page = site.page()
    page.goto(site.url + PLAN)
    before = page.inner_text(".planner-facts")
    handle = page.locator("[data-slides=max_model_len]")
    handle.focus()
    for _ in range(40):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    page.wait_for_selector("#planner-answer[aria-busy=false]")
    assert page.inner_text(".planner-facts") != before
    length = page.input_value("[name=max_model_len]")
    assert int(length) > 8192 and f"max_model_len={length}" in page.url
    assert page.locator("[data-planner-chart] canvas").count() == 3


def test_going_back_brings_the_question_back(site: Site) -> None:
    page = site.page()
    page.goto(site.url + PLAN)
    page.fill("[name=tensor_parallel]", "8")
    page.keyboard.press("Tab")
    page.wait_for_selector(".verdict >> text=TP 8")
    page.go_back()
    page.wait_for_selector(".verdict >> text=TP 4")
    assert page.input_value("[name=tensor_parallel]") == ""


def test_a_wrong_field_says_so_and_the_last_answer_stays(site: Site) -> None:
    page = site.page()
    page.goto(site.url + PLAN)
    page.fill("[name=tensor_parallel]", "3")
    page.wait_for_selector("#f-tensor_parallel-problem:not(:empty)")
    assert page.get_attribute("[name=tensor_parallel]", "aria-invalid") == "true"
    assert page.locator(".planner-answer.stale .planner-details").count() == 1
    page.fill("[name=tensor_parallel]", "2")
    page.wait_for_selector(".planner-answer:not(.stale)")
    assert page.inner_text("#f-tensor_parallel-problem") == ""


def test_an_index_is_uploaded_and_left_out_again(site: Site, tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 140_000_000_000}, "weight_map": {"lm_head.weight": "a"}}))
    page = site.page()
    page.goto(site.url + PLAN)
    page.set_input_files("#f-file", str(index))
    page.wait_for_selector("[data-file-held] >> visible=true")
    assert "140000000000" in page.input_value("[name=safetensors]") and "safetensors=" in page.url
    page.click("[data-file-clear]")
    assert page.input_value("[name=safetensors]") == ""


def test_the_whole_form_is_in_sight_or_scrolls_with_the_page(site: Site) -> None:
    for width in (1440, 390):
        page = site.page(width)
        page.goto(site.url + "/planner/")
        page.wait_for_timeout(200)
        assert page.evaluate("(f => f.scrollHeight - f.clientHeight)(document.getElementById('planner-form'))") <= 1
        summary = page.locator("#planner-form details.panel > summary").last
        summary.scroll_into_view_if_needed()
        summary.click()
        field = page.locator("[name=survive_node_loss]")
        field.scroll_into_view_if_needed()
        assert field.is_visible()
        page.goto(site.url + PLAN)
        page.wait_for_timeout(200)
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
        box = page.locator("#planner-form").bounding_box()
        assert width == 390 or box["y"] + box["height"] >= 400  # still beside what is read


def test_a_trace_is_uploaded_pasted_and_left_out_again(site: Site, tmp_path: Path) -> None:
    rows = [f"{n * 0.5},{400 + n % 7 * 100},{50 + n % 5 * 40}" for n in range(200)]
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "\n".join(rows))
    page = site.page()
    page.goto(site.url + PLAN)
    page.fill("[name=peak_requests_per_s]", "")
    page.set_input_files("#f-trace-file", str(trace))
    page.wait_for_selector("#load-title")
    assert not page.locator("[name=input_tokens]").is_visible() and "trace=" in page.url
    assert "200 requests in 99.5 s" in page.inner_text("#planner-answer")
    assert page.get_attribute("[name=peak_requests_per_s]", "placeholder")
    assert page.inner_text("#f-peak_requests_per_s-help") == "Empty: that of the trace."
    page.click("[data-trace-clear]")
    page.wait_for_selector("#load-title", state="detached")
    assert page.inner_text("#f-peak_requests_per_s-help") == "Empty: as many as the cards carry."
    assert page.locator("[name=input_tokens]").is_visible() and "trace=" not in page.url
    page.click("[data-trace-paste] summary")
    page.fill("#f-trace-text", "when,input_tokens\n1,2")
    page.wait_for_selector("#f-trace-problem:not(:empty)")
    assert "no column arrival_s" in page.inner_text("#f-trace-problem")
    page.fill("#f-trace-text", '{"timestamp": 0, "input_length": 9, "output_length": 4}\n' * 3 + "\n")
    page.wait_for_selector("#f-trace-problem >> text=different times")


def test_percentiles_take_the_place_of_means(site: Site) -> None:
    page = site.page()
    page.goto(site.url + PLAN)
    page.check("[name=lengths][value=percentiles]")
    for name, value in (("input_p50", "500"), ("input_p95", "4000"), ("output_p50", "200")):
        page.fill(f"[name={name}]", value)
    page.wait_for_selector("#load-title")
    assert "lengths=percentiles" in page.url and "input_tokens" not in page.url
    page.fill("[name=input_p95]", "100")
    page.wait_for_selector("#f-input_p95-problem:not(:empty)")


def test_a_split_with_experts_is_taken_into_a_deployment(site: Site) -> None:
    page = site.page()
    page.goto(site.url + EXPERTS)
    page.click("[data-take-split='1,1,8,true']")
    page.wait_for_selector(".verdict >> text=DP attention 8 x EP 8")
    assert page.input_value("[name=attention_copies]") == "8"
    page.click("text=Create deployment from this")
    page.wait_for_selector("#deployment-form")
    assert page.input_value("[name='settings.data_parallel_size']") == "8"
    assert page.input_value("[name='settings.enable_expert_parallel']") == "true"


def test_what_headworks_can_not_start_is_said_at_a_button_that_is_off(site: Site) -> None:
    page = site.page()
    page.goto(site.url + STAGES)
    assert page.is_disabled("button >> text=Create deployment from this")
    assert "A copy takes 2 nodes" in page.inner_text("#start-why")


def test_a_split_is_taken_and_leads_to_the_form_of_a_deployment(site: Site) -> None:
    page = site.page()
    page.goto(site.url + PLAN)
    page.click("[data-take-split='8,1,1,']")
    page.wait_for_selector(".verdict >> text=TP 8")
    page.click("text=Create deployment from this")
    page.wait_for_selector("#deployment-form")
    assert page.input_value("[name=tensor_parallel]") == "8"
    assert page.input_value("[name='settings.max_model_len']") == "8192"


def test_a_trace_is_given_and_left_out_without_any_script(site: Site, tmp_path: Path) -> None:
    rows = [f"{n * 0.5},{400 + n % 7 * 100},{50 + n % 5 * 40}" for n in range(200)]
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,input_tokens,output_tokens\n" + "\n".join(rows))
    page = site.page(java_script_enabled=False)
    page.goto(site.url + PLAN)
    page.set_input_files("#f-trace-file", str(trace))
    page.click("[data-without-script] button")
    page.wait_for_selector("#load-title")
    assert "trace=" in page.url and "csrf" not in page.url
    assert "200 requests in 99.5 s" in page.inner_text("#planner-answer")
    page.click("[data-trace-clear]")
    page.wait_for_selector("#load-title", state="detached")
    assert "trace=" not in page.url and "model=Llama-3.1-70B-Instruct" in page.url
    page.fill("[name=max_num_seqs]", "77")
    page.press("[name=max_num_seqs]", "Enter")
    page.wait_for_url("**max_num_seqs=77**")


def test_points_are_typed_and_the_prediction_follows(site: Site) -> None:
    page = site.page()
    page.goto(site.url + PLAN)
    page.click("summary >> text=Measured")
    page.fill("[name=points]", "8, 60")
    page.wait_for_selector("#calibration-title")
    assert "Calibrated by 1 point" in page.inner_text("#planner-answer") and "points=" in page.url
    page.fill("[name=points]", "8, many")
    page.wait_for_selector("#f-points-problem:not(:empty)")
    page.fill("[name=points]", "")
    page.wait_for_selector("#calibration-title", state="detached")
