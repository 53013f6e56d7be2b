"""No form makes a page fail, and what was sent comes back as text."""

from __future__ import annotations

from html.parser import HTMLParser
from urllib.parse import quote

import pytest
from django.test import Client
from django.urls import reverse

from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_hostile_text import HOSTILE, wrong
from tests.console.test_pages import ADMINISTRATORS, OPERATORS

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

ALONE = (HOSTILE, "\0", "9" * 5000)  # in each field, the others as the form has them
TOGETHER = ("x" * 100_000, "-1", "\u0663", '{"a": 1}', "")  # in all fields at once
FORMS = (*OPERATORS, *ADMINISTRATORS, "/language/", "/deployments/new/preview/")


class Fields(HTMLParser):
    """Collects the names of a form's fields."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("input", "select", "textarea") and found.get("name"):
            self.names[str(found["name"])] = found.get("value") or ""


def fields_of(client: Client, path: str) -> dict[str, str]:
    page = Fields()
    page.feed(client.get(path, headers=HX).content.decode())
    return {name: value for name, value in page.names.items() if name != "csrfmiddlewaretoken"}


def test_no_value_in_any_field_makes_a_page_fail() -> None:
    making.make_fleet()
    client = make_client("administrator", making.make_user("mallory"))
    client.raise_request_exception = False
    problems = []
    for path in FORMS:
        fields = fields_of(client, path)
        attempts = [{**fields, name: value} for name in fields for value in ALONE]
        for sent in (*attempts, *(dict.fromkeys(fields, value) for value in TOGETHER)):
            response = client.post(path, sent, headers=HX)
            if response.status_code >= 500 or wrong(response.content.decode()):
                changed = {name: value[:20] for name, value in sent.items() if fields[name] != value}
                problems.append((path, response.status_code, changed))
    assert problems == []


def test_no_value_in_an_address_makes_a_page_fail() -> None:
    making.make_fleet()
    client = make_client("administrator", making.make_user("mallory"))
    client.raise_request_exception = False
    problems = []
    for value in (HOSTILE, "\0", "9" * 400, "-1"):
        for name in ("deployments", "nodes", "models", "journal", "decisions", "tenants", "keys", "users", "tokens"):
            for key in ("q", "page", "sort", "state", "engine", "since", "until", "kind", "object", "size"):
                problems += _failing(client, reverse(name), {key: value})
        for path in ("/nodes/{}/", "/models/{}/", "/replicas/{}/", "/deployments/{}/", "/access/users/{}/edit/"):
            problems += _failing(client, path.format(quote(value, safe="")), {})
    assert problems == []


def _failing(client: Client, path: str, query: dict[str, str]) -> list[tuple[str, int, dict[str, str]]]:
    response = client.get(path, query)
    bad = response.status_code >= 500 or wrong(response.content.decode())
    return [(path, response.status_code, query)] if bad else []
