"""The REST call that a dialog shows is one that REST takes, and follows what is filled in."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction
from django.urls import resolve
from rest_framework.test import APIClient

from controlplane.accounts.models import User
from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_pages import ADMINISTRATORS, OPERATORS

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

CALL = re.compile(r"curl -X (\w+) (\S+)((?: \\\n.*?)*?)(?=\n\n|$)", re.DOTALL)
HEADER = re.compile(r"-H '(If-[\w-]+): ([^']+)'")
# what is filled in where a form has no value of its own
FILLED = {
    "name": "fresh", "username": "cy", "password": "long enough 1", "path": "/srv/x", "typed": "x", "email": "c@x.org",
    "requests_per_minute": "600", "prompt_per_million": "0.6", "completion_per_million": "2.4",
    "description": "new words", "valid_days": "30", "deployment": "llama-70b", "reason": "it's \"loud\"",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One curl command as it is shown."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any] | None


def calls_in(text: str) -> Iterator[Call]:
    for block in re.findall(r"<pre[^>]*>(curl .*?)</pre>", html.unescape(text), re.DOTALL):
        for method, url, rest in CALL.findall(block):
            body = re.search(r"-d '(.*)'", rest, re.DOTALL)
            told = json.loads(body[1].replace("'\\''", "'")) if body else None
            yield Call(method, url.removeprefix(settings.CONSOLE_URL), dict(HEADER.findall(rest)), told)


def fields_in(text: str) -> dict[str, str]:
    """Returns the form's fields with what stands in them, or what would be filled in."""
    found = {}
    for tag, rest in re.findall(r"<(input|select)\b([^>]*)>", text):
        name, value = re.search(r'name="([^"]+)"', rest), re.search(r'value="([^"]*)"', rest)
        if name is None or 'type="checkbox"' in rest:
            continue
        chosen = re.search(rf'name="{re.escape(name[1])}".*?<option value="([^"]*)"', text, re.DOTALL)
        kept = chosen[1] if tag == "select" and chosen else html.unescape(value[1]) if value else ""
        found[name[1]] = kept or FILLED.get(name[1], "")
    return found


def test_every_dialog_shows_a_call_that_rest_takes() -> None:
    making.make_fleet()
    page, rest = make_client(), APIClient()
    rest.force_authenticate(User.objects.get(username="ada"))
    seen = 0
    for path in (*OPERATORS, *ADMINISTRATORS):
        text = page.get(path, headers=HX).content.decode()
        shown = list(calls_in(text))
        if shown and "<form" in text and 'name="csrfmiddlewaretoken"' in text and "/new/engine/" not in path:
            filled = page.post(path, {**fields_in(text), "only": "rest"}, headers=HX).content.decode()
            shown = list(calls_in(filled)) or shown
        for call in shown:
            seen += 1
            with transaction.atomic():
                answer = _send(rest, call)
                transaction.set_rollback(True)
            # 409: it is so already, or still used; everything else would be a call that can't work
            assert answer.status_code in (200, 201, 202, 204, 409), (path, call, answer.content)
    assert seen > 30


def _send(rest: APIClient, call: Call) -> Any:
    if call.body and call.body.get("password") == "…":
        call.body["password"] = "long enough 1"
    return getattr(rest, call.method.lower())(call.path, call.body, format="json", headers=call.headers)


def test_a_call_follows_the_form_and_names_every_field() -> None:
    making.make_fleet()
    client = make_client()
    cases: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
        "/deployments/llama-70b/do/scale/": ({"replicas": "7"}, {"replicas": 7}),
        "/nodes/gpu-01/do/drain/": ({"reason": "fan"}, {"reason": "fan"}),
        "/access/keys/new/": (
            {"name": "ci", "tenant": "chatbot", "deployment": "llama-70b"},
            {"name": "ci", "tier": "standard", "deployments": ["llama-70b"], "expires_at": None},
        ),
        "/access/tokens/new/": (
            {"name": "ci", "user": "bob", "role": "viewer"},
            {"name": "ci", "user": "bob", "role": "viewer", "expires_at": None},
        ),
        "/access/users/bob/edit/": (
            {"role": "viewer", "email": "b@x.org"},
            {"role": "viewer", "email": "b@x.org", "is_active": False},
        ),
        "/models/qwen3-8b/variants/new/": (
            {"name": "fp8", "path": "/srv/q", "precision": "fp8", "size_bytes": "12"},
            {"path": "/srv/q", "precision": "fp8", "size_bytes": 12},
        ),
    }
    for path, (fields, body) in cases.items():
        (call,) = calls_in(client.post(path, {**fields, "only": "rest"}, headers=HX).content.decode())
        assert call.body == body, path


def test_a_body_that_is_shown_leaves_no_field_of_rest_out() -> None:
    making.make_fleet()
    client = make_client()
    described = client.get("/api/schema/", headers={"Accept": "application/json"}).json()
    for path in (*OPERATORS, *ADMINISTRATORS):
        for call in calls_in(client.get(path, headers=HX).content.decode()):
            missing = _fields_of(described, call) - set(call.body or {})
            assert missing <= {"architecture", "password"}, (path, call)


def _fields_of(described: dict[str, Any], call: Call) -> set[str]:
    """The fields that REST's own description has for the body of this call."""
    route = re.sub(r"<\w+:(\w+)>", r"{\1}", resolve(call.path).route)
    content = described["paths"][f"/{route}"][call.method.lower()].get("requestBody", {}).get("content", {})
    reference = content.get("application/json", {}).get("schema", {}).get("$ref", "").rpartition("/")[2]
    return set(described["components"]["schemas"][reference]["properties"]) if reference else set()
