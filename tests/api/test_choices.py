"""Where one of some words is asked for, a wrong one is told at its field which there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import get_resolver
from rest_framework import serializers
from rest_framework.test import APIClient

from controlplane.api.serializers import StrictSerializer
from tests.api.calling import error
from tests.deployments.making import make_deployment


def every(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from every(one)


def fields_of(serializer: type[StrictSerializer]) -> dict[str, Any]:
    """Name of each field -> the field, those inside lists too."""
    return {
        f"{serializer.__name__}.{name}": getattr(field, "child", field)
        for name, field in serializer().fields.items()
        if not field.read_only
    }


def asked_choices() -> dict[str, Any]:
    assert get_resolver().url_patterns, "all views, and with them all serializers, are imported"
    return {
        name: field
        for serializer in every(StrictSerializer)
        if serializer.__module__.startswith("controlplane.")
        for name, field in fields_of(serializer).items()
        if isinstance(field, serializers.ChoiceField)
    }


@pytest.mark.parametrize("wrong", ["gold", "", 7, ["standard"], {"a": 1}, True])
def test_every_field_with_choices_tells_them_to_who_sends_another(wrong: object) -> None:
    found = asked_choices()
    assert {"KeyTierBody.tier", "KeyBody.tier", "LadderStepBody.kind", "EventQuery.level"} <= set(found)
    assert len(found) > 12
    silent = []
    for name, field in found.items():
        if wrong == "" and field.allow_blank:
            continue
        with pytest.raises(serializers.ValidationError) as refused:
            field.run_validation(wrong)
        if not all((str(word) or '""') in str(refused.value.detail) for word in field.choices):
            silent.append((name, str(refused.value.detail)))
    assert silent == []


@pytest.mark.django_db
@pytest.mark.services
def test_the_words_stand_at_the_field_of_the_answer(administrator: APIClient) -> None:
    make_deployment()
    administrator.put("/api/v1/tenants/demo/", {})
    key = administrator.post("/api/v1/tenants/demo/keys/", {"name": "app"}).json()["key"]["id"]
    tiers = "Use one of interactive, standard, batch."
    asked: list[tuple[str, str, dict[str, Any], str, str]] = [
        ("PUT", f"tenants/demo/keys/{key}/tier/", {"tier": "gold"}, "tier", tiers),
        ("POST", "tenants/demo/keys/", {"name": "b", "tier": "gold"}, "tier", tiers),
        ("PUT", "deployments/chat/ladder/", {"steps": [{"kind": "nap"}]}, "steps.0.kind",
         "Use one of cap_tokens, divert, shed."),
        ("PUT", "deployments/chat/ladder/", {"steps": [{"kind": "shed", "tiers": ["gold"]}]}, "steps.0.tiers",
         "There is no tier gold; there are interactive, standard, batch."),
        ("GET", "events/?level=bad", {}, "level", "Use one of info, warning, error."),
        ("GET", "deployments/?engine=no", {}, "engine", "Use one of vllm, simulated, external."),
    ]  # fmt: skip
    for method, address, body, field, text in asked:
        call = getattr(administrator, method.lower())
        answer = call(f"/api/v1/{address}", body) if body else call(f"/api/v1/{address}")
        assert answer.status_code == 400 and error(answer)["details"]["fields"].get(field) == text, address
