"""The REST call that a dialog shows is one that REST has."""

from __future__ import annotations

import html
import json
import re

import pytest
from django.conf import settings
from django.urls import resolve

from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_pages import ADMINISTRATORS, OPERATORS

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

CALL = re.compile(r"curl -X (\w+) (\S+)((?: \\\n.*?)*?)(?=\n\n|$)", re.DOTALL)


def test_every_dialog_shows_a_call_that_exists() -> None:
    making.make_fleet()
    client = make_client()
    seen = 0
    for path in (*OPERATORS, *ADMINISTRATORS):
        text = html.unescape(client.get(path, headers=HX).content.decode())
        for block in re.findall(r"<pre[^>]*>(curl .*?)</pre>", text, re.DOTALL):
            for method, url, rest in CALL.findall(block):
                seen += 1
                view = resolve(url.removeprefix(settings.CONSOLE_URL)).func
                assert hasattr(view.cls, method.lower()), (path, method, url)  # type: ignore[attr-defined]
                body = re.search(r"-d '(.*)'", rest, re.DOTALL)
                assert body is None or isinstance(json.loads(body[1]), dict)
    assert seen > 20
