"""The switch in the top bar."""

from __future__ import annotations

import pytest

from controlplane.deployments.services import freeze
from controlplane.journal.services.record import Actor
from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_undo import act, take_back

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def test_the_dialog_says_in_numbers_what_stands_still() -> None:
    making.make_fleet()
    text = make_client("operator").get("/freeze/", headers=HX).content.decode()
    assert "4 deployments run with 5 ready replicas." in text and "2 replicas are on their way" in text
    assert "/api/v1/freeze/" in text and "If-None-Match" in text


def test_everything_is_frozen_and_every_page_says_so() -> None:
    client = make_client("operator")
    assert 'href="/freeze/"' in client.get("/pulse/").content.decode()
    fields = {"frozen": "1", "reason": "moving house", "version": "0"}
    headers = {**HX, "HX-Current-URL": "http://testserver/nodes/?q=x"}
    assert client.post("/freeze/", fields, headers=headers)["HX-Redirect"] == "/nodes/"
    assert freeze.is_frozen()
    assert "frozen" in make_client("viewer").get("/pulse/").content.decode()
    assert "moving house" in client.get("/").content.decode()
    assert "Frozen by test-operator: moving house." in client.get("/freeze/", headers=HX).content.decode()


def test_a_deployment_s_page_says_that_everything_is_frozen() -> None:
    making.make_fleet()
    page = "/deployments/llama-70b/"
    client = make_client("viewer")
    assert "everything is frozen" not in client.get(page).content.decode()
    freeze.apply(actor=Actor("user", "eve"), frozen=True)
    assert "everything is frozen" in client.get(page).content.decode()


def test_what_somebody_switched_meanwhile_is_not_switched_back() -> None:
    client = make_client("operator")
    freeze.apply(actor=Actor("user", "eve"), frozen=True)
    response = client.post("/freeze/", {"frozen": "1", "reason": "x", "version": "0"}, headers=HX)
    assert response.status_code == 409 and "changed_meanwhile" in response.content.decode()


def test_the_switch_is_taken_back() -> None:
    client = make_client("operator")
    assert take_back(client, act(client, "/freeze/", frozen="1", reason="x", version="0")) == 204
    assert not freeze.is_frozen()
    assert take_back(client, act(client, "/freeze/", frozen="1", reason="y", version="2")) == 204


def test_a_foreign_address_is_no_page_to_go_back_to() -> None:
    headers = {**HX, "HX-Current-URL": "https://evil.example.org/nodes/"}
    response = make_client("operator").post("/freeze/", {"frozen": "1"}, headers=headers)
    assert response["HX-Redirect"] == "/"
