"""The planner in a real browser: it answers while one drags, the address holds the question, axe finds nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
PAGES = {"empty": "/planner/", "plan": PLAN, "too-large": TOO_LARGE, "wrong": WRONG}


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


def test_a_split_is_taken_and_leads_to_the_form_of_a_deployment(site: Site) -> None:
    page = site.page()
    page.goto(site.url + PLAN)
    page.click("[data-take-split='8,1']")
    page.wait_for_selector(".verdict >> text=TP 8")
    page.click("text=Create deployment from this")
    page.wait_for_selector("#deployment-form")
    assert page.input_value("[name=tensor_parallel]") == "8"
    assert page.input_value("[name='settings.max_model_len']") == "8192"
