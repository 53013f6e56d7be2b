from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from openapi_spec_validator import validate
from rest_framework.test import APIClient


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    found: dict[str, Any] = yaml.safe_load(out.getvalue())
    return found


def operations(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for methods in schema["paths"].values() for operation in methods.values()]


def test_the_schema_is_valid_openapi_and_has_no_warnings(schema: dict[str, Any]) -> None:
    validate(schema)
    assert len(schema["paths"]) > 40


def test_operation_ids_are_verbs_with_nouns_and_unique(schema: dict[str, Any]) -> None:
    ids = [operation["operationId"] for operation in operations(schema)]
    assert len(set(ids)) == len(ids)
    assert {"list_deployments", "put_deployment", "scale_deployment", "create_key"} <= set(ids)
    assert [name for name in ids if not name.islower() or "_" not in name] == []


def test_every_operation_needs_a_token_or_a_session_and_describes_its_errors(schema: dict[str, Any]) -> None:
    for operation in operations(schema):
        assert operation["security"] == [{"bearerToken": []}, {"cookieAuth": []}], operation["operationId"]
        answer = operation["responses"]["401"]["content"]["application/json"]["schema"]
        assert answer == {"$ref": "#/components/schemas/Error"}
        assert operation["description"], operation["operationId"]


def test_every_address_stands_in_the_documentation_with_its_methods(schema: dict[str, Any]) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "rest.md").read_text(encoding="utf-8")
    told = {
        address: set(methods.split(", "))
        for address, methods in re.findall(r"^\| `([^`]+/)` \| ([A-Z, ]+) \|", text, re.M)
    }
    known = {
        path.removeprefix("/api/v1/").replace("{", "<").replace("}", ">"): {name.upper() for name in methods}
        for path, methods in schema["paths"].items()
        if path.startswith("/api/v1/")
    }
    assert {address: known.get(address) for address in told} == told, "stale, or with other methods"
    assert sorted(set(known) - set(told)) == [], "not in docs/rest.md"


def test_the_bearer_token_is_described(schema: dict[str, Any]) -> None:
    assert schema["components"]["securitySchemes"]["bearerToken"]["scheme"] == "bearer"


@pytest.mark.django_db
@pytest.mark.services
def test_the_schema_is_served_to_anyone() -> None:
    answer = APIClient().get("/api/schema/")
    assert answer.status_code == 200
    validate(yaml.safe_load(answer.content))
