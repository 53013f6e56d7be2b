from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.journal.models import Event
from controlplane.journal.services import record
from controlplane.journal.services.record import SYSTEM
from tests.api.calling import error
from tests.api.world import make_journal
from tests.deployments.making import make_deployment, make_pool

pytestmark = [pytest.mark.django_db, pytest.mark.services]
EVENTS = "/api/v1/events/"


def messages(page: dict[str, Any]) -> list[str]:
    return [row["message"] for row in page["results"]]


def follow(client: APIClient, page: dict[str, Any], link: str) -> dict[str, Any]:
    answer = client.get(page[link])
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def journal(viewer: APIClient) -> APIClient:
    Event.objects.all().delete()
    make_journal(7)
    return viewer


def test_pages_lead_through_all_rows_and_back(journal: APIClient) -> None:
    first = journal.get(EVENTS, {"limit": 3}).json()
    assert (first["count"], first["previous"]) == (7, None)
    second = follow(journal, first, "next")
    third = follow(journal, second, "next")
    assert messages(first) + messages(second) + messages(third) == [f"Change {number}." for number in range(6, -1, -1)]
    assert third["next"] is None
    back = follow(journal, third, "previous")
    assert messages(back) == messages(second)
    assert messages(follow(journal, back, "previous")) == messages(first)


def test_rows_added_meanwhile_neither_repeat_nor_hide_others(journal: APIClient) -> None:
    first = journal.get(EVENTS, {"limit": 3}).json()
    make_journal(5)
    assert messages(follow(journal, first, "next")) == ["Change 3.", "Change 2.", "Change 1."]


def test_a_row_removed_meanwhile_leaves_the_place(journal: APIClient) -> None:
    first = journal.get(EVENTS, {"limit": 3}).json()
    Event.objects.filter(message="Change 4.").delete()
    assert messages(follow(journal, first, "next")) == ["Change 3.", "Change 2.", "Change 1."]


def test_names_page_in_order_while_others_are_made(viewer: APIClient) -> None:
    for name in ("a", "c", "e"):
        make_pool(name)
    first = viewer.get("/api/v1/pools/", {"limit": 2}).json()
    make_pool("b")
    make_pool("d")
    second = follow(viewer, first, "next")
    assert [row["name"] for row in second["results"]] == ["d", "e"]


def test_a_link_keeps_the_filters(journal: APIClient) -> None:
    first = journal.get(EVENTS, {"limit": "2", "object_kind": "deployment"}).json()
    assert "object_kind=deployment" in first["next"]


@pytest.mark.parametrize("limit", ["0", "-1", "501", "many", "9" * 30])
def test_a_limit_out_of_range_is_refused(viewer: APIClient, limit: str) -> None:
    assert "limit" in error(viewer.get(EVENTS, {"limit": limit}))["details"]["fields"]


@pytest.mark.parametrize("cursor", ["x", "WzEsMl0", "'; drop table", "é"])
def test_a_cursor_that_no_page_gave_is_refused(viewer: APIClient, cursor: str) -> None:
    answer = viewer.get(EVENTS, {"cursor": cursor})
    assert answer.status_code == 400
    assert "cursor" in error(answer)["details"]["fields"]


def test_a_cursor_of_another_list_is_refused(journal: APIClient) -> None:
    link = journal.get(EVENTS, {"limit": 3}).json()["next"].split("?")[1]
    assert journal.get(f"/api/v1/pools/?{link}").status_code == 400


def test_an_unknown_parameter_is_named(viewer: APIClient) -> None:
    fields = error(viewer.get("/api/v1/deployments/", {"stat": "ready"}))["details"]["fields"]
    assert fields == {"stat": "There is no such field; did you mean status?"}


def test_a_parameter_that_is_given_twice_is_refused(viewer: APIClient) -> None:
    assert viewer.get("/api/v1/deployments/?status=ready&status=failed").status_code == 400


def test_a_wrong_value_of_a_filter_is_named(viewer: APIClient) -> None:
    assert "status" in error(viewer.get("/api/v1/deployments/", {"status": "quick"}))["details"]["fields"]
    assert "since" in error(viewer.get(EVENTS, {"since": "yesterday"}))["details"]["fields"]


def test_events_of_accounts_are_for_administrators(journal: APIClient, administrator: APIClient) -> None:
    for kind in ("user", "token", "api_key", "tenant"):
        record.event(actor=SYSTEM, verb="odd", object_kind=kind, object_id="x", message=f"About a {kind}.")
    assert messages(journal.get(EVENTS, {"verb": "odd"}).json()) == ["About a tenant."]
    assert journal.get(EVENTS, {"object_kind": "user"}).json()["count"] == 0
    assert administrator.get(EVENTS, {"verb": "odd"}).json()["count"] == 4


def test_events_and_decisions_are_filtered(journal: APIClient) -> None:
    at = Event.objects.get(message="Change 4.").at.isoformat()
    assert messages(journal.get(EVENTS, {"since": at}).json()) == ["Change 6.", "Change 5.", "Change 4."]
    assert messages(journal.get(EVENTS, {"verb": "deployment.", "search": "Change 2"}).json()) == ["Change 2."]
    assert journal.get(EVENTS, {"object_kind": "node"}).json()["results"] == []
    decisions = journal.get("/api/v1/decisions/", {"rule": "restart", "object_id": "chat"}).json()
    assert decisions["count"] == 7
    assert journal.get("/api/v1/decisions/", {"object_id": "code"}).json()["count"] == 0
    for url in (EVENTS, "/api/v1/decisions/"):
        assert [journal.get(url, {"deployment": name}).json()["count"] for name in ("chat", "code")] == [7, 0]


def test_deployments_are_filtered_by_the_field_that_they_show(viewer: APIClient) -> None:
    make_deployment("chat")
    make_deployment("idle", desired_state="stopped")
    for name in ("chat", "idle"):
        status = viewer.get(f"/api/v1/deployments/{name}/").json()["status"]
        found = viewer.get("/api/v1/deployments/", {"status": status}).json()["results"]
        assert [row["name"] for row in found] == [name]
