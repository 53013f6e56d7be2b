"""Whatever stands in the rows, whoever wrote it (people, engines, nodes, endpoints), is text on every page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

import pytest
from django.apps import apps
from django.db import models

from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_pages import ADMINISTRATORS, OPERATORS, PAGES

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

HOSTILE = (
    """<img src=x onerror=a()>"'><x-y onclick=b()>{{31337*3}}{% now "Y" %}javascript:c()</script>\x1b[31m\u202e&#60;"""
)
SHORT = "<x-y onclick=b()>'\""
OWN = ("accounts", "catalog", "deployments", "fleet", "journal")
# what addresses, choices and look-ups are made of can't hold anything else, or nothing would be found
KEPT = {
    "username", "name", "password", "role", "key", "hash", "token_hash", "key_hash", "uuid", "object_kind", "object_id",
    "level", "actor_kind", "purpose", "deployment", "goal", "owner_id", "id",
}  # fmt: skip
FREE_NAMES = {"ApiToken", "ApiKey", "Accelerator"}


class Elements(HTMLParser):
    """Collects what a page is made of."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def hostile(value: Any) -> Any:
    """Returns the same shape with every text in it made hostile."""
    if isinstance(value, str):
        return HOSTILE
    if isinstance(value, dict):
        return {name: part if name == "engine" else hostile(part) for name, part in value.items()}
    if isinstance(value, list):
        return [hostile(part) for part in value]
    return value


def fill(model: type[models.Model]) -> int:
    """Makes every free text of a model's rows hostile; returns how many fields that are."""
    texts, shapes = [], []
    for field in model._meta.local_concrete_fields:
        free = field.name not in KEPT or (field.name == "name" and model.__name__ in FREE_NAMES)
        if isinstance(field, models.JSONField):
            shapes.append(field.name)
        elif free and isinstance(field, models.CharField | models.TextField) and not field.choices and not field.unique:
            texts.append(field)
    constraints = [one for one in model._meta.constraints if isinstance(one, models.UniqueConstraint)]
    once = {name for one in constraints for name in one.fields}
    for row in model._default_manager.all():
        for text in texts:
            room = text.max_length or 1000
            told = HOSTILE if room >= len(HOSTILE) else SHORT[:room]
            setattr(row, text.name, f"{row.pk}{told}"[:room] if text.name in once else told)
        for name in shapes:
            setattr(row, name, hostile(getattr(row, name)))
        row.save()
    return len(texts) + len(shapes)


def wrong(text: str) -> list[str]:
    """Returns what of a page only hostile text could have made."""
    page = Elements()
    page.feed(text)
    found = [f"a handler {name}={value}" for name, value in page.attributes if name.startswith("on")]
    found += [f"an element {tag}" for tag in page.tags if tag in ("img", "x-y")]
    found += [
        f"an address {name}={value[:60]}"
        for name, value in page.attributes
        if name in ("href", "src", "action", "formaction", "hx-get", "hx-post") and "javascript:" in value.lower()[:20]
    ]
    found += ["an evaluated template"] if "94011" in text else []
    return found


def test_no_text_becomes_a_part_of_a_page() -> None:
    making.make_fleet()
    filled = sum(fill(model) for label in OWN for model in apps.get_app_config(label).get_models())
    assert filled > 40
    client = make_client("administrator", making.make_user("mallory"))
    problems = {}
    shown = 0
    for path in (*PAGES, *OPERATORS, *ADMINISTRATORS):
        for headers in ({}, HX):
            response = client.get(path, headers=headers)
            text = response.content.decode()
            shown += "&lt;img src=x onerror" in text or "&lt;x-y onclick" in text
            is_page = response["Content-Type"].startswith("text/html")
            if response.status_code != 200 or (is_page and wrong(text)):
                problems[path] = [response.status_code, *wrong(text)[:3]]
    assert problems == {}
    assert shown > 40, "the pages show too little of it to tell"
