from __future__ import annotations

import pytest

from tests.api.calling import make_client
from tests.api.routes import routes
from tests.api.world import make_world

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def test_no_answer_holds_a_secret() -> None:
    world = make_world()
    client = make_client("administrator")
    urls = [route.url(world) for route in routes() if route.is_rest and "GET" in route.methods()]
    read = [client.get(url) for url in urls]
    assert sum(answer.status_code == 200 for answer in read) > 25
    text = "\n".join(answer.content.decode() for answer in read)
    assert [secret for secret in world.secrets if secret in text] == []


def test_no_name_of_a_secret_is_in_the_schema() -> None:
    schema = make_client(None).get("/api/schema/").content.decode()
    for name in ("key_hash", "token_hash"):
        assert name not in schema


def test_a_refusal_does_not_repeat_a_secret() -> None:
    make_world()
    body = {"engine": "external", "external_url": "nonsense", "external_model": "m", "external_key": "sk-typed-in"}
    answer = make_client("operator").put("/api/v1/deployments/new/", body)
    assert answer.status_code == 400
    assert "sk-typed-in" not in answer.content.decode()
