"""Who may hear what on the telemetry socket, against the reviewed table `socket_access.json`.

The table tells the least role for connecting, for a subscription of each kind of subject, and for hearing that an
object of each kind changed. `HEADWORKS_UPDATE_ACCESS=1` writes what is found; read the difference before committing.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from django.db import connections

from controlplane.console.views.journal import KINDS
from controlplane.domain.samples import SUBJECT_KINDS
from controlplane.telemetry import hub
from controlplane.telemetry.services import notify
from tests.telemetry import live
from tests.telemetry.live import REPLICA, Headers, browser, connected, in_database, program, refused

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

TABLE = Path(__file__).with_name("socket_access.json")
ROLES = ("anonymous", "viewer", "operator", "administrator")
SUBJECTS = {
    "deployment": "deployment:chat",
    "replica": f"replica:{REPLICA}",
    "node": "node:n1",
    "gateway": "gateway:chat",
    "log": f"log:{REPLICA}",
    "unknown": "tenant:demo",
}


@pytest.fixture
async def headers(valkey_server: str) -> AsyncIterator[dict[str, list[Headers]]]:
    """The ways in of each role: with a session and with a token."""
    await in_database(live.make_objects)
    found: dict[str, list[Headers]] = {"anonymous": [browser(""), program("hwt-wrong")]}
    for role in ROLES[1:]:
        user = await in_database(live.make_user, role)
        session = browser(await in_database(live.make_session, user))
        found[role] = [session, program(await in_database(live.make_token, user, role))]
    yield found
    await hub.current().close()
    await in_database(connections.close_all)


def test_every_kind_of_subject_is_walked() -> None:
    assert SUBJECTS.keys() - {"log", "unknown"} == set(SUBJECT_KINDS)


async def test_every_subject_asks_for_the_role_in_the_table(headers: dict[str, list[Headers]]) -> None:
    heard = {role: await _heard(ways) for role, ways in headers.items()}
    found = {what: _least(what, heard) for what in ("connect", *SUBJECTS, *(f"changes of {kind}" for kind in KINDS))}
    if os.environ.get("HEADWORKS_UPDATE_ACCESS"):
        TABLE.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    assert found == json.loads(TABLE.read_text(encoding="utf-8"))


def _least(what: str, heard: dict[str, set[str]]) -> str:
    allowed = [what in heard[role] for role in ROLES]
    assert allowed == sorted(allowed), f"{what}: a higher role hears less: {allowed}"
    return ROLES[allowed.index(True)] if True in allowed else "nobody"


async def _heard(ways: list[Headers]) -> set[str]:
    by_session, by_token = [await _heard_by(way) for way in ways]
    assert by_session == by_token
    return by_session


async def _heard_by(way: Headers) -> set[str]:
    if await refused(way):
        return set()
    async with connected(way) as socket:
        found = {"connect"}
        for what, subject in SUBJECTS.items():
            await socket.subscribe(subject)
            if (await socket.frame("subscribed"))["subjects"] == [subject]:
                found.add(what)
        await socket.frame("sample")  # from here on the hub listens to changes
        for kind in KINDS:
            await in_database(notify.changed, kind, "x", "odd")
        await in_database(notify.changed, "node", "the last one", "odd")
        while (event := await socket.frame("event"))["object_id"] != "the last one":
            found.add(f"changes of {event['object_kind']}")
        return found
