"""Who may do what at every address, against the reviewed table `access.json`.

The table maps each pattern to each method that it has and the least role that gets past the door: anyone, viewer,
operator or administrator. `HEADWORKS_UPDATE_ACCESS=1` writes what is found; read the difference before committing it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
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
    "healthz": "health checks of containers and balancers; it tells nothing but that the process serves",
    "login/": "one has to be able to log in",
    "logout/": "ending a session that there is not does nothing",
    "language/": "the language of the login page",
    "access/": "it only leads to access/tenants/, which asks for a login",
    "api/schema/": "it describes the interface and holds no data; generators of clients read it",
    "api/<path:rest>": "there is nothing at this address",
}


@dataclass(frozen=True)
class Door:
    """How one role comes in: with a token to REST, with a session to the pages."""

    rest: APIClient
    cookie: str | None

    def pages(self) -> Client:
        """Returns a browser with the session, as it was before other requests."""
        client = Client(raise_request_exception=False)
        if self.cookie:
            client.cookies[settings.SESSION_COOKIE_NAME] = self.cookie
        return client


def test_every_address_asks_for_the_role_in_the_table() -> None:
    world = make_world()
    clients = {role: Door(make_client(_account(role)), _session_cookie(role)) for role in ROLES}
    found = {route.route: _least_roles(route, world, clients) for route in routes()}
    if os.environ.get("HEADWORKS_UPDATE_ACCESS"):
        TABLE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    assert found == json.loads(TABLE.read_text(encoding="utf-8"))


def test_only_the_listed_addresses_are_open_to_anyone() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    opened = {route for route, methods in table.items() if "anyone" in methods.values()}
    assert opened == set(OPEN)


def _least_roles(route: Route, world: World, clients: dict[str, Door]) -> dict[str, str]:
    found: dict[str, str] = {}
    for method in METHODS:
        statuses = [_status(route, method, world, clients[role]) for role in ROLES]
        assert "500" not in statuses, f"{method} {route.route} fails: {statuses}"
        passed = [status not in ("login", "forbidden") for status in statuses]
        assert passed == sorted(passed), f"{method} {route.route}: a higher role may do less: {statuses}"
        assert True in passed, f"{method} {route.route} is open to nobody: {statuses}"
        if statuses[-1] != "405":
            found[method] = ROLES[passed.index(True)]
        elif route.is_rest and route.route not in OPEN:
            assert not passed[0], f"{method} {route.route} tells strangers that it does not exist"
    same = set(found.values())
    return {"any method": same.pop()} if len(found) == len(METHODS) and len(same) == 1 else found


def _status(route: Route, method: str, world: World, door: Door) -> str:
    """Sends one request in a transaction that is rolled back; returns login, forbidden, or the status."""
    sender: Any = door.rest if route.is_rest else door.pages()
    with transaction.atomic():
        response = sender.generic(method, route.url(world), content_type="application/json")
        transaction.set_rollback(True)
    if response.status_code == 401 or (
        response.status_code == 302 and response["Location"].startswith("/login/?next=")
    ):
        return "login"
    if response.status_code == 403 and route.route != "login/":  # there it means: not with this password
        return "forbidden"
    return str(response.status_code)


def _account(role: str) -> str | None:
    return None if role == "anyone" else role


def _session_cookie(role: str) -> str | None:
    if role == "anyone":
        return None
    client = Client()
    client.force_login(User.objects.get(username=f"{role}-1"))
    return client.cookies[settings.SESSION_COOKIE_NAME].value
