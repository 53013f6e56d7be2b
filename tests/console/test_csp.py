"""Nothing in a template needs what the content security policy forbids."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORBIDDEN = {
    "a style in an attribute": re.compile(r"\sstyle\s*="),
    "an inline event handler": re.compile(r"\son[a-z]+\s*="),
    "an inline script": re.compile(r"<script(?![^>]*\bsrc=)"),
    "an inline style sheet": re.compile(r"<style"),
    "an htmx attribute that is evaluated": re.compile(r"hx-on|hx-vals\s*=\s*[\"']js:|hx-trigger=\"[^\"]*\["),
    "another host": re.compile(r"(?:src|href)=\"(?:https?:)?//"),
}


@pytest.mark.parametrize("path", sorted((ROOT / "templates").rglob("*.html")), ids=lambda path: path.name)
def test_a_template_has_nothing_inline(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [what for what, pattern in FORBIDDEN.items() if pattern.search(text)] == []


def test_each_script_is_small_and_the_first_page_is_light() -> None:
    scripts = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "static" / "js").glob("*.js")}
    assert {name: text.count("\n") for name, text in scripts.items() if text.count("\n") > 150} == {}
    on_the_first_page = [scripts[name] for name in FIRST_PAGE]
    sheets = [path.read_text(encoding="utf-8") for path in (ROOT / "static" / "css").glob("*.css")]
    htmx = ROOT / "static" / "vendor" / "htmx" / "htmx.min.js"
    vendored = htmx.stat().st_size if htmx.exists() else 52_182
    assert sum(len(text.encode()) for text in [*on_the_first_page, *sheets]) + vendored < 150_000


FIRST_PAGE = (
    "app.js", "dialog.js", "format.js", "keys.js", "live.js", "pick.js", "shell.js", "socket.js", "strings.js",
)  # fmt: skip
