from __future__ import annotations

import pytest

from controlplane.deployments.models import Deployment
from controlplane.fleet.models import Node
from tests.console import making
from tests.console.calling import HX, make_client

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]


def make_running(name: str = "chat") -> Deployment:
    row = making.make_deployment(name, variant=making.make_variant(f"model-{name}"))
    making.make_replica(row, making.make_node(f"node-{name}", cards=1), in_flight=14)
    return row


def test_the_dialog_says_in_numbers_what_will_happen() -> None:
    make_running()
    text = make_client().get("/deployments/chat/do/drain/", headers=HX).content.decode()
    assert "Ends 1 replica." in text and "14 requests are running." in text
    assert "curl -X POST" in text and "/api/v1/deployments/chat/drain/" in text


def test_scaling_becomes_its_progress() -> None:
    make_running()
    response = make_client().post("/deployments/chat/do/scale/", {"replicas": "3"}, headers=HX)
    text = response.content.decode()
    assert Deployment.objects.get(name="chat").replicas_wanted == 3
    assert "1 of 3 replicas are ready." in text and 'hx-get="/deployments/chat/progress/"' in text


def test_a_number_that_can_not_be_is_said_at_its_field() -> None:
    make_running()
    response = make_client().post("/deployments/chat/do/scale/", {"replicas": "9999"}, headers=HX)
    assert response.status_code == 422 and 'id="f-replicas-problem"' in response.content.decode()


@pytest.mark.parametrize(("verb", "state"), [("stop", "stopped"), ("drain", "drained")])
def test_stop_and_drain_set_what_is_wanted(verb: str, state: str) -> None:
    make_running()
    assert make_client().post(f"/deployments/chat/do/{verb}/", headers=HX).status_code == 200
    assert Deployment.objects.get(name="chat").desired_state == state


def test_without_scripts_an_action_leads_back_to_the_page() -> None:
    make_running()
    response = make_client().post("/deployments/chat/do/stop/")
    assert (response.status_code, response["Location"]) == (302, "/deployments/chat/")


def test_deleting_wants_the_name_typed() -> None:
    make_running()
    client = make_client()
    assert client.post("/deployments/chat/do/delete/", {"typed": "cat"}, headers=HX).status_code == 422
    assert client.post("/deployments/chat/do/delete/", {"typed": "chat"}, headers=HX).status_code == 200
    assert Deployment.objects.get(name="chat").deleted_at is not None


def test_a_clone_leads_to_the_copy() -> None:
    make_running()
    response = make_client().post("/deployments/chat/do/clone/", {"new_name": "chat-2"}, headers=HX)
    assert response["HX-Redirect"] == "/deployments/chat-2/"
    assert Deployment.objects.get(name="chat-2").desired_state == "stopped"


def test_several_are_stopped_at_once() -> None:
    make_running("one"), make_running("two")
    client = make_client()
    path = "/deployments/do/stop/?name=one&name=two"
    assert "one, two" in client.get(path, headers=HX).content.decode()
    assert client.post(path, {"name": ["one", "two"]}, headers=HX)["HX-Redirect"] == "/deployments/"
    assert set(Deployment.objects.values_list("desired_state", flat=True)) == {"stopped"}


def test_the_progress_of_something_removed_says_that_it_is_gone() -> None:
    assert "gone is gone" in make_client().get("/deployments/gone/progress/").content.decode()


def test_a_node_is_cordoned_with_a_reason() -> None:
    making.make_node("gpu-01", cards=1)
    client = make_client("operator")
    client.post("/nodes/gpu-01/do/cordon/", {"reason": "fan"}, headers=HX)
    node = Node.objects.get(name="gpu-01")
    assert (node.cordoned, node.cordon_reason) == (True, "fan")
    client.post("/nodes/gpu-01/do/uncordon/", headers=HX)
    assert not Node.objects.get(name="gpu-01").cordoned


def test_one_accelerator_is_cordoned() -> None:
    card = making.make_node("gpu-01", cards=1).accelerators.get()
    make_client("operator").post(f"/nodes/gpu-01/accelerators/{card.uuid}/do/cordon/", headers=HX)
    card.refresh_from_db()
    assert card.cordoned


def test_a_replica_is_drained_with_a_limit() -> None:
    row = make_running().replicas.get()
    make_client("operator").post(f"/replicas/{row.pk}/do/drain/", {"drain_timeout_s": "30"}, headers=HX)
    row.refresh_from_db()
    assert (row.goal, row.drain_timeout_s) == ("stop", 30.0)
