from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from controlplane import dispatch
from controlplane.deployments.controller import documents
from controlplane.deployments.models import Deployment, Replica, Revision
from controlplane.deployments.services import deployments, endpoints
from controlplane.domain.errors import RefusedError
from controlplane.journal.models import Event
from controlplane.lib import endpoint
from controlplane.lib.endpoint import Answered, Unusable
from tests.deployments.making import ADA, make_external_wish, make_replica


class Endpoint:
    """A small endpoint that somebody else runs; `status` and `body` are what it answers."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = json.dumps({"object": "list", "data": [{"id": "llama"}]}).encode()
        self.headers: dict[str, str] = {}
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization")))
                self.send_response(outer.status)
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def remote() -> Iterator[Endpoint]:
    remote = Endpoint()
    thread = threading.Thread(target=remote.server.serve_forever, args=(0.01,))
    thread.start()
    yield remote
    remote.server.shutdown()
    thread.join(10)
    remote.server.server_close()


def make_endpoint(remote: Endpoint, **changes: object) -> Replica:
    wish = make_external_wish(external_url=f"{remote.address}/v1", external_key="sk-1", **changes)
    return make_replica(deployments.apply(actor=ADA, name="ext", wish=wish).deployment)


def test_an_endpoint_is_asked_with_its_key(remote: Endpoint) -> None:
    assert endpoint.ask_models(f"{remote.address}/v1", "sk-1") == Answered(("llama",))
    assert endpoint.ask_models(remote.address, "") == Answered(("llama",))
    assert remote.asked == [("/v1/models", "Bearer sk-1"), ("/v1/models", None)]


@pytest.mark.parametrize(("status", "code"), [(401, "endpoint_key"), (403, "endpoint_key"), (500, "endpoint_status")])
def test_a_refusal_is_told(remote: Endpoint, status: int, code: str) -> None:
    remote.status = status
    found = endpoint.ask_models(remote.address, "")
    assert isinstance(found, Unusable)
    assert found.code == code


def test_a_redirect_is_not_followed(remote: Endpoint) -> None:
    remote.status, remote.headers = 302, {"Location": f"{remote.address}/elsewhere"}
    assert isinstance(endpoint.ask_models(remote.address, "sk-1"), Unusable)
    assert len(remote.asked) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"data": 3}', b'{"data": [{}]}'])
def test_what_is_not_a_list_of_models_is_no_endpoint(remote: Endpoint, body: bytes) -> None:
    remote.body = body
    found = endpoint.ask_models(remote.address, "")
    assert isinstance(found, Unusable)
    assert found.code == "endpoint_answer"


def test_nobody_there_is_a_sentence() -> None:
    found = endpoint.ask_models("http://127.0.0.1:1", "", timeout_s=2.0)
    assert isinstance(found, Unusable)
    assert found.code == "endpoint_unreachable"


@pytest.mark.services
@pytest.mark.django_db
def test_an_endpoint_that_answers_is_ready(remote: Endpoint) -> None:
    row = make_endpoint(remote)
    assert endpoints.probe_all() == 1
    row.refresh_from_db()
    assert row.state == "ready"
    assert endpoints.probe_all() == 0
    assert list(row.transitions.values_list("seq", "from_state", "to_state")) == [(-1, "pending", "ready")]


@pytest.mark.services
@pytest.mark.django_db
def test_one_late_answer_does_not_take_a_ready_endpoint_out(remote: Endpoint) -> None:
    row = make_endpoint(remote)
    endpoints.probe_all()
    remote.status = 503
    assert endpoints.probe_all() == 0
    assert endpoints.probe_all() == 1
    row.refresh_from_db()
    assert (row.state, row.reason_code) == ("failed", "endpoint_status")
    assert Event.objects.get(verb="replica.failed").level == "error"
    remote.status = 200
    assert endpoints.probe_all() == 1


@pytest.mark.services
@pytest.mark.django_db
def test_an_unknown_endpoint_fails_at_once_with_the_reason(remote: Endpoint) -> None:
    remote.status = 401
    row = make_endpoint(remote)
    endpoints.probe_all()
    row.refresh_from_db()
    assert (row.state, row.reason_hint) == ("failed", "Give another key.")


@pytest.mark.services
@pytest.mark.django_db
def test_a_model_that_is_not_listed_is_told(remote: Endpoint) -> None:
    row = make_endpoint(remote, external_model="other")
    endpoints.probe_all()
    row.refresh_from_db()
    assert (row.state, row.reason_code) == ("failed", "model_not_listed")
    assert "does not list the model other" in row.reason_message
    assert "llama" in row.reason_hint


@pytest.mark.services
@pytest.mark.django_db
def test_a_model_that_vanishes_from_the_list_takes_the_endpoint_out_and_comes_back(remote: Endpoint) -> None:
    row = make_endpoint(remote)
    endpoints.probe_all()
    remote.body, listed = b'{"data": [{"id": "another"}]}', remote.body
    assert [endpoints.probe_all(), endpoints.probe_all()] == [0, 1]
    row.refresh_from_db()
    assert (row.state, row.reason_code) == ("failed", "model_not_listed")
    remote.body = listed
    assert endpoints.probe_all() == 1
    row.refresh_from_db()
    assert (row.state, row.reason_code) == ("ready", "answers")


@pytest.mark.services
@pytest.mark.django_db
def test_an_endpoint_that_lists_nothing_is_believed(remote: Endpoint) -> None:
    remote.body = b'{"object": "list", "data": []}'
    row = make_endpoint(remote)
    endpoints.probe_all()
    row.refresh_from_db()
    assert row.state == "ready"


@pytest.mark.services
@pytest.mark.django_db
@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "//", "/v1//"])
def test_an_address_works_the_same_however_much_of_it_is_given(remote: Endpoint, tail: str) -> None:
    wish = make_external_wish(external_url=f"{remote.address}{tail}")
    row = make_replica(deployments.apply(actor=ADA, name="ext", wish=wish).deployment)
    endpoints.probe_all()
    row.refresh_from_db()
    assert (row.state, remote.asked) == ("ready", [("/v1/models", None)])
    (routed,) = documents.build_snapshot(0.0).content.deployments["ext"].replicas
    assert routed.url == f"{remote.address}/v1"
    same = make_external_wish(external_url=f"{remote.address}/v1")
    assert not deployments.apply(actor=ADA, name="ext", wish=same).changed


@pytest.mark.services
@pytest.mark.django_db
def test_gateways_are_told_what_an_endpoint_is_said_to_be(remote: Endpoint) -> None:
    def told(**settings: object) -> tuple[bool, bool]:
        wish = make_external_wish(external_url=f"{remote.address}/v1", settings=settings)
        make_replica(deployments.apply(actor=ADA, name="ext", wish=wish).deployment)
        endpoints.probe_all()
        *_, routed = documents.build_snapshot(0.0).content.deployments["ext"].replicas
        return routed.takes_salt, routed.takes_priority

    assert told() == (False, False)
    Replica.objects.all().delete()
    assert told(is_vllm=True) == (True, False)
    Replica.objects.all().delete()
    assert told(is_vllm=True, scheduling_policy="priority") == (True, True)


@pytest.mark.services
@pytest.mark.django_db
@pytest.mark.parametrize("settings", [{"scheduling_policy": "priority"}, {"max_num_seqs": 8}, {"is_vllm": "yes"}])
def test_what_is_said_of_an_endpoint_has_to_fit(settings: dict[str, Any]) -> None:
    with pytest.raises(RefusedError) as refused:
        deployments.apply(actor=ADA, name="ext", wish=make_external_wish(settings=settings))
    assert refused.value.fields.keys() == {f"settings.{next(iter(settings))}"}


@pytest.mark.services
@pytest.mark.django_db
def test_an_address_that_was_kept_in_another_spelling_works(remote: Endpoint) -> None:
    row = make_endpoint(remote)
    Revision.objects.update(spec={**row.revision.spec, "external_url": remote.address})
    endpoints.probe_all()
    assert remote.asked == [("/v1/models", "Bearer sk-1")]
    (routed,) = documents.build_snapshot(0.0).content.deployments["ext"].replicas
    assert routed.url == f"{remote.address}/v1"


@pytest.mark.services
@pytest.mark.django_db
def test_a_stopped_endpoint_is_not_asked(remote: Endpoint) -> None:
    make_endpoint(remote)
    Replica.objects.update(goal="stop")
    assert endpoints.probe_all() == 0
    assert remote.asked == []
    assert Deployment.objects.count() == 1


@pytest.mark.services
@pytest.mark.django_db
def test_a_new_key_is_tried_at_once(
    remote: Endpoint, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    row = make_endpoint(remote)
    remote.status = 401
    endpoints.probe_all()
    sent: list[str] = []
    monkeypatch.setattr("controlplane.celery.app.send_task", lambda task, **_options: sent.append(task))
    wish = make_external_wish(external_url=f"{remote.address}/v1", external_key="sk-2")
    with django_capture_on_commit_callbacks(execute=True):
        applied = deployments.apply(actor=ADA, name="ext", wish=wish)
    row.refresh_from_db()
    assert (applied.deployment.revision_id, sent) == (row.revision_id, [dispatch.PROBE_EXTERNAL])
    assert (row.state, row.reason_code) == ("pending", "asked")
    remote.status = 200
    assert endpoints.probe_all() == 1
    assert remote.asked[-1] == ("/v1/models", "Bearer sk-2")


@pytest.mark.services
@pytest.mark.django_db
def test_a_ready_endpoint_that_refuses_its_new_key_fails_with_the_first_answer(remote: Endpoint) -> None:
    row = make_endpoint(remote)
    endpoints.probe_all()
    wish = make_external_wish(external_url=f"{remote.address}/v1", external_key="sk-wrong")
    deployments.apply(actor=ADA, name="ext", wish=wish)
    remote.status = 401
    assert endpoints.probe_all() == 1
    row.refresh_from_db()
    assert (row.state, row.reason_code) == ("failed", "endpoint_key")
