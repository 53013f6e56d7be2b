"""Who may do what at every address, against the reviewed table `access.json`.

The table maps each pattern to each method and the least role that gets past the door: anyone, viewer, operator or
administrator. `HEADWORKS_UPDATE_ACCESS=1` writes what is found; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from rest_framework.test import APIClient

from controlplane.accounts.models import User
from tests.api.calling import make_client
from tests.api.routes import Route, routes
from tests.api.world import World, make_world

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

TABLE = Path(__file__).with_name("access.json")
ROLES = ("anyone", "viewer", "operator", "administrator")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# addresses that need no login, and why
OPEN = {
    "login/": "one has to be able to log in",
    "language/": "the language of the login page",
    "api/schema/": "it describes the interface and holds no data; generators of clients read it",
    "api/<path:rest>": "there is nothing at this address",
}


def test_every_address_asks_for_the_role_in_the_table() -> None:
    world = make_world()
    clients = {role: make_client(None if role == "anyone" else role) for role in ROLES}
    found = {route.route: _least_roles(route, world, clients) for route in routes()}
    if os.environ.get("HEADWORKS_UPDATE_ACCESS"):
        TABLE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    assert found == json.loads(TABLE.read_text(encoding="utf-8"))


def test_only_the_listed_addresses_are_open_to_anyone() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    opened = {route for route, methods in table.items() if "anyone" in methods.values()}
    assert opened == set(OPEN)


def _least_roles(route: Route, world: World, clients: dict[str, APIClient]) -> dict[str, str]:
    found: dict[str, str] = {}
    for method in METHODS:
        statuses = [_status(route, method, role, world, clients[role]) for role in ROLES]
        passed = [status not in ("login", "forbidden") for status in statuses]
        assert passed == sorted(passed), f"{method} {route.route}: a higher role may do less: {statuses}"
        assert True in passed, f"{method} {route.route} is open to nobody: {statuses}"
        if statuses[-1] != "405":
            found[method] = ROLES[passed.index(True)]
        elif route.route not in OPEN:
            assert not passed[0], f"{method} {route.route} tells strangers that it does not exist"
    return found


def _status(route: Route, method: str, role: str, world: World, client: APIClient) -> str:
    """Sends one request in a transaction that is rolled back; returns login, forbidden, or the status."""
    sender: Any = client if route.is_rest else _session(role)
    with transaction.atomic():
        response = sender.generic(method, route.url(world), content_type="application/json")
        transaction.set_rollback(True)
    if response.status_code == 401 or (response.status_code == 302 and response["Location"].startswith("/login/")):
        return "login"
    if response.status_code == 403:
        return "forbidden"
    return str(response.status_code)


def _session(role: str) -> Client:
    client = Client()
    if role != "anyone":
        client.force_login(User.objects.get(username=f"{role}-1"))
    return client
