"""The number of SQL queries of every list is the same for 3 and for 30 rows, and is the reviewed one.

`HEADWORKS_UPDATE_QUERY_COUNTS=1` writes what is found to `query_counts.json`; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.api.calling import make_client
from tests.api.routes import routes
from tests.api.world import World, make_many, make_world

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

TABLE = Path(__file__).with_name("query_counts.json")


def test_every_list_needs_the_same_few_queries_for_any_number_of_rows() -> None:
    world = make_world()
    client = make_client("administrator")
    make_many(3)
    few = _counts(client, world)
    make_many(27, start=3)
    many = _counts(client, world)
    assert {route: rows for route, (rows, _) in many.items() if rows < 27} == {}
    found = {route: queries for route, (_, queries) in many.items()}
    assert {route: queries for route, (_, queries) in few.items()} == found
    if os.environ.get("HEADWORKS_UPDATE_QUERY_COUNTS"):
        TABLE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    assert found == json.loads(TABLE.read_text(encoding="utf-8"))


def _counts(client: APIClient, world: World) -> dict[str, tuple[int, int]]:
    """Returns route -> (rows shown, queries) of every address that answers a page."""
    found: dict[str, tuple[int, int]] = {}
    for route in routes():
        if not route.is_rest or "GET" not in route.methods():
            continue
        with CaptureQueriesContext(connection) as queries:
            answer: Any = client.get(route.url(world))
        body = answer.json() if answer.status_code == 200 and answer["Content-Type"] == "application/json" else {}
        if "count" in body and "results" in body:
            found[route.route] = (len(body["results"]), len(queries))
    return found
