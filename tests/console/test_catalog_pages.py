"""Models and variants are added, changed and removed."""

from __future__ import annotations

import pytest

from controlplane.catalog.models import Model, Variant
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def test_a_model_and_its_variant_are_made_changed_and_removed() -> None:
    client = make_client("operator")
    client.post("/models/new/", {"name": "qwen3-8b", "family": "qwen3", "parameters": "8190000000"}, headers=HX)
    client.post("/models/qwen3-8b/variants/new/", {"name": "fp8", "path": "/srv/q", "precision": "fp8"}, headers=HX)
    row = Variant.objects.select_related("model").get()
    assert (row.model.parameters, row.path, row.size_bytes) == (8_190_000_000, "/srv/q", None)
    assert "/models/qwen3-8b/variants/fp8/edit/" in client.get("/models/qwen3-8b/").content.decode()
    fields = {"path": "/srv/q2", "precision": "fp8", "size_bytes": "12", "version": str(row.version)}
    assert client.post("/models/qwen3-8b/variants/fp8/edit/", fields, headers=HX).status_code == 204
    row.refresh_from_db()
    assert (row.path, row.size_bytes) == ("/srv/q2", 12)
    client.post("/models/qwen3-8b/variants/fp8/do/delete/", headers=HX)
    client.post("/models/qwen3-8b/do/delete/", headers=HX)
    assert not Model.objects.exists()


@pytest.mark.parametrize("path", ["/models/qwen3-8b/edit/", "/models/qwen3-8b/variants/bf16/edit/"])
def test_what_somebody_changed_meanwhile_is_not_overwritten(path: str) -> None:
    variant = making.make_variant("qwen3-8b", "bf16")
    client = make_client("operator")
    assert 'name="version" value="1"' in client.get(path, headers=HX).content.decode()
    Model.objects.update(version=2), Variant.objects.update(version=2)
    response = client.post(path, {"path": "/other", "family": "x", "version": "1"}, headers=HX)
    assert response.status_code == 409 and "changed_meanwhile" in response.content.decode()
    variant.refresh_from_db()
    assert variant.path != "/other"


def test_the_dialog_says_how_many_deployments_use_a_variant() -> None:
    making.make_deployment("chat", variant=making.make_variant("qwen3-8b", "bf16"))
    client = make_client("operator")
    assert "1 deployment uses it." in client.get("/models/qwen3-8b/variants/bf16/edit/", headers=HX).content.decode()
    response = client.post("/models/qwen3-8b/variants/bf16/do/delete/", headers=HX)
    assert response.status_code == 409 and "model_in_use" in response.content.decode()
