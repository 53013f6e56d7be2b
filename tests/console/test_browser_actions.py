"""Dialogs, undo and refusals, as they are lived through in a browser."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from controlplane.deployments.models import Deployment
from tests.console.conftest import Site
from tests.console.test_browser_live import until

pytestmark = [pytest.mark.browser, pytest.mark.services]


def scale_to(page: Any, replicas: str) -> None:
    page.click("main >> text=Scale")
    page.wait_for_selector("dialog[open] #f-replicas")
    page.fill("#f-replicas", replicas)
    page.click("dialog button[type=submit]")
    page.wait_for_selector("dialog #undo")


def take_sockets(page: Any) -> list[Any]:
    """Puts the test in the server's place: the sockets that the page opens."""
    sockets: list[Any] = []

    def take(socket: Any) -> None:
        sockets.append(socket)

    page.route_web_socket("**/ws/telemetry/", take)
    return sockets


def test_the_rest_call_follows_what_is_filled_in(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    page.click("main >> text=Scale")
    page.fill("dialog #f-replicas", "5")
    page.click("dialog details.rest > summary")
    until(page, "document.querySelector('dialog pre').textContent.includes('\"replicas\": 5')")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    assert Deployment.objects.get(name="llama-70b").replicas_wanted == 3


def test_the_form_of_a_step_follows_the_kind_that_is_chosen(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/traffic/ladders/llama-70b/")
    page.click("text=Add step")
    page.wait_for_selector("dialog[open] #f-max_tokens")
    page.check("dialog #f-tier-batch")
    page.select_option("dialog #f-kind", "divert")
    page.wait_for_selector("dialog[open] #f-deployment")
    assert page.query_selector("dialog #f-max_tokens") is None and page.is_checked("dialog #f-tier-batch")
    assert page.evaluate("document.activeElement.id") == "f-kind"
    page.select_option("dialog #f-deployment", "smollm2")
    with page.expect_navigation():
        page.click("dialog button[type=submit]")
    page.wait_for_selector("text=Requests go to smollm2 (Batch)")


def test_an_action_is_undone_after_its_dialog_was_left(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    scale_to(page, "4")
    assert Deployment.objects.get(name="llama-70b").replicas_wanted == 4
    page.wait_for_timeout(1500)  # the progress was fetched again meanwhile
    page.click("dialog #dialog-leave")
    with page.expect_navigation():
        page.click("#toasts #undo")
    page.wait_for_selector("text=Undone.")
    assert Deployment.objects.get(name="llama-70b").replicas_wanted == 3


def test_an_undo_that_comes_too_late_says_so(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    scale_to(page, "4")
    Deployment.objects.filter(name="llama-70b").update(version=99)
    page.click("dialog #undo")
    page.wait_for_selector("dialog >> text=changed_meanwhile")


def test_the_call_that_is_shown_follows_what_is_asked(site: Site) -> None:
    page = site.page()
    page.goto(f"{site.url}/deployments/llama-70b/")
    page.fill("#try-prompt", 'It\'s "so"?')
    page.fill("#try-tokens", "7")
    shown = page.text_content("[data-try] .rest pre")
    argument = shlex.split(shown.replace("\\\n", " "))[-1]
    asked = {"content": 'It\'s "so"?', "role": "user"}
    assert json.loads(argument) == {
        "model": "llama-70b", "messages": [asked], "max_tokens": 7, "temperature": 0, "stream": True,
    }  # fmt: skip


def test_a_refusal_of_the_try_box_is_shown(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    page.fill("#try-prompt", "   ")
    page.click("[data-try] [type=submit]")
    until(page, "document.querySelector('[data-try-result]').textContent.includes('(invalid)')")
    assert "Write a message" in page.inner_text("[data-try-result]")
    assert page.is_enabled("[data-try] [type=submit]")


def test_the_page_says_when_live_values_are_away_and_when_they_are_back(site: Site) -> None:
    page = site.page()
    sockets = take_sockets(page)
    page.goto(site.url + "/deployments/llama-70b/")
    until(page, "document.documentElement.dataset.link === 'live'")
    sockets[0].send(json.dumps({"type": "error", "code": "unavailable", "message": "Live data is away."}))
    until(page, "!document.getElementById('link-banner').hidden")
    assert "Valkey can't be reached" in page.inner_text("#link-banner")
    sample = {"type": "sample", "subject": "deployment:llama-70b", "t": 1, "values": {}}
    sockets[0].send(json.dumps(sample))
    until(page, "document.getElementById('link-banner').hidden")
    sockets[0].send(json.dumps({"type": "error", "code": "too_many", "message": "Too many."}))
    until(page, "!document.getElementById('link-banner').hidden")
    assert "more live values" in page.inner_text("#link-banner")


def test_who_was_logged_out_is_told_and_led_back(site: Site) -> None:
    page = site.page()
    sockets = take_sockets(page)
    page.goto(site.url + "/nodes/")
    until(page, "document.documentElement.dataset.link === 'live'")
    sockets[0].close(code=4401)
    until(page, "!document.querySelector('#link-banner a').hidden")
    page.wait_for_timeout(1200)
    assert len(sockets) == 1
