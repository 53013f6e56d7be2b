from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.deployments.services import freeze
from controlplane.journal.models import Event
from tests.api.calling import error

pytestmark = [pytest.mark.django_db, pytest.mark.services]
URL = "/api/v1/freeze/"


def test_nobody_has_used_the_switch_at_first(viewer: APIClient) -> None:
    answer = viewer.get(URL)
    assert answer.status_code == 200
    assert (answer.json()["frozen"], answer.json()["version"], answer.json()["changed_at"]) == (False, 0, None)


def test_everything_is_frozen_and_let_go_again(viewer: APIClient, operator: APIClient) -> None:
    assert viewer.put(URL, {"frozen": True}).status_code == 403
    assert operator.put(URL, {"frozen": True, "reason": "an audit"}).status_code == 201
    shown = viewer.get(URL).json()
    assert (shown["frozen"], shown["reason"], shown["changed_by"]) == (True, "an audit", "operator-1/test")
    assert freeze.is_frozen()
    again = operator.put(URL, {"frozen": True, "reason": "an audit"})
    assert again.headers["X-Headworks-Changed"] == "false"
    assert operator.put(URL, {"frozen": False}).json()["reason"] == ""
    assert not freeze.is_frozen()
    verbs = Event.objects.filter(object_kind="system").order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["system.frozen", "system.unfrozen"]


def test_the_switch_takes_conditions(operator: APIClient) -> None:
    old = operator.put(URL, {"frozen": True}).headers["ETag"]
    operator.put(URL, {"frozen": False})
    answer = operator.put(URL, {"frozen": True}, headers={"If-Match": old})
    assert answer.status_code == 412
    assert error(answer)["details"]["changed_by"] == "operator-1/test"


def test_how_it_shall_stand_has_to_be_said(operator: APIClient) -> None:
    assert "frozen" in error(operator.put(URL, {}))["details"]["fields"]
