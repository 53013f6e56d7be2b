"""Every page as a picture, and what a machine can say about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"

PAGES = {
    "overview": "/",
    "deployments": "/deployments/",
    "deployments-none": "/deployments/?q=nothing",
    "deployment": "/deployments/llama-70b/",
    "deployment-failed": "/deployments/qwen3-coder/",
    "deployment-external": "/deployments/gpt-oss-bridge/",
    "deployment-replicas": "/deployments/llama-70b/replicas/?ended=1",
    "deployment-settings": "/deployments/llama-70b/settings/",
    "deployment-ledger": "/deployments/llama-70b/ledger/",
    "deployment-ledger-none": "/deployments/smollm2/ledger/",
    "deployment-logs": "/deployments/qwen3-coder/logs/",
    "deployment-journal": "/deployments/llama-70b/journal/",
    "deployment-new": "/deployments/new/",
    "deployment-edit": "/deployments/llama-70b/edit/",
    "deployment-scale": "/deployments/llama-70b/do/scale/",
    "replica": "/replicas/7f3ak2m9q0xd/",
    "replica-external": "/replicas/e7x1r9n3u5hq/",
    "replica-failed": "/replicas/k9d2x7c4b6vn/",
    "nodes": "/nodes/",
    "node": "/nodes/gpu-01/",
    "node-cordoned": "/nodes/gpu-02/",
    "node-lost": "/nodes/gpu-03/",
    "memory-release": "/nodes/gpu-02/accelerators/GPU-gpu-02-5-8f3a-1c77/release/q3w8e5r1t7yu/",
    "node-forget": "/nodes/gpu-03/do/forget/",
    "planner": "/planner/",
    "gateway": "/gateway/",
    "tiers": "/traffic/tiers/",
    "tier-edit": "/traffic/tiers/batch/edit/",
    "quotas": "/traffic/quotas/",
    "quota-edit": "/traffic/quotas/chatbot/daily/edit/",
    "shares": "/traffic/shares/",
    "ladders": "/traffic/ladders/",
    "ladder": "/traffic/ladders/llama-70b/",
    "slos": "/traffic/objectives/",
    "prices": "/traffic/prices/",
    "deployment-traffic": "/deployments/llama-70b/traffic/",
    "pools": "/pools/",
    "models": "/models/",
    "model": "/models/llama-3.3-70b-instruct/",
    "journal": "/journal/",
    "decisions": "/journal/decisions/",
    "tenants": "/access/tenants/",
    "keys": "/access/keys/",
    "users": "/access/users/",
    "tokens": "/access/tokens/",
    "profile": "/profile/",
    "help": "/help/",
    "missing": "/deployments/none/",
    "not-found": "/nothing/here/",
}


def violations(page: Any) -> list[str]:
    """What axe finds on the page as it is now: rule, element and why."""
    if not AXE.exists():
        pytest.skip("no node_modules/axe-core; run `npm ci`")
    session = page.context.new_cdp_session(page)
    # through the debugger, because the content security policy forbids to add a script to the page
    session.send("Runtime.evaluate", {"expression": AXE.read_text(encoding="utf-8")})
    expression = "axe.run(document, {resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))"
    answer = session.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
    session.detach()
    return [
        f"{rule['id']}: {' '.join(node['target'])}: {node['failureSummary']}"
        for rule in json.loads(answer["result"]["value"])
        for node in rule["nodes"]
    ]


def overflow(page: Any) -> int:
    """How many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def take_picture(page: Any, path: Path) -> None:
    """Takes the whole page in a window as high as it is: a bar at the window's bottom lies at the page's end then."""
    size = page.viewport_size
    page.set_viewport_size({"width": size["width"], "height": max(size["height"], _height(page))})
    page.screenshot(path=str(path))
    page.set_viewport_size(size)


def _height(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollHeight"))


def hidden_by_the_bar(page: Any) -> int:
    """How many pixels of the page's end lie behind the bottom bar of a phone, scrolled down as far as it goes."""
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    script = """() => {
        const bar = document.querySelector(".rail")?.getBoundingClientRect();
        if (!bar) return 0;
        const ends = [...document.querySelector("main").children].map((one) => one.getBoundingClientRect().bottom);
        return Math.round(Math.max(0, ...ends) - bar.top);
    }"""
    return int(page.evaluate(script))
