from __future__ import annotations

import time

import pytest

from controlplane.deployments.controller.carry_out import Reconciler
from controlplane.deployments.models import Replica
from controlplane.deployments.services import lost_nodes
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Node, Reservation
from controlplane.journal.models import Event
from tests.deployments.making import ADA, make_deployment, make_node

pytestmark = [pytest.mark.services, pytest.mark.django_db]


def test_a_lost_node_is_forgotten_with_its_replicas() -> None:
    make_node()
    make_deployment()
    reconciler = Reconciler()
    reconciler.run(time.time())
    reconciler.run(time.time())
    Node.objects.update(lost=True)
    assert lost_nodes.forget(actor=ADA, name="n1") == 1
    row = Replica.objects.get()
    assert (row.state, row.node, row.reason_code) == ("stopped", None, "node_forgotten")
    assert (Node.objects.count(), Reservation.objects.count()) == (0, 0)
    assert Event.objects.filter(verb="node.forgotten").exists()


def test_who_has_seen_another_version_forgets_nothing() -> None:
    make_node(lost=True)
    with pytest.raises(RefusedError) as refused:
        lost_nodes.forget(actor=ADA, name="n1", expected_version=7)
    assert (refused.value.code, Node.objects.count()) == ("changed_meanwhile", 1)


def test_a_node_that_reports_is_not_forgotten() -> None:
    make_node()
    with pytest.raises(RefusedError) as refused:
        lost_nodes.forget(actor=ADA, name="n1")
    assert refused.value.kind == "conflict"


def test_an_unknown_node_is_a_refusal() -> None:
    with pytest.raises(RefusedError, match="no node n9"):
        lost_nodes.forget(actor=ADA, name="n9")
