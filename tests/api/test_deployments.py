from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.deployments.models import Deployment
from controlplane.journal.models import Event
from tests.api.calling import error
from tests.deployments.making import make_deployment, make_pool, make_replica, make_variant

pytestmark = [pytest.mark.django_db, pytest.mark.services]
URL = "/api/v1/deployments/chat/"


@pytest.fixture
def body() -> dict[str, Any]:
    make_pool()
    make_variant()
    return {"engine": "vllm", "variant": "smollm2/bf16", "replicas": 2, "settings": {"max_num_seqs": 16}}


def test_put_makes_a_deployment_and_get_reads_it(operator: APIClient, body: dict[str, Any]) -> None:
    made = operator.put(URL, body)
    assert made.status_code == 201, made.content
    read = operator.get(URL).json()
    assert read == made.json()
    assert (read["name"], read["replicas"], read["settings"]) == ("chat", 2, {"max_num_seqs": 16})
    assert (read["status"], read["revision"], read["version"]) == ("starting", 1, 1)


def test_put_twice_changes_nothing(operator: APIClient, body: dict[str, Any]) -> None:
    first = operator.put(URL, body)
    rows = Event.objects.count()
    second = operator.put(URL, body)
    assert (second.status_code, second.headers["X-Headworks-Changed"]) == (200, "false")
    assert second.headers["ETag"] == first.headers["ETag"]
    assert second.json() == first.json()
    assert Event.objects.count() == rows
    assert Deployment.objects.get().revisions.count() == 1


def test_what_was_read_can_be_sent_back(operator: APIClient, body: dict[str, Any]) -> None:
    operator.put(URL, body)
    answer = operator.put(URL, operator.get(URL).json())
    assert (answer.status_code, answer.headers["X-Headworks-Changed"]) == (200, "false")


def test_an_edit_of_settings_makes_a_revision(operator: APIClient, body: dict[str, Any]) -> None:
    operator.put(URL, body)
    answer = operator.put(URL, {**body, "settings": {"max_num_seqs": 8}, "note": "fewer seats"})
    assert (answer.status_code, answer.headers["X-Headworks-Changed"]) == (200, "true")
    assert answer.json()["revision"] == 2
    revisions = operator.get(f"{URL}revisions/").json()
    assert [(row["number"], row["note"]) for row in revisions["results"]] == [(2, "fewer seats"), (1, "")]


def test_an_edit_of_an_old_version_is_412_and_says_who_was_there(operator: APIClient, body: dict[str, Any]) -> None:
    old = operator.put(URL, body).headers["ETag"]
    operator.put(URL, {**body, "replicas": 3})
    answer = operator.put(URL, {**body, "replicas": 4}, headers={"If-Match": old})
    assert answer.status_code == 412
    details = error(answer)["details"]
    assert details["changed_by"] == "operator-1/test"
    assert details["changed_at"]
    assert Deployment.objects.get().replicas_wanted == 3


def test_a_replica_that_became_ready_meanwhile_does_not_spoil_an_edit(
    operator: APIClient, body: dict[str, Any]
) -> None:
    old = operator.put(URL, body).headers["ETag"]
    make_replica(Deployment.objects.get(), state="ready")
    assert operator.get(URL).headers["ETag"] != old
    assert operator.put(URL, {**body, "replicas": 4}, headers={"If-Match": old}).status_code == 200


def test_a_reader_gets_304_until_something_changes(operator: APIClient, body: dict[str, Any]) -> None:
    known = {"If-None-Match": operator.put(URL, body).headers["ETag"]}
    unchanged = operator.get(URL, headers=known)
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    make_replica(Deployment.objects.get(), state="ready")
    assert operator.get(URL, headers=known).status_code == 200


def test_put_can_be_limited_to_making_or_to_changing(operator: APIClient, body: dict[str, Any]) -> None:
    assert operator.put(URL, body, headers={"If-Match": "*"}).status_code == 412
    assert operator.put(URL, body, headers={"If-None-Match": "*"}).status_code == 201
    assert operator.put(URL, body, headers={"If-None-Match": "*"}).status_code == 412
    assert operator.put(URL, body, headers={"If-Match": "*"}).status_code == 200
    assert operator.put(URL, body, headers={"If-Match": '"nonsense"'}).status_code == 412


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": "2"}, "replicas"),
        ({"replicas": 2.5}, "replicas"),
        ({"replicas": True}, "replicas"),
        ({"replicas": -1}, "replicas"),
        ({"replicas": 9_999_999_999_999}, "replicas"),
        ({"engine": "sglang"}, "engine"),
        ({"engine": ["vllm"]}, "engine"),
        ({"variant": 7}, "variant"),
        ({"variant": "smollm2/fp4"}, "variant"),
        ({"pool": "nowhere"}, "pool"),
        ({"settings": []}, "settings"),
        ({"settings": {"max_num_seqs": {}}}, "settings"),
        ({"settings": {"max_num_seqs": -4}}, "settings.max_num_seqs"),
        ({"settings": {"speed": 4}}, "settings.speed"),
        ({"desired_state": "fast"}, "desired_state"),
    ],
)
def test_a_wrong_field_is_named(operator: APIClient, body: dict[str, Any], change: dict[str, Any], field: str) -> None:
    answer = operator.put(URL, {**body, **change})
    assert answer.status_code == 400
    assert field in error(answer)["details"]["fields"]


def test_a_missing_field_is_named(operator: APIClient) -> None:
    assert "engine" in error(operator.put(URL, {}))["details"]["fields"]


def test_a_misspelt_field_is_answered_with_the_right_one(operator: APIClient, body: dict[str, Any]) -> None:
    fields = error(operator.put(URL, {**body, "setings": {}}))["details"]["fields"]
    assert "settings" in fields["setings"]


@pytest.mark.parametrize(
    ("action", "given", "verb"),
    [
        ("stop", {}, "deployment.stopped"),
        ("drain", {}, "deployment.drained"),
        ("scale", {"replicas": 3}, "deployment.scaled"),
        ("freeze", {}, "deployment.frozen"),
    ],
)
def test_an_action_answers_the_deployment_and_its_progress(
    operator: APIClient, action: str, given: dict[str, Any], verb: str
) -> None:
    make_replica(make_deployment(), state="ready", in_flight=3)
    answer = operator.post(f"{URL}{action}/", given)
    assert answer.status_code == 200, answer.content
    assert answer.json()["deployment"]["version"] == 2
    progress = answer.json()["progress"]
    assert (progress["replicas_live"], progress["in_flight"]) == (1, 3)
    assert Event.objects.filter(verb=verb, object_id="chat").count() == 1
    assert operator.post(f"{URL}{action}/", given).json()["deployment"]["version"] == 2


def test_start_and_unfreeze_undo(operator: APIClient) -> None:
    make_deployment(desired_state="stopped")
    assert operator.post(f"{URL}start/").json()["deployment"]["desired_state"] == "running"
    operator.post(f"{URL}freeze/")
    assert operator.post(f"{URL}unfreeze/").json()["deployment"]["frozen"] is False


def test_progress_is_done_when_it_is_as_asked(operator: APIClient) -> None:
    make_replica(make_deployment(replicas=1), state="ready")
    assert operator.post(f"{URL}start/").json()["progress"]["done"] is True
    assert operator.post(f"{URL}scale/", {"replicas": 2}).json()["progress"]["done"] is False


def test_a_clone_is_stopped_and_has_its_own_name(operator: APIClient) -> None:
    make_deployment(settings={"max_num_seqs": 4})
    answer = operator.post(f"{URL}clone/", {"new_name": "chat-2"})
    assert answer.status_code == 201
    copy = answer.json()["deployment"]
    assert (copy["name"], copy["desired_state"], copy["settings"]) == ("chat-2", "stopped", {"max_num_seqs": 4})
    assert operator.post(f"{URL}clone/", {"new_name": "chat-2"}).status_code == 409


def test_delete_drains_first_and_tells_how_far_it_is(operator: APIClient) -> None:
    make_replica(make_deployment(), state="ready")
    answer = operator.delete(URL)
    assert answer.status_code == 202
    assert answer.json()["deployment"]["deleted_at"]
    assert answer.json()["progress"]["replicas_wanted"] == 0
    assert operator.post(f"{URL}start/").status_code == 409


def test_an_action_on_an_old_version_is_412(operator: APIClient) -> None:
    make_deployment()
    old = operator.get(URL).headers["ETag"]
    operator.post(f"{URL}scale/", {"replicas": 2})
    assert operator.post(f"{URL}stop/", headers={"If-Match": old}).status_code == 412
    assert operator.delete(URL, headers={"If-Match": old}).status_code == 412


def test_an_action_takes_no_body_it_does_not_know(operator: APIClient) -> None:
    make_deployment()
    answer = operator.post(f"{URL}stop/", {"force": True})
    assert error(answer)["details"]["fields"] == {"force": "No fields are expected here."}


def test_the_list_is_filtered_and_searched(viewer: APIClient) -> None:
    make_replica(make_deployment("chat", replicas=1), state="ready")
    make_deployment("code", replicas=1)
    make_deployment("idle", desired_state="stopped")

    def names(**query: str) -> list[str]:
        answer = viewer.get("/api/v1/deployments/", query)
        assert answer.status_code == 200, answer.content
        return [row["name"] for row in answer.json()["results"]]

    assert names() == ["chat", "code", "idle"]
    assert names(status="ready") == ["chat"]
    assert names(status="stopped") == ["idle"]
    assert names(search="ch") == ["chat"]
    assert names(engine="external") == []


def test_a_slash_at_the_end_may_be_left_out(operator: APIClient, body: dict[str, Any]) -> None:
    assert operator.put(URL.rstrip("/"), body).status_code == 201
    assert operator.get(URL.rstrip("/")).json()["name"] == "chat"
    assert error(operator.get("/api/v1/deploymints"))["code"] == "not_found"


def test_the_key_of_an_external_endpoint_is_taken_and_never_shown(operator: APIClient) -> None:
    make_pool()
    given = {
        "engine": "external",
        "external_url": "http://127.0.0.1:9/v1",
        "external_model": "llama",
        "external_key": "sk-very-secret",
    }
    made = operator.put(URL, given)
    assert made.status_code == 201, made.content
    assert made.json()["has_external_key"] is True
    assert "external_key" not in made.json()
    assert "sk-very-secret" not in made.content.decode()
    without = {name: value for name, value in given.items() if name != "external_key"}
    assert operator.put(URL, without).headers["X-Headworks-Changed"] == "false"
    assert Deployment.objects.get().external_key == "sk-very-secret"
