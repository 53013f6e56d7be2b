"""Random bodies and parameters: whatever is sent, the answer is a success or a refusal in the one shape."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rest_framework.test import APIClient

from tests.api.calling import error, make_client
from tests.api.routes import Route, routes
from tests.api.world import World, make_world

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

FIELDS = [
    "engine", "variant", "pool", "desired_state", "replicas", "accelerators_per_replica", "tensor_parallel",
    "pipeline_parallel", "settings", "external_url", "external_model", "external_key", "note", "new_name",
    "drain_timeout_s", "reason", "purpose", "hot", "display_name", "family", "parameters", "context_length_tokens",
    "licence", "source", "architecture", "path", "precision", "size_bytes", "role", "email", "is_active", "password",
    "user", "name", "expires_at", "description", "deployments", "current", "new", "max_num_seqs", "max_model_len",
    "extra_args",
]  # fmt: skip
# what comes close to being right finds more than noise does
PLAUSIBLE = [
    "vllm", "external", "simulated", "smollm2/bf16", "default", "running", "stopped", "http://[::1",
    "http://a:99999/", "http://127.0.0.1:9/v1", "online", "viewer", "administrator", "2030-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "chat", "correct-horse-7", "-1", "٣", "1e5", "../..",
    "--help",
]  # fmt: skip
PARAMETERS = [
    "state", "engine", "pool", "search", "since", "until", "level", "verb", "by", "step", "limit", "cursor",
    "subjects", "subject",
]  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-2, max_value=20),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(PLAUSIBLE),
)
NAMES = st.one_of(st.sampled_from(FIELDS), st.text(max_size=5))
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
BODIES = st.one_of(st.dictionaries(NAMES, VALUES, max_size=8), VALUES)
ROUGHLY = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def client(world: World) -> APIClient:
    return make_client("administrator")


def writes() -> list[tuple[Route, str]]:
    return [(route, method) for route in routes() if route.is_rest for method in route.methods() if method != "GET"]


def send(client: APIClient, method: str, url: str, **extra: Any) -> None:
    with transaction.atomic():
        answer = client.generic(method, url, content_type="application/json", **extra)
        transaction.set_rollback(True)
    assert 200 <= answer.status_code < 500, (method, url, extra, answer.content)
    if answer.status_code >= 400:
        error(answer)


def test_no_body_makes_any_write_fail(client: APIClient, world: World) -> None:
    targets = [(method, route.url(world)) for route, method in writes() if method in ("PUT", "POST")]
    assert len(targets) > 20

    @ROUGHLY
    @given(body=BODIES)
    def try_all(body: Any) -> None:
        for method, url in targets:
            send(client, method, url, data=json.dumps(body))

    try_all()


@pytest.mark.parametrize("engine", ["vllm", "simulated", "external"])
def test_no_settings_make_a_deployment_or_its_preview_fail(client: APIClient, world: World, engine: str) -> None:
    fields = [field["name"] for field in client.get(f"/api/v1/engines/{engine}/").json()["settings"]]
    names = st.sampled_from(fields) if fields else NAMES

    @ROUGHLY
    @given(given_settings=st.dictionaries(names, SCALARS, max_size=4))
    def try_all(given_settings: dict[str, Any]) -> None:
        body = {"variant": "smollm2/bf16", "settings": given_settings}
        send(client, "POST", f"/api/v1/engines/{engine}/preview/", data=json.dumps(body))
        send(client, "PUT", "/api/v1/deployments/fuzz/", data=json.dumps({**body, "engine": engine}))

    try_all()


def test_no_parameters_make_a_list_fail(client: APIClient, world: World) -> None:
    urls = [route.url(world) for route in routes() if route.is_rest and "GET" in route.methods()]
    names = st.sampled_from(PARAMETERS)
    values = st.one_of(st.text(max_size=12), st.sampled_from(PLAUSIBLE), st.integers().map(str))

    @ROUGHLY
    @given(query=st.dictionaries(names, values, min_size=1, max_size=1))
    def try_all(query: dict[str, str]) -> None:
        for url in urls:
            answer = client.get(url, query)
            assert answer.status_code < 500, (url, query, answer.content)

    try_all()


def test_no_condition_makes_a_write_fail(client: APIClient, world: World) -> None:
    tags = st.one_of(st.text(alphabet=st.characters(max_codepoint=126, min_codepoint=32), max_size=15), st.just("*"))

    @ROUGHLY
    @given(tag=st.one_of(tags, st.integers().map(lambda number: f'"{number}"')))
    def try_all(tag: str) -> None:
        for name in ("HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"):
            send(client, "PUT", "/api/v1/pools/default/", data="{}", **{name: tag})

    try_all()
