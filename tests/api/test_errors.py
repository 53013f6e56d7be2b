from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from django.db import OperationalError
from rest_framework import exceptions
from rest_framework.test import APIClient

from controlplane.api import errors
from controlplane.domain.errors import RefusedError
from tests.api.calling import error

URL = "/api/v1/pools/p1/"
services = pytest.mark.services


def send(client: APIClient, raw: bytes, content_type: str = "application/json") -> Any:
    return client.put(URL, data=raw, content_type=content_type)


@services
@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b'{"purpose": "mixed", "purpose": "online"}',
        b'{"hot": NaN}',
        b'{"hot": 1e999}',
        b'{"hot": ' + b"9" * 5000 + b"}",
        b'{"purpose": "a\\u0000b"}',
        b'{"purpose": "\\ud800"}',
        b'{"\\u0000": 1}',
        b'{"purpose": ' + b"[" * 40 + b"]" * 40 + b"}",
        b"[" * 100_000,
    ],
)
def test_a_body_that_can_not_be_read_is_one_sentence(operator: APIClient, raw: bytes) -> None:
    answer = send(operator, raw)
    assert answer.status_code == 400
    assert error(answer)["code"] == "malformed"


@services
@pytest.mark.parametrize("raw", [b"[]", b'"text"', b"7", b"null", b"true"])
def test_a_body_that_is_no_object_is_refused(operator: APIClient, raw: bytes) -> None:
    answer = send(operator, raw)
    assert (answer.status_code, error(answer)["code"]) == (400, "invalid")


@services
def test_a_body_of_two_megabytes_is_refused(operator: APIClient) -> None:
    answer = send(operator, json.dumps({"purpose": "x" * 2_000_000}).encode())
    assert (answer.status_code, error(answer)["code"]) == (413, "too_large")


@services
def test_another_content_type_is_415(operator: APIClient) -> None:
    answer = send(operator, b"purpose=mixed", "application/x-www-form-urlencoded")
    assert (answer.status_code, error(answer)["code"]) == (415, "unsupported_media_type")


@services
def test_another_method_is_405_with_those_allowed(operator: APIClient) -> None:
    answer = operator.patch(URL, {})
    assert (answer.status_code, error(answer)["code"]) == (405, "method_not_allowed")
    assert answer.headers["Allow"] == "GET, PUT, DELETE, HEAD, OPTIONS"


@services
@pytest.mark.parametrize(
    "url", ["/api/v1/nothing/", "/api/v1/nothing", "/api/", "/api/v2/deployments/", "/api/v1/deployments/a%00b/"]
)
def test_an_unknown_address_is_404_in_the_same_shape(operator: APIClient, url: str) -> None:
    answer = operator.get(url)
    assert (answer.status_code, error(answer)["code"]) == (404, "not_found")


@services
@pytest.mark.parametrize("kind", ["deployments", "replicas", "nodes", "pools", "models", "engines"])
def test_an_object_that_is_not_there_is_404_and_named(operator: APIClient, kind: str) -> None:
    answer = operator.get(f"/api/v1/{kind}/nobody-1/")
    assert answer.status_code == 404
    assert "nobody-1" in error(answer)["message"]


@services
def test_an_absurdly_long_name_is_404(operator: APIClient) -> None:
    assert operator.get(f"/api/v1/deployments/{'a' * 5000}/").status_code == 404


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (RefusedError("x", "No.", kind="forbidden"), 403, "x"),
        (RefusedError("x", "No.", kind="unavailable"), 503, "x"),
        (RefusedError("changed_meanwhile", "No.", kind="conflict"), 412, "changed_meanwhile"),
        (exceptions.Throttled(wait=7), 429, "throttled"),
        (OperationalError("gone"), 503, "unavailable"),
        (redis.ConnectionError("gone"), 503, "unavailable"),
        (ZeroDivisionError("a bug"), 500, "internal"),
    ],
)
def test_whatever_is_raised_has_one_shape(raised: Exception, status: int, code: str) -> None:
    answer = errors.exception_handler(raised, {})
    assert (answer.status_code, answer.data["error"]["code"]) == (status, code)
    assert "bug" not in str(answer.data)


def test_a_throttled_answer_says_when_to_come_back() -> None:
    assert errors.exception_handler(exceptions.Throttled(wait=7), {}).headers["Retry-After"] == "7"


def test_nested_problems_are_flattened_to_dotted_names() -> None:
    raised = exceptions.ValidationError({"a": {"b": ["Wrong."]}, "c": [{}, {"d": ["Bad."]}]})
    fields = errors.exception_handler(raised, {}).data["error"]["details"]["fields"]
    assert fields == {"a.b": "Wrong.", "c.1.d": "Bad."}


@services
@pytest.mark.parametrize("path", ["/api/v1/", "/api/v1", "/api/", "/api/v1/nothing/", "/api/v1/nothing", "/api/v2/"])
def test_an_address_that_does_not_exist_names_the_description(operator: APIClient, path: str) -> None:
    answer = operator.get(path)
    assert (answer.status_code, error(answer)["code"]) == (404, "not_found")
    assert "/api/schema/" in error(answer)["details"]["hint"]
    assert operator.get("/api/schema/").status_code == 200
