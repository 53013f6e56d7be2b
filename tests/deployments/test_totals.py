"""Numbers of the whole, counted by the database: the same that one would count row by row."""

from __future__ import annotations

from collections import Counter

import pytest
from django.utils import timezone

from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment
from controlplane.fleet import selectors as fleet
from controlplane.fleet.models import Node
from tests.deployments.making import make_deployment, make_node, make_replica

pytestmark = [pytest.mark.services, pytest.mark.django_db]


def test_statuses_are_counted_as_each_row_tells_its_own() -> None:
    lost = make_node("gone", lost=True)
    for name, state in {"a": "ready", "b": "failed", "c": "pending", "d": "draining"}.items():
        make_replica(make_deployment(name), state=state, node=make_node(f"n-{name}"))
    make_replica(make_deployment("e"), state="ready", node=lost)
    Deployment.objects.filter(name="d").update(desired_state="stopped")
    rows = selectors.deployments()
    assert selectors.status_counts(rows) == Counter(selectors.status(row) for row in rows)
    assert selectors.status_counts(selectors.deployments(search="b", engine="vllm")) == {"failed": 1}
    assert selectors.status_counts(selectors.deployments(search="none")) == {}


def test_replicas_of_what_shall_not_run_or_is_not_known_are_not_ready() -> None:
    chat, stopped = make_deployment("chat", replicas=3), make_deployment("stopped")
    Deployment.objects.filter(name="stopped").update(desired_state="stopped")
    make_replica(chat, state="ready", node=make_node("n1"))
    make_replica(chat, state="ready", node=make_node("gone", lost=True))
    make_replica(chat, state="failed", node=None)
    make_replica(stopped, state="ready", node=make_node("n2"))
    make_replica(chat, state="failed", ended_at=timezone.now())
    assert selectors.replica_totals() == selectors.ReplicaTotals(wanted=3, ready=1, failed=1)


def test_nodes_are_counted_by_state_however_many_accelerators_they_have() -> None:
    make_node("a", cards=4), make_node("b", lost=True), make_node("c", cordoned=True, cards=2)
    expected = {"all": 3, "ready": 1, "cordoned": 1, "lost": 1}
    assert fleet.node_states(Node.objects.all()) == expected
    assert fleet.node_states(fleet.nodes()) == expected
    assert fleet.node_states(fleet.nodes(search="a"))["all"] == 1
