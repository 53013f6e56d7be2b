"""Each page in a real browser: wide and narrow, light and dark."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from tests.console import feeding, making_traffic
from tests.console.conftest import Site
from tests.console.looking import PAGES, hidden_by_the_bar, overflow, take_picture, violations

pytestmark = [pytest.mark.browser, pytest.mark.services]
WITH_AXE = ((1440, "light"), (390, "dark"))
WITH_DATA = ("overview", "deployment", "deployments", "replica", "node", "nodes", "gateway")
SUBJECTS = [
    "deployment:llama-70b", "deployment:llama-70b-sim", "deployment:gpt-oss-bridge", "replica:7f3ak2m9q0xd",
    "replica:b81nz6t4w5re", "node:gpu-01", "node:gpu-02", "node:sim-01",
]  # fmt: skip


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Where pictures go: `HEADWORKS_PICTURES`, by default a temporary folder."""
    folder = Path(os.environ.get("HEADWORKS_PICTURES") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")])
def test_every_page_is_accessible_and_fits(site: Site, pictures: Path, width: int, theme: str) -> None:
    in_a_thread(feeding.write_past(SUBJECTS, 120, gap=(60, 50)))
    page = site.page(width, theme)
    found: dict[str, list[str]] = {}
    for name, path in PAGES.items():
        if name == "gateway":
            making_traffic.tell("llama-70b", "smollm2")
        if name == "quotas":
            making_traffic.use_quotas()
        page.goto(site.url + path)
        page.wait_for_timeout(1200 if name in WITH_DATA else 250)
        take_picture(page, pictures / f"{name}-{width}-{theme}.png")
        # colours do not depend on the width, nor landmarks and names on the theme: two of the four say it all
        problems = violations(page) if (width, theme) in WITH_AXE else []
        if overflow(page) > 0:
            problems.append(f"it is {overflow(page)} px too wide")
        if width < 720 and hidden_by_the_bar(page) > 0:
            problems.append(f"the bottom bar hides {hidden_by_the_bar(page)} px")
        if problems:
            found[name] = problems
    assert found == {}


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_the_login_page_is_accessible_and_fits(site: Site, pictures: Path, width: int, theme: str) -> None:
    page = site.page(width, theme, cookie=False)
    page.goto(site.url + "/login/")
    assert violations(page) == [] and overflow(page) == 0
    page.fill("#id_username", "ada")
    page.fill("#id_password", "wrong")
    page.click("button[type=submit]")
    page.wait_for_selector("[role=alert]")
    page.screenshot(path=str(pictures / f"login-{width}-{theme}.png"))
    assert violations(page) == [] and overflow(page) == 0


@pytest.mark.parametrize("width", [1440, 390])
def test_the_console_in_chinese_fits(site: Site, pictures: Path, width: int) -> None:
    page = site.page(width)
    page.context.add_cookies([{"name": "django_language", "value": "zh-hans", "url": site.url}])
    making_traffic.tell("llama-70b", "smollm2")
    for name in ("overview", "deployment", "deployment-new", "nodes", "node", "keys", "gateway", "tiers", "ladder"):
        page.goto(site.url + PAGES[name])
        page.wait_for_timeout(300)
        take_picture(page, pictures / f"zh-{name}-{width}.png")
        assert overflow(page) <= 0 and page.get_attribute("html", "lang") == "zh-hans", name


@pytest.mark.parametrize("width", [1440, 390])
def test_dialogs_are_accessible_and_fit(site: Site, pictures: Path, width: int) -> None:
    page = site.page(width)
    page.goto(site.url + "/deployments/llama-70b/")
    for name, opener in {"scale": "text=Scale", "more": "summary[aria-label='More actions']"}.items():
        page.click(f"main >> {opener} >> visible=true")
        page.wait_for_timeout(400)
        page.screenshot(path=str(pictures / f"dialog-{name}-{width}.png"))
        assert violations(page) == [] and overflow(page) == 0, name
        page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert violations(page) == [] and overflow(page) == 0


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "dark")])
def test_names_behind_a_disclosure_are_accessible_and_fit(site: Site, pictures: Path, width: int, theme: str) -> None:
    page = site.page(width, theme)
    page.goto(site.url + PAGES["replica"])
    more = page.locator("section:has(#passed-title) details summary")
    assert more.count() == 2 and not page.get_by_text("batch-40").is_visible()
    for one in more.all():
        one.click()
    assert page.get_by_text("batch-40").is_visible()
    page.wait_for_timeout(250)
    take_picture(page, pictures / f"passed-over-{width}-{theme}.png")
    assert violations(page) == [] and overflow(page) <= 0


def in_a_thread(work: Any) -> None:
    """Runs a coroutine beside Playwright's own loop."""
    import threading

    thread = threading.Thread(target=lambda: asyncio.run(work))
    thread.start()
    thread.join()
