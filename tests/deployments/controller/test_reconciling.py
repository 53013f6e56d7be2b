from __future__ import annotations

import time
from typing import Any

import pytest

from controlplane.deployments.controller import carry_out, ingest, view
from controlplane.deployments.controller.carry_out import Reconciler
from controlplane.deployments.models import Deployment, Replica
from controlplane.deployments.services import deployments, freeze, replicas
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.fleet.services import nodes
from controlplane.journal.models import Decision, Event
from tests.deployments.controller.reporting import Reporter, make_observed
from tests.deployments.making import ADA, make_deployment, make_external_wish, make_node, make_wish

pytestmark = [pytest.mark.services, pytest.mark.django_db]


def settle() -> None:
    reconciler = Reconciler()
    for _ in range(10):
        if not reconciler.run(time.time()):
            return
    raise AssertionError("does not come to rest")


def answer(reporter: Reporter) -> None:
    """The node reports each of its replicas as ready, or as stopped where that is the goal."""
    rows = Replica.objects.filter(node__name=reporter.node, ended_at=None)
    seen = [
        make_observed(row.pk, "ready" if row.goal == "run" else "stopped", seq=row.observed_seq + 1) for row in rows
    ]
    ingest.take_over(reporter.report(*seen), time.time())


def test_a_deployment_gets_its_replicas_placed_and_reserved() -> None:
    make_node(cards=2)
    make_deployment(replicas=2)
    settle()
    assert list(Replica.objects.values_list("state", flat=True)) == ["placed", "placed"]
    assert Reservation.objects.count() == 2
    row = Replica.objects.all()[0]
    assert row.assigned[0]["uuid"].startswith("n1-")
    assert row.key.startswith("hwr-")
    assert Decision.objects.filter(rule="placement", after="n1").count() == 2
    assert list(row.transitions.values_list("seq", "from_state", "to_state")) == [(-1, "pending", "placed")]


def test_without_room_a_replica_waits_and_tells_why_once() -> None:
    make_node(cards=1)
    make_deployment(replicas=2)
    settle()
    settle()
    waiting = Replica.objects.get(state="pending")
    assert waiting.reason_code == "no_room"
    assert "n1: has no free accelerator of 1 (1 taken), and a replica needs 1" in waiting.reason_message
    assert Decision.objects.get(rule="placement", after="pending").count == 1


def test_a_second_look_does_nothing() -> None:
    make_node()
    make_deployment()
    settle()
    before = list(Replica.objects.values())
    assert not Reconciler().run(time.time())
    assert list(Replica.objects.values()) == before


def test_stopping_sets_the_goal_and_frees_after_the_node_said_gone() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), time.time())
    make_deployment()
    settle()
    answer(reporter)
    deployments.drain(actor=ADA, name="chat")
    settle()
    row = Replica.objects.get()
    assert (row.goal, row.drain_timeout_s) == ("stop", view.LONG_DRAIN_S)
    deployments.stop(actor=ADA, name="chat")
    row.refresh_from_db()
    assert row.drain_timeout_s == view.DRAIN_S
    assert Reservation.objects.count() == 1
    answer(reporter)
    assert Reservation.objects.count() == 0


def test_a_new_revision_takes_over_from_the_old_one() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), time.time())
    make_deployment()
    settle()
    answer(reporter)
    first = Replica.objects.get()
    deployments.apply(actor=ADA, name="chat", wish=make_wish(settings={"max_num_seqs": 4}))
    settle()
    assert Replica.objects.get(pk=first.pk).goal == "run"
    assert Replica.objects.count() == 2
    answer(reporter)
    settle()
    assert Replica.objects.get(pk=first.pk).goal == "stop"
    answer(reporter)
    settle()
    last = Replica.objects.get(ended_at=None)
    assert last.revision.number == 2
    assert Reservation.objects.get().owner_id == last.pk


def test_on_one_accelerator_the_old_one_ends_first() -> None:
    reporter = Reporter(cards=1)
    ingest.take_over(reporter.report(), time.time())
    make_deployment()
    settle()
    answer(reporter)
    deployments.apply(actor=ADA, name="chat", wish=make_wish(settings={"max_num_seqs": 4}))
    settle()
    assert Decision.objects.filter(rule="drain_first").count() == 1
    answer(reporter)
    settle()
    assert Replica.objects.get(ended_at=None).revision.number == 2


def test_a_removed_deployment_leaves_only_its_journal() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), time.time())
    make_deployment()
    settle()
    answer(reporter)
    deployments.delete(actor=ADA, name="chat")
    settle()
    assert Deployment.objects.exists()
    answer(reporter)
    settle()
    assert not Deployment.objects.exists()
    assert not Replica.objects.exists()
    assert Event.objects.filter(verb="deployment.removed", object_id="chat").exists()


def test_a_drained_replica_is_replaced() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), time.time())
    make_deployment()
    settle()
    answer(reporter)
    old = Replica.objects.get()
    replicas.restart(actor=ADA, replica_id=old.pk)
    assert Replica.objects.get().drain_timeout_s == 0
    settle()
    assert Replica.objects.filter(goal="run").exclude(pk=old.pk).count() == 1


def test_an_ended_replica_can_t_be_drained() -> None:
    with pytest.raises(RefusedError) as refused:
        replicas.drain(actor=ADA, replica_id="none")
    assert refused.value.kind == "not_found"


def test_a_frozen_deployment_is_told_of_once() -> None:
    make_node()
    make_deployment()
    deployments.set_frozen(actor=ADA, name="chat", frozen=True)
    reconciler = Reconciler()
    for _ in range(3):
        assert not reconciler.run(time.time())
    assert Replica.objects.count() == 0
    assert Decision.objects.get(rule="frozen").count == 1


def test_while_everything_is_frozen_nothing_is_made_or_placed_and_stopping_still_works() -> None:
    make_node(cards=2)
    make_deployment(replicas=1)
    settle()
    freeze.apply(actor=ADA, frozen=True, reason="an audit")
    deployments.scale(actor=ADA, name="chat", replicas=2)
    settle()
    assert Replica.objects.count() == 1
    why = Decision.objects.get(rule="frozen").why
    assert why == "1 replica is missing, but everything is frozen: nothing is changed."
    deployments.stop(actor=ADA, name="chat")
    settle()
    assert Replica.objects.get().goal == "stop"
    deployments.start(actor=ADA, name="chat")
    freeze.apply(actor=ADA, frozen=False)
    settle()
    assert Replica.objects.filter(goal="run").count() == 2


def test_a_cordoned_accelerator_is_not_given_away() -> None:
    make_node(cards=1)
    uuid = Accelerator.objects.get().uuid
    nodes.cordon_accelerator(actor=ADA, node="n1", uuid=uuid, cordoned=True)
    make_deployment()
    settle()
    assert "cordoned" in Replica.objects.get().reason_message


def test_an_endpoint_gets_a_replica_without_a_node() -> None:
    deployments.apply(actor=ADA, name="ext", wish=make_external_wish())
    settle()
    row = Replica.objects.get()
    assert (row.node, row.state) == (None, "pending")
    deployments.stop(actor=ADA, name="ext")
    settle()
    row.refresh_from_db()
    assert (row.state, row.ended_at is not None) == ("stopped", True)


def test_a_round_costs_a_fixed_number_of_queries(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    for index in range(3):
        make_node(f"n{index}")
        make_deployment(f"chat-{index}")
    settle()
    with django_assert_num_queries(8):
        Reconciler().run(time.time())


def test_a_large_wish_is_carried_out_in_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry_out, "ACTIONS_AT_ONCE", 3)
    monkeypatch.setattr(carry_out, "ROUND_S", 0.0)
    make_node(cards=8)
    make_deployment("a", replicas=4)
    make_deployment("b", replicas=4)
    reconciler = Reconciler()
    assert reconciler.run(time.time())
    assert Replica.objects.count() == 3
    settle()
    assert Replica.objects.filter(state="placed").count() == 8


def test_a_failed_replica_on_a_vanished_accelerator_is_replaced_elsewhere() -> None:
    reporter = Reporter(cards=1)
    ingest.take_over(reporter.report(), time.time())
    make_deployment()
    settle()
    row = Replica.objects.get()
    ingest.take_over(reporter.report(make_observed(row.pk, "failed", seq=1)), time.time())
    settle()
    assert Replica.objects.get().goal == "run"  # it is left to its node
    other = Reporter("n2", machine="m2")
    ingest.take_over(other.report(), time.time())
    ingest.take_over(reporter.report(make_observed(row.pk, "failed", seq=1), accelerators=()), time.time())
    settle()
    row.refresh_from_db()
    assert row.goal == "stop"
    assert Replica.objects.get(goal="run").node == Node.objects.get(name="n2")
    assert "does not see its accelerator n1-0 any more" in Decision.objects.get(rule="rollout", after="stop").why


def test_one_deployment_that_is_never_at_rest_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry_out, "ROUND_S", 0.0)
    make_node(cards=8)
    for name in ("a", "b", "c"):
        make_deployment(name)
    reconciler = Reconciler()
    acted: list[str] = []
    act = Reconciler._act

    def noted(self: Reconciler, deployment: Deployment, *rest: Any) -> bool:
        acted.append(deployment.name)
        return act(self, deployment, *rest)

    monkeypatch.setattr(Reconciler, "_act", noted)
    for _ in range(6):
        assert reconciler.run(time.time())
        Replica.objects.filter(deployment__name="a").delete()  # somebody undoes it again and again
    assert {"a", "b", "c"} <= set(acted)
    assert Replica.objects.filter(deployment__name__in=["b", "c"], state="placed").count() == 2


def test_what_was_told_of_a_removed_deployment_is_forgotten() -> None:
    make_node()
    make_deployment("a", replicas=2)
    settle()
    deployments.set_frozen(actor=ADA, name="a", frozen=True)
    Replica.objects.all()[0].delete()
    reconciler = Reconciler()
    reconciler.run(time.time())
    assert set(reconciler._told) == {"a"}
    Replica.objects.all().delete()
    Deployment.objects.update(revision=None)
    Deployment.objects.all().delete()
    reconciler.run(time.time())
    assert reconciler._told == {}
