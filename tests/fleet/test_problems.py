from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.journal.models import Decision
from controlplane.journal.services import record
from tests.deployments.making import make_node
from tests.domain.wording import assert_plain

pytestmark = [pytest.mark.services, pytest.mark.django_db]


def ago(seconds: float) -> Any:
    return timezone.now() - timedelta(seconds=seconds)


def codes() -> list[tuple[str, str]]:
    found = selectors.problems()
    for one in found:
        assert_plain(one.message)
        assert_plain(one.hint)
    return [(one.node, one.code) for one in found]


def test_a_fleet_in_order_has_no_problems() -> None:
    make_node(desired_version=3, carried_out_version=3, desired_at=ago(500), clock_ahead_s=0.4)
    make_node("n2", clock_ahead_s=None)
    assert codes() == []


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"lost": True}, "node_lost"),
        ({"lost": True, "last_report_at": None}, "node_lost"),
        ({"desired_version": 12, "carried_out_version": 11, "desired_at": ago(25)}, "document_not_carried_out"),
        ({"clock_ahead_s": 3600.0}, "clock_wrong"),
        ({"clock_ahead_s": -3600.0}, "clock_wrong"),
    ],
)
def test_each_problem_is_told_with_what_to_do(fields: dict[str, Any], code: str) -> None:
    make_node(**fields)
    assert codes() == [("n1", code)]


def test_a_document_that_is_new_is_no_problem_yet() -> None:
    make_node(desired_version=12, carried_out_version=11, desired_at=ago(5))
    assert codes() == []


def test_memory_that_is_not_back_is_told_with_its_bytes() -> None:
    card = make_node(cards=1, kind="gpu").accelerators.get()
    held = Reservation.objects.create(accelerator=card, owner_id="r1", memory_bytes=50, releasing_since=ago(90))
    assert codes() == []
    held.not_back_since, held.not_back_bytes = ago(30), 3 * 2**30
    held.save()
    assert codes() == [("n1", "memory_not_back")]
    assert "Up to 3.0 GiB" in selectors.problems()[0].message
    Accelerator.objects.update(observed={"uncorrected_errors": 2})
    assert codes() == [("n1", "accelerator_unfit"), ("n1", "memory_not_back")]


def test_a_lost_node_is_not_told_twice() -> None:
    make_node(lost=True, desired_version=12, carried_out_version=11, desired_at=ago(25), clock_ahead_s=99.0)
    assert codes() == [("n1", "node_lost")]


def test_a_second_machine_of_one_name_is_a_problem_while_it_reports() -> None:
    make_node()
    record.decision(rule="report_refused", object_kind="node", object_id="n1", why="Another machine is called n1.")
    assert codes() == [("n1", "report_refused")]
    Decision.objects.update(last_at=ago(61))
    assert codes() == []


def test_a_vanished_accelerator_is_a_problem_while_somebody_holds_it() -> None:
    make_node()
    card = Accelerator.objects.all()[0]
    Accelerator.objects.filter(pk=card.pk).update(present=False)
    assert codes() == []
    Reservation.objects.create(accelerator=card, owner_id="r1")
    assert codes() == [("n1", "accelerator_gone")]


def test_the_worst_comes_first_and_the_cost_does_not_grow(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    for number in range(5):
        make_node(f"n{number}", clock_ahead_s=60.0)
    Node.objects.filter(name="n3").update(lost=True)
    with django_assert_num_queries(3):
        found = selectors.problems()
    assert [one.node for one in found] == ["n3", "n0", "n1", "n2", "n4"]


def test_a_card_with_memory_errors_is_a_problem_with_its_reason() -> None:
    node = make_node("n1", cards=3, kind="gpu")
    cards = list(node.accelerators.order_by("index"))
    for card, observed in zip(
        cards, ({"uncorrected_errors": 2}, {"uncorrected_errors": 0, "remap_failed": False}, {}), strict=True
    ):
        card.observed = observed
        card.save()
    (found,) = selectors.problems()
    assert (found.node, found.code) == ("n1", "accelerator_unfit")
    assert "accelerator 0" in found.message and "counts 2 memory errors" in found.message
