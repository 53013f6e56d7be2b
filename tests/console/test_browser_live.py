"""What moves: charts and cells through the websocket, dialogs, keys, themes."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

import pytest
import redis

from controlplane.console import units
from controlplane.deployments.models import Deployment, Replica
from controlplane.lib import keys
from controlplane.telemetry.services import notify
from tests.console import feeding, making
from tests.console.conftest import Site, start_console
from tests.console.test_browser_pages import in_a_thread
from tests.console.test_units import CASES, DURATIONS

pytestmark = [pytest.mark.browser, pytest.mark.services]
CHAT = "deployment:llama-70b"


def until(page: Any, expression: str, timeout_s: float = 20.0) -> Any:
    """Waits until a JavaScript expression is true; Playwright's own wait needs eval, which the policy forbids."""
    deadline = time.monotonic() + timeout_s
    while not (value := page.evaluate(expression)):
        assert time.monotonic() < deadline, f"never true: {expression}"
        page.wait_for_timeout(100)
    return value


def feed(seconds: float, *subjects: str) -> None:
    in_a_thread(feeding.write_on(list(subjects), seconds))


def newest_value(page: Any) -> str:
    return str(page.inner_text("[data-value=tokens_per_s]"))


def test_a_chart_moves_when_samples_arrive_and_says_no_data_before(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    until(page, "document.documentElement.dataset.link === 'live'")
    until(page, "!document.querySelector('.chart-none').hidden")
    assert newest_value(page) == "–"
    feed(2.5, CHAT)
    until(page, "document.querySelector('.chart-none').hidden")
    first = newest_value(page)
    assert first != "–" and page.inner_text("[data-live][data-field=tokens_per_s]") != "–"
    feed(2.5, CHAT)
    until(page, f"document.querySelector('[data-value=tokens_per_s]').textContent !== {json.dumps(first)}")
    told = until(page, "document.querySelector('[data-chart-text]').textContent", 30)
    assert "Output tokens" in told


def test_a_log_goes_on_although_its_numbers_began_anew(site: Site) -> None:
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    for n in (901, 902):
        client.xadd(keys.engine_log("7f3ak2m9q0xd"), {"n": n, "line": f"line {n}"})
    page = site.page()
    page.goto(site.url + "/replicas/7f3ak2m9q0xd/")
    until(page, "document.documentElement.dataset.link === 'live'")
    for n in (903, 1, 2):
        client.xadd(keys.engine_log("7f3ak2m9q0xd"), {"n": n, "line": f"line {n}"})
        until(page, f"document.querySelector('.log-lines').lastElementChild.textContent.endsWith('line {n}')")
    client.close()
    numbers = page.evaluate("[...document.querySelectorAll('.log-line .n')].map(found => found.textContent)")
    assert numbers == ["901", "902", "903", "1", "2"]


def test_scrolling_back_pauses_and_follow_goes_on(site: Site) -> None:
    in_a_thread(feeding.write_past([CHAT], 120, gap=(0, 0)))
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    until(page, "document.querySelector('.chart-none').hidden")
    page.click("[aria-label=Earlier]")
    assert page.get_attribute("[data-follow]", "aria-pressed") == "false"
    assert page.inner_text("[data-live-state]").strip() == "Paused"
    page.click("[data-window='3600']")
    assert page.get_attribute("[data-window='3600']", "aria-pressed") == "true"
    page.click("[data-follow]")
    assert page.inner_text("[data-live-state]").strip() == "Live"


def test_scrolling_back_beyond_the_last_minutes_goes_on_in_what_is_kept_longer(site: Site) -> None:
    in_a_thread(feeding.write_past([CHAT], 200, gap=(0, 0)))
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    until(page, "document.querySelector('.chart-none').hidden && !document.querySelector('.chart.loading')")
    for _ in range(6):  # 15 minutes back, in the window of 5
        page.click("[aria-label=Earlier]")
    until(page, "document.querySelector('.chart-none').hidden")
    until(page, "document.querySelector('[data-value=kv_usage]').textContent !== '–'")
    assert page.inner_text("[data-live-state]").strip() == "Paused"
    held = page.inner_text("[data-value=kv_usage]")
    feed(1.5, CHAT)
    assert page.inner_text("[data-value=kv_usage]") == held


def test_a_mark_on_the_time_axis_tells_why(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    page.wait_for_selector(".chart-mark[data-kind=revision]")
    page.click(".chart-mark[data-kind=revision] >> nth=-1")
    assert "Fewer seats" in page.inner_text(".mark-card") or "Revision" in page.inner_text(".mark-card")


def test_a_part_fetches_itself_again_when_its_object_changes(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/smollm2/")
    until(page, "document.documentElement.dataset.link === 'live'")
    assert page.inner_text(".object .state") == "Stopped"
    Deployment.objects.filter(name="smollm2").update(desired_state="running")
    notify.changed("deployment", "smollm2", "deployment.started")
    until(page, "document.querySelector('.object .state').textContent.includes('Starting')")


def test_the_rows_stay_where_they_are_while_their_values_change(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/")
    until(page, "document.documentElement.dataset.link === 'live'")
    before = page.evaluate("[...document.querySelectorAll('.row-link')].map((a) => a.getBoundingClientRect().top)")
    feed(2.5, CHAT, "deployment:llama-70b-sim")
    until(page, "[...document.querySelectorAll('[data-field=tokens_per_s]')].some((cell) => cell.textContent > '0')")
    assert before == page.evaluate(
        "[...document.querySelectorAll('.row-link')].map((a) => a.getBoundingClientRect().top)"
    )


def test_the_whole_row_leads_to_the_object(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/")
    box = page.locator("tr.leads:has-text('qwen3-coder') td:nth-child(6)").bounding_box()
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    page.wait_for_url("**/deployments/qwen3-coder/")


def test_a_dialog_scales_and_becomes_the_progress(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/")
    page.click("main >> text=Scale")
    page.wait_for_selector("dialog[open] #f-replicas")
    assert page.evaluate("document.activeElement.id") == "f-replicas"
    page.fill("#f-replicas", "4")
    page.click("dialog button[type=submit]")
    page.wait_for_selector("dialog >> text=Replicas ready: 2 of 4.")
    assert Deployment.objects.get(name="llama-70b").replicas_wanted == 4
    Replica.objects.filter(deployment__name="llama-70b").update(state="ready")
    making.make_replica(Deployment.objects.get(name="llama-70b"), None, id="zzzzzzzzzzz1")
    page.wait_for_selector("dialog >> text=Replicas ready: 4 of 4.")
    page.click("dialog .dialog-foot [data-close]")
    assert not page.evaluate("document.getElementById('dialog').open")


def test_the_keyboard_reaches_everything(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("llama")
    until(page, "document.querySelectorAll('tr.leads').length === 2 && location.search.includes('q=llama')")
    page.evaluate("document.activeElement.blur()")
    for key, path in {"n": "/nodes/", "m": "/models/", "j": "/journal/", "d": "/deployments/", "o": "/"}.items():
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(site.url + path)
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Escape")
    assert not page.evaluate("document.getElementById('dialog').open")


def test_several_rows_are_picked_and_drained(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/deployments/")
    page.check("[data-pick][value=llama-70b]")
    page.check("[data-pick][value=qwen3-coder]")
    assert page.inner_text("[data-bulk-count]") == "2 selected"
    page.click("[data-bulk] >> text=Drain")
    page.click("dialog button[type=submit]")
    page.wait_for_selector("dialog >> text=0 of 2 are done.")
    assert Deployment.objects.filter(desired_state="drained").count() == 2


def test_theme_utc_and_rail_are_kept_by_the_browser(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/profile/")
    light = page.evaluate(
        "getComputedStyle(document.body).backgroundColor, getComputedStyle(document.documentElement).backgroundColor"
    )
    page.click("main [data-theme-choice=dark]")
    page.click("main [data-toggle-utc]")
    page.click("[data-toggle-rail]")
    page.goto(site.url + "/deployments/")
    root = page.evaluate("({...document.documentElement.dataset})")
    assert (root["theme"], root["utc"], root["rail"]) == ("dark", "1", "narrow")
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") != light
    assert page.get_attribute("time[data-when]", "title").endswith("UTC")


def test_the_browser_writes_numbers_as_the_server_does(site: Site) -> None:
    page = site.page()
    page.goto(site.url + "/")
    script = f"""async () => {{
        const {{ FORMATS, duration }} = await import("/static/js/format.js");
        const cases = {json.dumps(CASES)};
        const texts = Object.entries(cases).map(([form, list]) => [form, list.map(([value]) => FORMATS[form](value))]);
        return [Object.fromEntries(texts), {json.dumps([seconds for seconds, _ in DURATIONS])}.map(duration)];
    }}"""
    texts, durations = page.evaluate(script)
    assert texts == {form: [units.FORMATS[form](value) for value, _ in cases] for form, cases in CASES.items()}
    assert durations == [units.duration(seconds) for seconds, _ in DURATIONS]


def test_the_page_comes_back_after_the_console_was_gone(site: Site, unused_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    console = start_console(unused_tcp_port)
    page = site.page()
    try:
        page.goto(url + "/deployments/llama-70b/")
        until(page, "document.documentElement.dataset.link === 'live'")
        assert site.complaints == []
        _kill(console)
        until(page, "document.documentElement.dataset.link === 'lost'")
        until(page, "!document.getElementById('link-banner').hidden")
        console = start_console(unused_tcp_port)
        until(page, "document.documentElement.dataset.link === 'live'", 40)
        feed(2.5, CHAT)
        until(page, "document.querySelector('.chart-none').hidden")
        assert page.evaluate("document.getElementById('link-banner').hidden")
    finally:
        page.close()
        _kill(console)
    site.complaints.clear()  # what the browser says of a server that is away


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)


def test_sixty_live_replicas_cost_little(site: Site) -> None:
    row = Deployment.objects.get(name="llama-70b")
    for number in range(60):
        making.make_replica(row, None, id=f"r{number:011d}")
    subjects = [f"replica:r{number:011d}" for number in range(60)]
    page = site.page()
    page.goto(site.url + "/deployments/llama-70b/replicas/")
    until(page, "document.documentElement.dataset.link === 'live'")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    work = _task_seconds(session)
    feed(10, *subjects)
    cells = "[...document.querySelectorAll('[data-field=running]')]"
    until(page, f"{cells}.filter((cell) => cell.textContent !== '–').length >= 60")
    # 60 subjects at one sample a second for ten seconds: less than a tenth of a core, with room for a slow machine
    assert _task_seconds(session) - work < 2.5


def _task_seconds(session: Any) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))
