"""What is done to nodes, accelerators and replicas, and the progress that the dialogs become."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.fleet.models import Node, Reservation
from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_deployment_actions import make_running

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

GIB = 2**30


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


def test_draining_a_replica_becomes_its_progress() -> None:
    row = make_running().replicas.get()
    client = make_client("operator")
    text = client.post(f"/replicas/{row.pk}/do/restart/", headers=HX).content.decode()
    assert f'hx-get="/replicas/{row.pk}/progress/"' in text and "14 requests still run" in text
    assert 'hx-get="' in client.get(f"/replicas/{row.pk}/progress/").content.decode()
    row.state, row.ended_at = "stopped", timezone.now()
    row.save()
    making.make_replica(row.deployment, row.node)
    settled = client.get(f"/replicas/{row.pk}/progress/").content.decode()
    assert "hx-get" not in settled and "Replicas ready: 1 of 1." in settled


def test_draining_a_node_becomes_its_progress() -> None:
    row = make_running()
    client = make_client("operator")
    text = client.post("/nodes/node-chat/do/drain/", {"reason": "fan"}, headers=HX).content.decode()
    assert 'hx-get="/nodes/node-chat/progress/?undo=' in text
    assert "1 replica still runs on node-chat." in text and "Waits until a successor is ready" in text
    row.replicas.update(state="stopped", ended_at=timezone.now())
    settled = client.get("/nodes/node-chat/progress/").content.decode()
    assert "Nothing runs on node-chat any more." in settled and "hx-get" not in settled


def test_several_nodes_are_drained_and_the_refused_ones_named() -> None:
    making.make_node("gpu-01", cards=1), making.make_node("gpu-02", cards=1)
    form = {"name": ["gpu-01", "gpu-02"], "version:gpu-01": "1", "version:gpu-02": "9"}
    text = make_client("operator").post("/nodes/do/drain/", form, headers=HX).content.decode()
    assert 'hx-get="/nodes/do/progress/?name=gpu-01&amp;undo=' in text
    assert "gpu-02</b>" in text.split('role="alert"')[1].split("</ul>")[0]
    assert dict(Node.objects.values_list("name", "draining")) == {"gpu-01": True, "gpu-02": False}


def test_a_node_goes_into_another_pool() -> None:
    making.make_node("gpu-01", cards=1), making.make_pool("lab")
    client = make_client("operator")
    assert "default" in client.get("/nodes/gpu-01/do/move/", headers=HX).content.decode()
    client.post("/nodes/gpu-01/do/move/", {"pool": "lab", "version": "1"}, headers=HX)
    assert Node.objects.get(name="gpu-01").pool.name == "lab"
    refused = client.post("/nodes/gpu-01/do/move/", {"pool": "none", "version": "2"}, headers=HX)
    assert refused.status_code == 422 and 'id="f-pool-problem"' in refused.content.decode()


def test_a_lost_node_is_forgotten_and_one_that_reports_is_not() -> None:
    making.make_node("gpu-01", cards=1), making.make_node("gpu-02", cards=1, lost=True)
    client = make_client("operator")
    assert "/do/forget/" in client.get("/nodes/gpu-02/").content.decode()
    assert "/do/forget/" not in client.get("/nodes/gpu-01/").content.decode()
    reports = client.post("/nodes/gpu-01/do/forget/", {"typed": "gpu-01"}, headers=HX)
    assert reports.status_code == 409 and "node_reports" in reports.content.decode()
    assert client.post("/nodes/gpu-02/do/forget/", {"typed": "gpu-2"}, headers=HX).status_code == 422
    assert client.post("/nodes/gpu-02/do/forget/", {"typed": "gpu-02"}, headers=HX)["HX-Redirect"] == "/nodes/"
    assert list(Node.objects.values_list("name", flat=True)) == ["gpu-01"]


def test_labels_are_changed_after_those_who_lose_the_node_were_named() -> None:
    row = make_running()
    node = Node.objects.get(name="node-chat")
    node.labels = {"rack": "r1"}
    node.save()
    row.node_labels = {"rack": "r1"}
    row.save()
    client = make_client("operator")
    text = client.get("/nodes/node-chat/").content.decode()
    assert "rack=r1" in text and "/nodes/node-chat/do/label/" in text
    address = "/nodes/node-chat/do/label/"
    text = client.post(address, {"labels": "rack=r2"}, headers=HX).content.decode()
    assert "because they ask for other labels: chat." in text
    assert "1 replica of them runs there. It is not moved." in text
    node.refresh_from_db()
    assert node.labels == {"rack": "r1"}
    assert client.post(address, {"labels": "rack=r2", "confirmed": "rack=r2"}, headers=HX).status_code == 204
    node.refresh_from_db()
    assert node.labels == {"rack": "r2"}
    assert row.replicas.get().goal == "run"
    assert client.post(address, {"labels": "rack=r1, zone=a"}, headers=HX).status_code == 204  # nobody loses anything


@pytest.mark.parametrize(
    ("labels", "says"),
    [("rack", "name=value"), ("a=1,a=2", "stands there twice"), ("Rack=r", "is no name of a label"), ("a=", "letters")],
)
def test_odd_labels_are_refused_in_the_dialog(labels: str, says: str) -> None:
    making.make_node("gpu-01", cards=1)
    answer = make_client("operator").post("/nodes/gpu-01/do/label/", {"labels": labels}, headers=HX)
    assert answer.status_code == 422
    assert says in answer.content.decode()


def test_the_price_of_a_nodes_cards_is_kept_and_shown() -> None:
    making.make_node("gpu-01", cards=1)
    client = make_client("operator")
    address = "/nodes/gpu-01/do/price/"
    assert client.post(address, {"card_price_per_hour": "2.5"}, headers=HX).status_code == 204
    assert Node.objects.get(name="gpu-01").card_price_per_hour == 2.5
    assert "Price of a card" in client.get("/nodes/gpu-01/").content.decode()
    for wrong in ("much", "-1", "nan"):
        assert client.post(address, {"card_price_per_hour": wrong}, headers=HX).status_code == 422
    assert client.post(address, {"card_price_per_hour": ""}, headers=HX).status_code == 204
    assert Node.objects.get(name="gpu-01").card_price_per_hour is None


def test_a_card_with_memory_errors_says_that_nothing_new_comes() -> None:
    card = making.make_node("gpu-01", cards=1).accelerators.get()
    card.observed = {**card.observed, "uncorrected_errors": 2}
    card.save()
    text = make_client("viewer").get("/nodes/gpu-01/").content.decode()
    assert "It counts 2 memory errors that could not be corrected since its last reset." in text


def test_memory_that_is_not_back_is_shown_and_released_after_a_confirmation() -> None:
    card = making.make_node("gpu-01", cards=1).accelerators.get()
    held = Reservation.objects.create(accelerator=card, owner_id="r1", memory_bytes=30 * GIB)
    viewer = make_client("viewer")
    assert "memory_not_back" not in viewer.get("/nodes/gpu-01/").content.decode()
    held.releasing_since = held.not_back_since = timezone.now()
    held.not_back_bytes = 12 * GIB
    held.save()
    address = f"/nodes/gpu-01/accelerators/{card.uuid}/release/r1/"
    told = viewer.get("/nodes/gpu-01/").content.decode()
    assert address not in told
    assert "Up to 12.0 GiB are not back." in told
    assert "r1 (not back)" in told
    client = make_client("operator")
    assert address in client.get("/nodes/gpu-01/").content.decode()
    assert "may fail at its start" in client.get(address, headers=HX).content.decode()
    assert Reservation.objects.exists()
    assert client.post(address, {"version": "1"}, headers=HX).status_code == 204
    assert not Reservation.objects.exists()
    assert client.post(address, headers=HX).status_code == 404
