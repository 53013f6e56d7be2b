from __future__ import annotations

import pytest

from controlplane.deployments.models import Deployment
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
    assert "Replicas ready: 1 of 3." in text and 'hx-get="/deployments/chat/progress/?undo=' in text


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
    text = client.post(path, {"name": ["one", "two"]}, headers=HX).content.decode()
    assert 'hx-get="/deployments/do/progress/?name=one&amp;name=two' in text and "0 of 2 are done." in text
    assert set(Deployment.objects.values_list("desired_state", flat=True)) == {"stopped"}


def test_of_several_the_ones_left_as_they_are_are_named_with_the_reason() -> None:
    make_running("one"), make_running("two")
    Deployment.objects.filter(name="two").update(version=5)
    form = {"name": ["one", "two"], "version:one": "1", "version:two": "4"}
    text = make_client().post("/deployments/do/stop/", form, headers=HX).content.decode()
    refusal = text.split('role="alert"')[1].split("</ul>")[0]
    assert "<b>two</b>" in refusal and "changed_meanwhile" in refusal and "one</b>" not in refusal
    assert dict(Deployment.objects.values_list("name", "desired_state")) == {"one": "stopped", "two": "running"}


@pytest.mark.parametrize("verb", ["start", "scale", "drain", "stop", "freeze", "unfreeze", "delete"])
def test_what_somebody_changed_meanwhile_is_not_overwritten(verb: str) -> None:
    row = make_running()
    client = make_client()
    dialog = client.get(f"/deployments/chat/do/{verb}/", headers=HX).content.decode()
    assert f'name="version" value="{row.version}"' in dialog
    Deployment.objects.filter(pk=row.pk).update(version=row.version + 1)
    fields = {"version": str(row.version), "replicas": "7", "typed": "chat"}
    response = client.post(f"/deployments/chat/do/{verb}/", fields, headers=HX)
    text = response.content.decode()
    assert response.status_code == 409 and "changed_meanwhile" in text
    assert f'name="version" value="{row.version + 1}"' in text  # read it, then confirm what is true now
    after = Deployment.objects.get(pk=row.pk)
    assert (after.version, after.deleted_at) == (row.version + 1, None)


def test_a_frozen_deployment_is_unfrozen_again() -> None:
    make_running()
    client = make_client()
    assert client.post("/deployments/chat/do/freeze/", headers=HX).status_code == 204
    assert Deployment.objects.get(name="chat").frozen
    assert "/deployments/chat/do/unfreeze/" in client.get("/deployments/chat/").content.decode()
    client.post("/deployments/chat/do/unfreeze/", headers=HX)
    assert not Deployment.objects.get(name="chat").frozen


def test_the_progress_of_something_removed_says_that_it_is_gone() -> None:
    assert "gone is gone" in make_client().get("/deployments/gone/progress/").content.decode()
