"""On phones a row becomes a card without the head of its column, so each figure brings its unit along."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from tests.console import making, making_traffic
from tests.console.calling import make_client
from tests.console.looking import PAGES

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


class Tables(HTMLParser):
    """Collects tables that become cards: heads with a unit, and the cells below them.

    A live dash may become a figure.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bare: list[str] = []  # figures without a unit
        self._units: dict[int, str] = {}  # column -> name of a head that has a unit
        self._inside, self._column, self._text, self._has_unit, self._is_live = "", -1, "", False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        css = (dict(attrs).get("class") or "").split()
        if tag == "table":
            self._units, self._inside = {}, "table" if "table" in css and "keeps" not in css else ""
        elif tag == "tr":
            self._column = -1
        elif tag in ("th", "td") and self._inside:
            self._inside, self._text, self._has_unit, self._is_live = tag, "", False, False
            self._column += 1
        self._has_unit |= "unit" in css
        self._is_live |= "data-live" in dict(attrs)

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("th", "td") or self._inside != tag:
            return
        text = re.sub(r"\s+", " ", self._text).strip()
        if tag == "th" and self._has_unit:
            self._units[self._column] = text
        elif (
            tag == "td"
            and self._column in self._units
            and not self._has_unit
            and (self._is_live or re.search(r"\d", text))
        ):
            self.bare.append(f"{self._units[self._column]}: {text}")


def test_a_figure_in_a_table_has_its_unit_also_without_the_head() -> None:
    making.make_fleet()
    making_traffic.tell("llama-70b", "smollm2")
    client, bare = make_client(), {}
    for name, path in PAGES.items():
        tables = Tables()
        tables.feed(client.get(path).content.decode())
        if tables.bare:
            bare[name] = sorted(set(tables.bare))
    assert bare == {}
