from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.deployments.controller import ingest, ingest_nodes
from controlplane.deployments.controller.ingest import Intake
from controlplane.deployments.controller.listening import Heard
from controlplane.deployments.models import Replica, ReplicaTransition
from controlplane.deployments.services import start_times
from controlplane.domain.lifecycle import Reason
from controlplane.domain.observed import EngineFacts, ForeignProcess
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.fleet.services import reservations
from controlplane.journal.models import Decision, Event
from tests.deployments.controller.reporting import Reporter, make_accelerator, make_observed, make_transition
from tests.deployments.making import make_deployment, make_replica

pytestmark = [pytest.mark.services, pytest.mark.django_db]

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True, params=["each by a new controller", "all by one controller"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a controller remembers of earlier reports changes nothing of what comes out."""
    if request.param == "all by one controller":
        intake = Intake()
        monkeypatch.setattr(ingest, "take_over", lambda report, now: intake.take_over([Heard(report, now)], now)[0])


def make_placed(node: Node, **fields: object) -> Replica:
    return make_replica(make_deployment(), node=node, state="placed", **fields)


def verbs() -> list[str]:
    return list(Event.objects.order_by("id").values_list("verb", flat=True))


def test_a_node_appears_with_its_first_report() -> None:
    taken = ingest.take_over(Reporter().report(), NOW)
    node = Node.objects.get()
    assert (taken.accepted, taken.changed) == (True, True)
    assert (node.name, node.pool.name, node.engines) == ("n1", "default", {"vllm": "0.32.0"})
    assert list(node.accelerators.values_list("uuid", "kind")) == [("n1-0", "cpu"), ("n1-1", "cpu")]
    assert verbs() == ["node.joined"]


def test_a_report_is_taken_over_once() -> None:
    report = Reporter().report()
    ingest.take_over(report, NOW)
    assert ingest.take_over(report, NOW + 100) == ingest.Taken(accepted=False, changed=False)
    assert Node.objects.get().last_report_at.timestamp() == NOW  # type: ignore[union-attr]


def test_an_older_report_is_not_taken_over() -> None:
    reporter = Reporter()
    old = reporter.report(address="old")
    ingest.take_over(reporter.report(address="new"), NOW)
    assert not ingest.take_over(old, NOW).accepted
    assert Node.objects.get().address == "new"


def test_a_report_without_news_changes_nothing() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    assert ingest.take_over(reporter.report(), NOW + 2) == ingest.Taken(accepted=True, changed=False)


def test_a_new_worker_counts_its_reports_from_the_beginning() -> None:
    reporter = Reporter()
    for _ in range(3):
        ingest.take_over(reporter.report(), NOW)
    reporter.restart()
    assert ingest.take_over(reporter.report(), NOW).accepted
    assert "node.restarted" in verbs()


def test_live_readings_are_written_from_time_to_time_only() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(accelerators=(make_accelerator(memory_used_bytes=1),)), NOW)
    ingest.take_over(reporter.report(accelerators=(make_accelerator(memory_used_bytes=2),)), NOW + 2)
    assert Accelerator.objects.get().observed["memory_used_bytes"] == 1
    ingest.take_over(reporter.report(accelerators=(make_accelerator(memory_used_bytes=3),)), NOW + 12)
    assert Accelerator.objects.get().observed["memory_used_bytes"] == 3


def test_a_foreign_process_is_written_at_once() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(accelerators=(make_accelerator(),)), NOW)
    foreign = make_accelerator(foreign_processes=(ForeignProcess(1, "game", None),))
    assert ingest.take_over(reporter.report(accelerators=(foreign,)), NOW + 1).changed


def test_an_accelerator_that_is_gone_is_kept_as_absent() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    reporter.cards = 1
    assert ingest.take_over(reporter.report(), NOW).changed
    assert list(Accelerator.objects.values_list("uuid", "present")) == [("n1-0", True), ("n1-1", False)]
    assert "node.accelerators_gone" in verbs()


def test_a_ready_replica_gets_its_address_and_history() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    steps = (
        make_transition(1, "starting", "placed"),
        make_transition(2, "warming", "starting"),
        make_transition(3, "ready"),
    )
    assert ingest.take_over(reporter.report(make_observed(row.pk, seq=3, transitions=steps)), NOW).changed
    row.refresh_from_db()
    assert (row.state, row.url, row.pid, row.observed_seq) == ("ready", "http://127.0.0.1:9001", 7, 3)
    assert list(row.transitions.values_list("seq", "to_state")) == [(1, "starting"), (2, "warming"), (3, "ready")]
    assert "replica.ready" in verbs()


def test_how_long_the_last_start_took_is_known_while_the_engine_starts_again() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    ready = make_observed(row.pk, facts=EngineFacts(start_s=30.0, weights_bytes=5))
    ingest.take_over(reporter.report(ready), NOW)
    again = make_observed(row.pk, "starting", seq=2, pid=8, process_started_at=NOW - 10, facts=EngineFacts())
    ingest.take_over(reporter.report(again, reported_at=NOW), NOW)
    row.refresh_from_db()
    assert (row.state, row.facts["start_s"], row.facts["weights_bytes"]) == ("starting", 30.0, None)
    expected = start_times.expected_at([row.deployment])
    assert expected == {row.deployment.pk: pytest.approx(NOW + 20, abs=1)}


def test_transitions_that_are_repeated_are_written_once() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    first = make_observed(row.pk, "starting", seq=1, transitions=(make_transition(1, "starting", "placed"),))
    ingest.take_over(reporter.report(first), NOW)
    both = (*first.transitions, make_transition(2, "warming", "starting"))
    ingest.take_over(reporter.report(replace(first, state="warming", seq=2, transitions=both)), NOW)
    assert ReplicaTransition.objects.count() == 2


def test_a_failure_is_an_error_with_reason_and_log() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    reason = Reason("out_of_memory", "The engine ran out of memory.", "Use a smaller context.", ("line 1", "line 2"))
    failed = make_observed(row.pk, "failed", transitions=(make_transition(1, "failed", reason=reason),))
    ingest.take_over(reporter.report(failed), NOW)
    row.refresh_from_db()
    assert (row.reason_code, row.reason_hint, row.log_tail) == (
        "out_of_memory", "Use a smaller context.", ["line 1", "line 2"],
    )  # fmt: skip
    event = Event.objects.get(verb="replica.failed")
    assert (event.level, event.object_id, event.actor) == ("error", row.pk, "node n1")


def test_a_restart_on_the_node_is_a_decision() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    retry = make_transition(2, "placed", "failed", reason=Reason("retry", "Back-off is over."))
    ingest.take_over(reporter.report(make_observed(row.pk, "placed", seq=2, transitions=(retry,))), NOW)
    decision = Decision.objects.get(rule="restart")
    assert (decision.before, decision.after, decision.object_id) == ("failed", "placed", row.pk)


def test_accelerators_are_given_back_only_when_the_replica_has_stopped() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get(), goal="stop")
    reservations.take(node="n1", uuids=["n1-0"], owner_kind="replica", owner_id=row.pk)
    ingest.take_over(reporter.report(make_observed(row.pk, "draining", seq=1)), NOW)
    assert Reservation.objects.count() == 1
    ingest.take_over(reporter.report(make_observed(row.pk, "stopped", seq=2)), NOW)
    row.refresh_from_db()
    assert (Reservation.objects.count(), row.ended_at is not None) == (0, True)


def test_what_has_ended_does_not_come_back() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    ingest.take_over(reporter.report(make_observed(row.pk, "stopped", seq=2)), NOW)
    assert not ingest.take_over(reporter.report(make_observed(row.pk, "stopped", seq=2)), NOW).changed


def test_a_replica_that_nobody_knows_is_told_once() -> None:
    reporter = Reporter()
    for _ in range(2):
        ingest.take_over(reporter.report(make_observed("ghost")), NOW)
    assert Decision.objects.get(rule="unknown_replica").count == 1


def test_a_node_that_lost_its_memory_gets_a_new_replica() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    ingest.take_over(reporter.report(make_observed(row.pk, seq=9)), NOW)
    reporter.restart()
    ingest.take_over(reporter.report(make_observed(row.pk, "starting", seq=1)), NOW)
    row.refresh_from_db()
    assert (row.goal, row.observed_seq) == ("stop", 9)
    assert Decision.objects.filter(rule="replace").exists()


def test_a_silent_node_is_lost_and_comes_back() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    assert ingest_nodes.mark_lost(NOW + 10, listening_since=NOW) == 0
    assert ingest_nodes.mark_lost(NOW + 16, listening_since=NOW) == 1
    assert ingest_nodes.mark_lost(NOW + 17, listening_since=NOW) == 0
    assert Node.objects.get().lost
    assert ingest.take_over(reporter.report(), NOW + 20).changed
    assert verbs() == ["node.joined", "node.lost", "node.back"]


def test_a_controller_whose_clock_is_set_back_still_notices_a_silent_node() -> None:
    reporter, other = Reporter(), Reporter("n2", machine="m2")
    for one in (reporter, other):
        ingest.take_over(one.report(), NOW)
    back = NOW - 3600
    ingest.take_over(other.report(accelerators=(make_accelerator("n2-0", memory_used_bytes=7),)), back)
    assert ingest_nodes.mark_lost(back + 5, listening_since=back) == 0
    assert ingest_nodes.mark_lost(back + 14, listening_since=back) == 0
    ingest.take_over(other.report(), back + 14)
    assert ingest_nodes.mark_lost(back + 16, listening_since=back) == 1
    assert Node.objects.get(lost=True).name == "n1"
    assert ingest.take_over(reporter.report(), back + 17).changed


def test_readings_are_written_after_the_controller_s_clock_was_set_back() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(accelerators=(make_accelerator(memory_used_bytes=1),)), NOW)
    ingest.take_over(reporter.report(accelerators=(make_accelerator(memory_used_bytes=2),)), NOW - 3600)
    assert Accelerator.objects.get().observed["memory_used_bytes"] == 2


def test_a_deaf_controller_declares_nobody_lost() -> None:
    ingest.take_over(Reporter().report(), NOW)
    assert ingest_nodes.mark_lost(NOW + 100, listening_since=NOW + 95) == 0


def test_a_log_line_with_nul_is_kept_without_it() -> None:
    reporter = Reporter()
    ingest.take_over(reporter.report(), NOW)
    row = make_placed(Node.objects.get())
    reason = Reason("crash", "died\x00", log_tail=("a\x00b",))
    failed = make_observed(row.pk, "failed", transitions=(make_transition(1, "failed", reason=reason),))
    ingest.take_over(reporter.report(failed), NOW)
    row.refresh_from_db()
    assert (row.reason_message, row.log_tail) == ("died", ["ab"])
