from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.catalog.models import Model
from controlplane.journal.models import Event
from tests.api.calling import error
from tests.deployments.making import make_deployment, make_variant

pytestmark = [pytest.mark.django_db, pytest.mark.services]
MODEL = "/api/v1/models/Qwen2.5-7B/"
VARIANT = f"{MODEL}variants/bf16/"


def test_a_model_and_a_variant_are_made_read_and_removed(operator: APIClient) -> None:
    assert operator.put(MODEL, {"family": "qwen", "parameters": 7_600_000_000}).status_code == 201
    assert operator.put(VARIANT, {"path": "/models/qwen", "size_bytes": 15_000_000_000}).status_code == 201
    read = operator.get(MODEL).json()
    assert (read["display_name"], read["variants"][0]["address"]) == ("Qwen2.5-7B", "Qwen2.5-7B/bf16")
    assert operator.get(VARIANT).json()["path"] == "/models/qwen"
    assert operator.delete(VARIANT).status_code == 204
    assert operator.delete(MODEL).status_code == 204
    assert operator.get(MODEL).status_code == 404


@pytest.mark.parametrize(("url", "body"), [(MODEL, {"licence": "Apache-2.0"}), (VARIANT, {"path": "/m"})])
def test_put_twice_changes_nothing(operator: APIClient, url: str, body: dict[str, object]) -> None:
    operator.put(MODEL, {})
    first = operator.put(url, body)
    rows = Event.objects.count()
    second = operator.put(url, body)
    assert (second.status_code, second.headers["X-Headworks-Changed"]) == (200, "false")
    assert (second.headers["ETag"], second.json()) == (first.headers["ETag"], first.json())
    assert Event.objects.count() == rows


def test_what_was_read_can_be_sent_back(operator: APIClient) -> None:
    operator.put(MODEL, {"architecture": {"num_hidden_layers": 28}})
    assert operator.put(MODEL, operator.get(MODEL).json()).headers["X-Headworks-Changed"] == "false"


def test_a_change_on_an_old_version_is_412(operator: APIClient) -> None:
    old = operator.put(MODEL, {}).headers["ETag"]
    operator.put(MODEL, {"family": "qwen"})
    answer = operator.put(MODEL, {"family": "llama"}, headers={"If-Match": old})
    assert answer.status_code == 412
    assert error(answer)["details"]["changed_by"] == "operator-1/test"
    assert operator.delete(MODEL, headers={"If-Match": old}).status_code == 412


@pytest.mark.parametrize("url", ["/api/v1/models/smollm2/", "/api/v1/models/smollm2/variants/bf16/"])
def test_what_a_deployment_uses_is_not_removed(operator: APIClient, url: str) -> None:
    make_deployment("chat")
    make_deployment("code")
    answer = operator.delete(url)
    assert answer.status_code == 409
    assert "chat, code" in error(answer)["message"]
    assert Model.objects.get().variants.count() == 1


def test_a_model_that_nobody_uses_goes_with_its_variants(operator: APIClient) -> None:
    make_variant()
    assert operator.delete("/api/v1/models/smollm2/").status_code == 204


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "path"),
        ({"path": ""}, "path"),
        ({"path": "--trust-remote-code"}, "path"),
        ({"path": 7}, "path"),
        ({"path": "/m", "size_bytes": -1}, "size_bytes"),
        ({"path": "/m", "size": 1}, "size"),
    ],
)
def test_a_wrong_field_of_a_variant_is_named(operator: APIClient, body: dict[str, object], field: str) -> None:
    operator.put(MODEL, {})
    answer = operator.put(VARIANT, body)
    assert answer.status_code == 400
    assert field in error(answer)["details"]["fields"]


def test_a_variant_needs_its_model(operator: APIClient) -> None:
    assert error(operator.put(VARIANT, {"path": "/m"}))["code"] == "no_such_model"


def test_a_name_that_can_not_be_an_address_is_refused(operator: APIClient) -> None:
    answer = operator.put("/api/v1/models/a@b/", {})
    assert "name" in error(answer)["details"]["fields"]


def test_models_are_searched(viewer: APIClient) -> None:
    make_variant("smollm2")
    make_variant("qwen3")
    answer = viewer.get("/api/v1/models/", {"search": "smol"}).json()
    assert [row["name"] for row in answer["results"]] == ["smollm2"]
    assert answer["results"][0]["variants"][0]["deployments_total"] == 0
