"""What was just done can be taken back for half a minute, by who did it, unless somebody else was there since."""

from __future__ import annotations

import html
import re

import pytest
from django.test import Client

from controlplane.console import undo
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment
from controlplane.fleet.models import Node
from tests.console import making
from tests.console.calling import HX, make_client
from tests.console.test_deployment_actions import make_running
from tests.console.test_deployment_forms import make_fields

pytestmark = [pytest.mark.django_db, pytest.mark.services, pytest.mark.usefixtures("valkey_server")]

NOTE = re.compile(r'name="note" value="([^"]+)"')


def note_in(text: str) -> str:
    found = NOTE.search(text)
    assert found is not None, text
    return html.unescape(found[1])


def act(client: Client, path: str, **fields: str) -> str:
    """Does something and returns the note of the Undo button, in the dialog or on the page that follows."""
    response = client.post(path, fields, headers=HX)
    if "HX-Redirect" in response:
        response = client.get(response["HX-Redirect"])
    return note_in(response.content.decode())


def take_back(client: Client, note: str) -> int:
    return client.post("/undo/", {"note": note}, headers=HX).status_code


@pytest.mark.parametrize(
    ("verb", "fields", "before"),
    [
        ("scale", {"replicas": "3"}, {"replicas_wanted": 1}),
        ("stop", {}, {"desired_state": "running"}),
        ("drain", {}, {"desired_state": "running"}),
        ("freeze", {}, {"frozen": False}),
    ],
)
def test_an_action_on_a_deployment_is_taken_back(verb: str, fields: dict[str, str], before: dict[str, object]) -> None:
    make_running()
    client = make_client("operator")
    note = act(client, f"/deployments/chat/do/{verb}/", **fields)
    row = Deployment.objects.get(name="chat")
    assert {name: getattr(row, name) for name in before} != before
    assert take_back(client, note) == 204
    row.refresh_from_db()
    assert {name: getattr(row, name) for name in before} == before


def test_a_start_is_taken_back_to_what_it_was_before() -> None:
    making.make_deployment("chat", variant=making.make_variant(), desired_state="drained")
    client = make_client("operator")
    assert take_back(client, act(client, "/deployments/chat/do/start/")) == 204
    assert Deployment.objects.get(name="chat").desired_state == "drained"


def test_an_edit_is_taken_back_as_a_new_revision() -> None:
    row = making.make_deployment("chat", variant=making.make_variant(), settings={"max_num_seqs": 16})
    client = make_client("operator")
    fields = make_fields(replicas="1", version=str(row.version), step="save", **{"settings.max_num_seqs": "32"})
    client.post("/deployments/chat/edit/", fields)
    note = note_in(client.get("/deployments/chat/").content.decode())
    assert take_back(client, note) == 204
    after = selectors.deployment("chat")
    assert after.revision is not None
    assert (after.revision.number, after.revision.spec["settings"]) == (3, {"max_num_seqs": 16})
    assert after.revision.note == "Undoes revision 2"


def test_a_cordon_a_drain_and_a_move_of_a_node_are_taken_back() -> None:
    making.make_node("gpu-01", cards=1, cordoned=True, cordon_reason="fan"), making.make_pool("lab")
    client = make_client("operator")
    assert take_back(client, act(client, "/nodes/gpu-01/do/drain/", reason="other")) == 204
    node = Node.objects.get(name="gpu-01")
    assert (node.cordoned, node.cordon_reason, node.draining) == (True, "fan", False)
    assert take_back(client, act(client, "/nodes/gpu-01/do/uncordon/")) == 204
    assert take_back(client, act(client, "/nodes/gpu-01/do/move/", pool="lab")) == 204
    node.refresh_from_db()
    assert (node.cordoned, node.cordon_reason, node.pool.name) == (True, "fan", "default")


def test_an_accelerator_is_given_back() -> None:
    card = making.make_node("gpu-01", cards=1).accelerators.get()
    client = make_client("operator")
    assert take_back(client, act(client, f"/nodes/gpu-01/accelerators/{card.uuid}/do/cordon/")) == 204
    card.refresh_from_db()
    assert not card.cordoned


def test_several_are_taken_back_at_once() -> None:
    make_running("one"), make_running("two")
    client = make_client("operator")
    note = note_in(client.post("/deployments/do/stop/", {"name": ["one", "two"]}, headers=HX).content.decode())
    assert take_back(client, note) == 204
    assert set(Deployment.objects.values_list("desired_state", flat=True)) == {"running"}


def test_what_somebody_changed_since_is_left_alone() -> None:
    make_running()
    client = make_client("operator")
    note = act(client, "/deployments/chat/do/scale/", replicas="3")
    make_client("administrator").post("/deployments/chat/do/scale/", {"replicas": "5"}, headers=HX)
    assert take_back(client, note) == 409
    assert Deployment.objects.get(name="chat").replicas_wanted == 5


def test_the_button_and_the_note_are_good_for_half_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    make_running()
    client = make_client("operator")
    note = act(client, "/deployments/chat/do/scale/", replicas="3")
    poll = {"undo": note}
    assert note_in(client.get("/deployments/chat/progress/", poll).content.decode()) == note
    monkeypatch.setattr(undo, "SECONDS", -10)
    assert 'name="note"' not in client.get("/deployments/chat/progress/", poll).content.decode()
    assert take_back(client, note) == 409
    assert Deployment.objects.get(name="chat").replicas_wanted == 3


def test_a_note_of_somebody_else_or_a_made_up_one_does_nothing() -> None:
    make_running()
    note = act(make_client("operator"), "/deployments/chat/do/scale/", replicas="3")
    other = make_client("administrator")
    assert [take_back(other, text) for text in (note, "made up", "")] == [404, 404, 404]


def test_doing_what_is_so_already_offers_no_undo() -> None:
    make_running()
    text = make_client().post("/deployments/chat/do/scale/", {"replicas": "1"}, headers=HX).content.decode()
    assert "Undo" not in text
