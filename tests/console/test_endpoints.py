"""An external endpoint is spoken of as what it is: nothing that is started, placed, measured inside or logged."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Replica, Revision
from controlplane.deployments.services import checking
from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_charts import charts_of

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]
ENGINES_ONLY = ("Preempted", "KV in use", "Engine log", "Nothing yet", "Node</dt>", "Replicas ready", "on pool")


def make_endpoint(state: str = "ready", **values: Any) -> Replica:
    row = making.make_deployment("bridge", engine="external", **values)
    return making.make_replica(row, None, state=state, facts={}, command=[], pid=None, in_flight=None)


@pytest.mark.parametrize("path", ["/deployments/bridge/", "/replicas/{id}/"])
def test_a_page_of_an_endpoint_has_nothing_of_an_engine(path: str) -> None:
    client, path = make_client("administrator"), path.format(id=make_endpoint().pk)
    text = client.get(path).content.decode()
    assert [word for word in ENGINES_ONLY if word in text] == []
    assert "https://inference.example.org/v1" in text and "In flight" in text
    assert [one["key"] for one in charts_of(client, path)] == ["tokens", "gateway", "ttft", "tpot"]
    assert "engine_" not in "".join(line["field"] for one in charts_of(client, path) for line in one["series"])


@pytest.mark.parametrize(("verb", "says"), [
    ("start", "The endpoint is asked whether it answers"),
    ("stop", "Nothing new is sent to the endpoint. It runs on"),
    ("drain", "Nothing new is sent to the endpoint. It runs on"),
    ("delete", "Nothing new is sent to the endpoint. It runs on"),
    ("freeze", "Nothing changes at an endpoint by itself"),
    ("clone", "of the same endpoint"),
])  # fmt: skip
def test_a_dialog_of_an_endpoint_says_what_happens_to_it(verb: str, says: str) -> None:
    make_endpoint(desired_state="stopped" if verb == "start" else "running")
    client = make_client("administrator")
    text = client.get(f"/deployments/bridge/do/{verb}/", headers=HX).content.decode()
    assert says in text and "replica" not in text.split("<details")[0].lower()


def test_several_are_told_apart() -> None:
    make_endpoint()
    making.make_replica(making.make_deployment("chat"), making.make_node("n", cards=1), in_flight=3)
    client = make_client("administrator")
    text = client.get("/deployments/do/stop/?name=bridge&name=chat", headers=HX).content.decode()
    assert "Ends 1 replica." in text and "Nothing new is sent to the endpoint." in text
    text = client.get("/deployments/do/start/?name=bridge&name=chat", headers=HX).content.decode()
    assert "1 replica is wanted." in text and "1 endpoint is put to use." in text


def test_what_is_under_way_is_that_it_is_asked() -> None:
    make_endpoint("pending")
    text = make_client("viewer").get("/deployments/bridge/").content.decode()
    assert "The endpoint is asked whether it answers." in text and 'class="stages"' not in text


def test_a_new_key_is_tried_at_once_and_needs_no_revision() -> None:
    row = make_endpoint("failed")
    wish = selectors.wish(row.deployment)
    Revision.objects.update(hash=checking.check("bridge", wish).hash, spec=dict(checking.check("bridge", wish).spec))
    Replica.objects.update(reason_code="endpoint_key", reason_message="The endpoint refuses the key (status 401).")
    values = {
        "step": "save", "version": "1", "external_url": "https://inference.example.org/v1",
        "external_model": "gpt-oss-20b", "external_key": "sk-2", "pool": "default",
    }  # fmt: skip
    answer = make_client("operator").post("/deployments/bridge/edit/", values, follow=True)
    text = answer.content.decode()
    row.refresh_from_db()
    assert Deployment.objects.get().external_key == "sk-2"
    assert (row.state, row.reason_code) == ("pending", "asked")
    assert "Saved. The endpoint is asked with the new key." in text and "is the wanted one" not in text
    assert "refuses the key" not in text
