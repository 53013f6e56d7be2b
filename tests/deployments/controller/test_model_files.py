"""From what nodes see of models' files to where replicas go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controlplane.catalog.models import Model, Variant
from controlplane.deployments import selectors
from controlplane.deployments.controller import documents, ingest, view
from controlplane.deployments.controller.carry_out import Reconciler
from controlplane.deployments.controller.ingest import Intake
from controlplane.deployments.controller.leadership import Leadership
from controlplane.deployments.controller.listening import Heard
from controlplane.deployments.controller.publish import Publisher
from controlplane.deployments.models import Replica
from controlplane.domain.model_files import COUNTS_FOR_S, MOST_LOCATIONS, FilesSeen, ModelFilesLook
from controlplane.domain.observed import NodeReport
from controlplane.fleet.models import ModelFiles, Node
from controlplane.lib import valkey
from tests.deployments.controller.reporting import Reporter
from tests.deployments.controller.running import desired
from tests.deployments.making import make_deployment, make_node, make_replica, make_variant
from tests.domain.fleets import reasons_of_nodes

pytestmark = [pytest.mark.services, pytest.mark.django_db]

PATH = "/models/smollm2"  # of the deployments that are made here
HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
WHOLE = FilesSeen(PATH, "present", 270)
PART = FilesSeen(PATH, "partly", 90, 2, "2 of its 3 weight files are missing or not whole")
NONE = FilesSeen(PATH, "absent")
DENIED = FilesSeen(PATH, "unknown", 0, 0, "it can't be read (Permission denied)")


def make_report(reporter: Reporter, *found: FilesSeen, ago_s: float = 1.0, **fields: Any) -> NodeReport:
    """A report of a node that looked so long before it wrote it."""
    return reporter.report(reported_at=5000.0, model_files=ModelFilesLook(5000.0 - ago_s, found), **fields)


def say(node: str, *found: FilesSeen, ago_s: float = 1.0) -> None:
    ingest.take_over(make_report(Reporter(node), *found, ago_s=ago_s), time.time())


def settle() -> Replica:
    reconciler = Reconciler()
    while reconciler.run(time.time()):
        pass
    return Replica.objects.latest("created_at")


def reasons(row: Replica) -> dict[str, str]:
    return reasons_of_nodes(selectors.passed_over([row.pk])[row.pk])


# -- what nodes are asked --------------------------------------------------------------------------------------


def test_nodes_are_asked_for_what_is_deployed_and_what_the_catalog_has() -> None:
    make_deployment()
    make_deployment("sim", engine="simulated")
    Variant.objects.create(model=make_variant().model, name="hub", path=HUB)
    assert documents.models_asked() == (PATH, HUB)


def test_of_too_many_the_deployed_ones_are_asked_for() -> None:
    model = Model.objects.create(name="m", display_name="m")
    Variant.objects.bulk_create(
        Variant(model=model, name=f"v{number}", path=f"/a/{number:03}") for number in range(MOST_LOCATIONS + 5)
    )
    make_deployment()
    asked = documents.models_asked()
    assert len(asked) == MOST_LOCATIONS and asked[0] == PATH


@pytest.fixture
def publisher(valkey_server: str) -> Iterator[Publisher]:
    client, leadership = valkey.connect(valkey_server), Leadership()
    leadership.try_lead()
    yield Publisher(leadership, client)
    leadership.release()
    client.close()


@pytest.mark.django_db(transaction=True)
def test_a_new_question_reaches_the_nodes_at_once_and_is_no_new_wish(publisher: Publisher, valkey_server: str) -> None:
    make_node()
    make_node("sim", kind="simulated")
    publisher.run(1000.0)
    make_variant()
    publisher.run(1000.1)
    client = valkey.connect(valkey_server)
    there, simulated = desired(client), desired(client, "sim")
    client.close()
    assert there is not None and there.models == (PATH,)
    assert there.version == 1, "the wish itself did not change"
    assert simulated is not None and simulated.models == (), "it has no files of its own"


# -- what they answer ------------------------------------------------------------------------------------------


def test_what_a_node_saw_is_kept_with_when_it_looked() -> None:
    now = 1_800_000_000.0
    taken = ingest.take_over(make_report(Reporter(), WHOLE, ago_s=7.0), now)
    row, node = ModelFiles.objects.get(), Node.objects.get()
    assert taken.changed
    assert (row.location, row.state, row.size_bytes, row.missing, row.reason) == (PATH, "present", 270, 0, "")
    assert node.files_looked_at is not None and node.files_looked_at.timestamp() == now - 7


def test_the_same_seen_again_moves_only_the_time() -> None:
    reporter, intake, now = Reporter(), Intake(), 1_800_000_000.0
    intake.take_over([Heard(make_report(reporter, PART), now)], now)
    (taken,) = intake.take_over([Heard(make_report(reporter, PART, ago_s=3.0), now + 20)], now + 20)
    node = Node.objects.get()
    assert (taken.accepted, taken.changed) == (True, False)
    assert node.files_looked_at is not None and node.files_looked_at.timestamp() == now + 17


def test_more_bytes_of_a_part_are_kept_and_decide_nothing() -> None:
    reporter, intake, now = Reporter(), Intake(), 1_800_000_000.0
    intake.take_over([Heard(make_report(reporter, PART), now)], now)
    (taken,) = intake.take_over([Heard(make_report(reporter, replace(PART, size_bytes=180)), now + 2)], now + 2)
    assert not taken.changed and ModelFiles.objects.get().size_bytes == 180
    (taken,) = intake.take_over([Heard(make_report(reporter, WHOLE), now + 4)], now + 4)
    assert taken.changed and ModelFiles.objects.get().state == "present"


def test_what_a_node_is_not_asked_any_more_is_forgotten() -> None:
    reporter = Reporter()
    ingest.take_over(make_report(reporter, WHOLE, FilesSeen(HUB, "absent")), time.time())
    ingest.take_over(make_report(reporter, FilesSeen(HUB, "absent")), time.time())
    assert list(ModelFiles.objects.values_list("location", flat=True)) == [HUB]


def test_a_worker_that_does_not_look_leaves_nothing_known() -> None:
    reporter = Reporter()
    ingest.take_over(make_report(reporter, WHOLE), time.time())
    ingest.take_over(reporter.report(), time.time())
    assert Node.objects.get().files_looked_at is None and not ModelFiles.objects.exists()


@pytest.mark.parametrize("ago_s", [1e300, -1e300, -60.0])
def test_an_odd_clock_silences_no_node(ago_s: float) -> None:
    reporter, intake = Reporter(), Intake()
    for _ in range(2):
        (taken,) = intake.take_over([Heard(make_report(reporter, WHOLE, ago_s=ago_s), 1000.0)], time.time())
        assert taken.accepted


@pytest.mark.parametrize("odd", [FilesSeen("/" * 600, "present"), FilesSeen(PATH, "partly", 2**70), NONE])
def test_an_odd_answer_hides_nothing_else(odd: FilesSeen) -> None:
    reporter = Reporter()
    assert ingest.take_over(make_report(reporter, odd), time.time()).accepted
    assert Node.objects.get().accelerators.count() == 2


def test_a_long_reason_is_cut() -> None:
    say("n1", replace(DENIED, reason="x" * 1000))
    assert len(ModelFiles.objects.get().reason) == 300


# -- what placement makes of it --------------------------------------------------------------------------------


def test_a_node_with_the_files_is_taken_and_one_without_is_rejected_by_name() -> None:
    for name, seen in (("a", NONE), ("b", PART), ("c", WHOLE)):
        say(name, seen)
    make_deployment()
    row = settle()
    assert row.node is not None and row.node.name == "c"
    assert "The model's files are there already." in row.reason_message
    assert reasons(row) == {
        "a": f"has no files at {PATH}",
        "b": f"has only a part of the files at {PATH} (2 of its 3 weight files are missing or not whole)",
    }


def test_a_replica_waits_until_a_copy_has_ended() -> None:
    reporter = Reporter()
    ingest.take_over(make_report(reporter, PART), time.time())
    make_deployment()
    waiting = settle()
    assert waiting.state == "pending" and f"n1: has only a part of the files at {PATH}" in waiting.reason_message
    assert ingest.take_over(make_report(reporter, WHOLE), time.time()).changed
    assert settle().state == "placed"


def test_files_that_the_engine_fetches_itself_reject_nobody() -> None:
    Variant.objects.filter(pk=make_variant().pk).update(path=HUB)
    say("a", FilesSeen(HUB, "absent"))
    say("b", FilesSeen(HUB, "present", 270))
    make_deployment(replicas=3)
    settle()
    assert sorted(Replica.objects.values_list("node__name", flat=True)) == ["a", "b", "b"]
    first = Replica.objects.get(node__name="a")
    assert first.reason_message.endswith("It has no files of the model yet; the engine fetches them before it starts.")


@pytest.mark.parametrize(("seen", "ago_s"), [(NONE, COUNTS_FOR_S + 30), (DENIED, 1.0)], ids=["long ago", "unreadable"])
def test_what_is_not_known_for_certain_rejects_nobody(seen: FilesSeen, ago_s: float) -> None:
    say("a", seen, ago_s=ago_s)
    make_deployment()
    assert settle().state == "placed"


def test_a_node_that_does_not_look_has_the_files_when_an_engine_served_from_there() -> None:
    deployment = make_deployment()
    make_replica(deployment, node=make_node("old"), facts={"start_s": 9.0}, state="stopped", goal="stop")
    looked = make_node("looked")
    make_replica(deployment, node=looked, facts={"start_s": 9.0}, state="stopped", goal="stop")
    say("looked", NONE)
    found = view.files_on_nodes(PATH, time.time())
    assert {name: one.state for name, one in found.items()} == {"old": "present", "looked": "absent"}


def test_a_simulated_engine_needs_no_files() -> None:
    make_node(kind="simulated")
    ModelFiles.objects.create(node=Node.objects.get(), location=PATH, state="absent")
    make_deployment(engine="simulated")
    assert settle().state == "placed"
