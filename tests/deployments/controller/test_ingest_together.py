"""Many reports at once: what they cost, who is believed, and odd ones among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.deployments.controller.ingest import Intake, Taken
from controlplane.deployments.controller.listening import Heard
from controlplane.deployments.controller.times import to_datetime
from controlplane.deployments.models import Replica, ReplicaTransition
from controlplane.domain.lifecycle import Reason
from controlplane.domain.observed import ForeignProcess, NodeReport
from controlplane.fleet.models import Accelerator, Node
from controlplane.journal.models import Decision, Event
from tests.deployments.controller.reporting import Reporter, make_accelerator, make_observed, make_transition
from tests.deployments.making import make_deployment, make_replica

pytestmark = [pytest.mark.services, pytest.mark.django_db]

NOW = 1_800_000_000.0
NEWS = Taken(accepted=True, changed=True)
QUIET = Taken(accepted=True, changed=False)
REFUSED = Taken(accepted=False, changed=False)


def hear(intake: Intake, now: float, *reports: NodeReport) -> list[Taken]:
    return intake.take_over([Heard(one, now) for one in reports], now)


def make_ready(node: str, replica_id: str = "") -> Replica:
    fields: dict[str, Any] = {"id": replica_id} if replica_id else {}
    deployment = make_deployment()
    return make_replica(deployment, node=Node.objects.get(name=node), state="placed", **fields)


def test_quiet_reports_of_many_nodes_are_one_statement(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    reporters = [Reporter(f"n{number}") for number in range(20)]
    intake = Intake()
    hear(intake, NOW, *(one.report() for one in reporters))
    rows = {one.node: make_ready(one.node) for one in reporters}
    seen = {name: make_observed(row.pk) for name, row in rows.items()}
    hear(intake, NOW, *(one.report(seen[one.node]) for one in reporters))
    with django_assert_num_queries(3):  # begin, write, commit
        taken = hear(intake, NOW + 2, *(one.report(seen[one.node], memory_available_bytes=7) for one in reporters))
    assert taken == [QUIET] * 20
    for node in Node.objects.all():
        assert (node.report_sequence, node.memory_available_bytes) == (3, 7)
        assert node.last_report_at == to_datetime(NOW + 2)


def test_news_of_many_nodes_cost_a_few_statements_each(django_assert_max_num_queries) -> None:  # type: ignore[no-untyped-def]
    reporters = [Reporter(f"n{number}") for number in range(20)]
    intake = Intake()
    hear(intake, NOW, *(one.report() for one in reporters))
    rows = {one.node: make_ready(one.node) for one in reporters}
    with django_assert_max_num_queries(6 + 20 * 7):
        taken = hear(intake, NOW, *(one.report(make_observed(rows[one.node].pk)) for one in reporters))
    assert taken == [NEWS] * 20
    assert Replica.objects.filter(state="ready").count() == ReplicaTransition.objects.count() == 20


def test_readings_of_quiet_nodes_are_written_from_time_to_time() -> None:
    reporter, intake = Reporter(), Intake()

    def used(number: int) -> NodeReport:
        return reporter.report(accelerators=(make_accelerator(memory_used_bytes=number),))

    hear(intake, NOW, used(1))
    for after_s, number, written in ((2, 2, 1), (9, 3, 1), (11, 4, 4), (13, 5, 4), (22, 6, 6)):
        assert hear(intake, NOW + after_s, used(number)) == [QUIET]
        assert Accelerator.objects.get().observed["memory_used_bytes"] == written


@pytest.mark.parametrize(
    "change",
    [
        {"address": "10.0.0.9"},
        {"engines": {"vllm": None}},
        {"desired_version": 5},
        {"accelerators": ()},
        {"accelerators": (make_accelerator(mig_enabled=True),)},
        {"accelerators": (make_accelerator(foreign_processes=(ForeignProcess(1, "game", 5),)),)},
    ],
)
def test_whatever_is_new_is_written_at_once(change: dict[str, Any]) -> None:
    reporter, intake = Reporter(), Intake()
    card = make_accelerator()
    for _ in range(2):
        hear(intake, NOW, reporter.report(accelerators=(card,)))
    hear(intake, NOW + 1, reporter.report(**{"accelerators": (card,), **change}))
    node = Node.objects.get()
    wanted = {"address": node.address, "engines": node.engines, "desired_version": node.carried_out_version}
    for name in change.keys() & wanted.keys():
        assert wanted[name] == change[name]
    if "accelerators" in change:
        assert Accelerator.objects.filter(present=True).count() == len(change["accelerators"])
        for seen in change["accelerators"]:
            kept = Accelerator.objects.get().observed
            assert (kept["mig_enabled"], len(kept["foreign_processes"])) == (
                seen.mig_enabled, len(seen.foreign_processes),
            )  # fmt: skip


def test_a_forgotten_node_that_reports_the_same_joins_anew() -> None:
    reporter, intake = Reporter(), Intake()
    hear(intake, NOW, reporter.report())
    Node.objects.all().delete()
    assert hear(intake, NOW + 2, reporter.report()) == [NEWS]
    assert Accelerator.objects.filter(present=True).count() == 2


def test_a_lost_node_that_reports_the_same_is_back() -> None:
    reporter, intake = Reporter(), Intake()
    hear(intake, NOW, reporter.report())
    Node.objects.update(lost=True)
    assert hear(intake, NOW + 60, reporter.report()) == [NEWS]
    assert not Node.objects.get().lost


# -- who is believed ---------------------------------------------------------------------------------------------------


def test_a_late_report_of_an_earlier_worker_changes_nothing() -> None:
    reporter, intake = Reporter(), Intake()
    hear(intake, NOW, reporter.report())
    row = make_ready("n1")
    late = reporter.report(make_observed(row.pk, "starting", seq=4))
    reporter.restart()
    hear(intake, NOW + 1, reporter.report(make_observed(row.pk, "ready", seq=9)))
    late = replace(late, sequence=late.sequence + 5)
    assert hear(intake, NOW + 2, late) == [REFUSED]
    row.refresh_from_db()
    assert (row.state, row.goal, row.observed_seq) == ("ready", "run", 9)
    assert hear(intake, NOW + 3, reporter.report(make_observed(row.pk, "ready", seq=9)))[0].accepted
    assert Event.objects.filter(verb="node.restarted").count() == 1


def test_of_two_machines_with_one_name_the_first_is_believed_and_the_other_told_of() -> None:
    first, second, intake = Reporter(), Reporter(machine="m2", incarnation="other", starts=9), Intake()
    hear(intake, NOW, first.report())
    row = make_ready("n1")
    for second_s in range(1, 40, 2):
        mine, other = first.report(make_observed(row.pk)), second.report(address="10.9.9.9")
        assert [one.accepted for one in hear(intake, NOW + second_s, mine, other)] == [True, False]
    node = Node.objects.get()
    assert (node.machine, node.address) == ("m1", "127.0.0.1")
    told = Decision.objects.get(rule="report_refused")
    assert told.count == 20 and "10.9.9.9" in told.why and "HEADWORKS_NODE_NAME" in told.why
    assert not Event.objects.filter(verb__in=["node.restarted", "node.lost"]).exists()
    row.refresh_from_db()
    assert (row.state, row.goal) == ("ready", "run")


def test_a_new_machine_takes_over_the_name_of_a_silent_one() -> None:
    first, second, intake = Reporter(), Reporter(machine="m2", incarnation="other"), Intake()
    hear(intake, NOW, first.report())
    assert not hear(intake, NOW + 5, second.report())[0].accepted
    assert hear(intake, NOW + 16, second.report())[0].accepted
    assert not hear(intake, NOW + 17, first.report())[0].accepted


def test_a_worker_that_lost_count_of_its_starts_is_believed_once_the_other_is_silent() -> None:
    reporter, intake = Reporter(starts=7), Intake()
    hear(intake, NOW, reporter.report())
    again = Reporter(incarnation="again", starts=1)
    assert not hear(intake, NOW + 2, again.report())[0].accepted
    assert hear(intake, NOW + 15, again.report())[0].accepted


def test_a_node_of_before_machines_were_told_is_heard_at_once() -> None:
    old, new, intake = Reporter(machine="", starts=0), Reporter(incarnation="new", machine="m1", starts=1), Intake()
    hear(intake, NOW, old.report())
    assert hear(intake, NOW + 1, new.report())[0].accepted


def test_a_report_in_a_newer_format_is_told_of() -> None:
    reporter, intake = Reporter(), Intake()
    hear(intake, NOW, reporter.report())
    assert hear(intake, NOW + 2, reporter.report(schema=99)) == [REFUSED]
    assert "Update the control plane." in Decision.objects.get(rule="report_refused").why


@pytest.mark.parametrize("name", ["", "a/b", "../up", "a b", "x" * 64, "-n"])
def test_a_name_that_can_not_be_an_address_makes_no_node(name: str) -> None:
    good = Reporter("n1")
    assert hear(Intake(), NOW, Reporter(name).report(), good.report()) == [REFUSED, NEWS]
    assert list(Node.objects.values_list("name", flat=True)) == ["n1"]


# -- odd values --------------------------------------------------------------------------------------------------------

ODD: list[dict[str, Any]] = [
    {"since": 1e300},
    {"log_path": "/" + "x" * 600},
    {"url": "http://" + "x" * 400},
    {"pid": 2**40},
    {"attempt": 2**40},
    {"process_started_at": float("-1e18")},
    {"transitions": (make_transition(1, "ready", at=1e300),)},
    {"state": "x" * 30},
]


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_replica_hides_neither_its_node_nor_the_others(odd: dict[str, Any]) -> None:
    reporter, other, intake = Reporter(), Reporter("n2"), Intake()
    hear(intake, NOW, reporter.report(), other.report())
    good, bad, far = make_ready("n1"), make_ready("n1"), make_ready("n2")
    seen = make_observed(bad.pk, **odd)
    taken = hear(intake, NOW + 2, reporter.report(seen, make_observed(good.pk)), other.report(make_observed(far.pk)))
    assert [one.accepted for one in taken] == [True, True]
    for row in (good, far):
        row.refresh_from_db()
        assert row.state == "ready"
    assert hear(intake, NOW + 4, reporter.report(seen, make_observed(good.pk)))[0].accepted
    assert Node.objects.get(name="n1").last_report_at == to_datetime(NOW + 4)


def test_an_odd_card_hides_neither_its_node_nor_its_replicas() -> None:
    reporter, intake = Reporter(), Intake()
    hear(intake, NOW, reporter.report())
    row = make_ready("n1")
    odd = (make_accelerator(address="x" * 2000),)
    assert hear(intake, NOW + 2, reporter.report(make_observed(row.pk), accelerators=odd))[0].accepted
    row.refresh_from_db()
    assert row.state == "ready"


def test_an_odd_reading_of_a_quiet_node_does_not_silence_the_others() -> None:
    reporter, other, intake = Reporter(), Reporter("n2"), Intake()
    hear(intake, NOW, reporter.report(), other.report())
    odd = reporter.report(memory_available_bytes=2**70)
    taken = hear(intake, NOW + 2, odd, other.report())
    assert taken[1].accepted
    assert Node.objects.get(name="n2").last_report_at == to_datetime(NOW + 2)


@pytest.mark.parametrize(("said", "kept"), [(3, 3), (None, None), (-1, None), (2**40, None)])
def test_a_nonsensical_count_of_requests_is_unknown(said: int | None, kept: int | None) -> None:
    reporter, intake = Reporter(), Intake()
    hear(intake, NOW, reporter.report())
    row = make_ready("n1")
    hear(intake, NOW, reporter.report(make_observed(row.pk, in_flight=said)))
    row.refresh_from_db()
    assert (row.state, row.in_flight) == ("ready", kept)


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0, 1.0, 0.0])
def test_times_of_a_node_whose_clock_is_wrong_are_put_right(ahead_s: float) -> None:
    reporter, intake = Reporter(), Intake()
    there = NOW + ahead_s
    hear(intake, NOW, reporter.report(reported_at=there))
    row = make_ready("n1")
    step = make_transition(3, "ready", at=there - 10, reason=Reason("warmed_up", "x"))
    seen = make_observed(row.pk, seq=3, since=there - 10, transitions=(step,), process_started_at=there - 60)
    hear(intake, NOW, reporter.report(seen, reported_at=there))
    row.refresh_from_db()
    off = ahead_s if abs(ahead_s) <= 5 else 0.0
    assert row.state_since.timestamp() == pytest.approx(NOW - 10 + off)
    assert row.process_started_at and row.process_started_at.timestamp() == pytest.approx(NOW - 60 + off)
    assert row.transitions.get().at.timestamp() == pytest.approx(NOW - 10 + off)
    assert Node.objects.get().clock_ahead_s == ahead_s


def test_a_trembling_clock_writes_no_rows() -> None:
    reporter, intake = Reporter(), Intake()
    hear(intake, NOW, reporter.report())
    row = make_ready("n1")
    seen = make_observed(row.pk, since=NOW)
    hear(intake, NOW, reporter.report(seen, reported_at=NOW + 3600.0))
    intake.forget()
    assert hear(intake, NOW + 2, reporter.report(seen, reported_at=NOW + 3603.4)) == [QUIET]
    row.refresh_from_db()
    assert row.state_since.timestamp() == pytest.approx(NOW - 3600.0)
