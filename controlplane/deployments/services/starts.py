"""Which engines are starting, or wait to, on which accelerators: a node starts those of one card one after another."""

from __future__ import annotations

from django.db.models import OuterRef, QuerySet, Subquery

from controlplane.deployments.models import Replica, ReplicaState
from controlplane.domain.ledger.advice import Starting
from controlplane.fleet.models import Accelerator, Reservation

STARTING = (ReplicaState.PLACED, ReplicaState.STARTING, ReplicaState.WARMING)


def beside(replica_id: str) -> list[Starting]:
    """Returns the other replicas that are starting on the accelerators that a replica holds, the oldest first."""
    mine = Reservation.objects.filter(owner_kind="replica", owner_id=replica_id).values("accelerator")
    found = [one for one in _starting(Reservation.objects.filter(accelerator__in=mine)) if one.replica != replica_id]
    return list({one.replica: one for one in found}.values())


def on(cards: QuerySet[Accelerator]) -> list[Starting]:
    """Returns the replicas that are starting on these accelerators, once for each card, the oldest first; one query."""
    return _starting(Reservation.objects.filter(accelerator__in=cards.order_by().values("pk")))


def _starting(held: QuerySet[Reservation]) -> list[Starting]:
    replicas = Replica.objects.filter(pk=OuterRef("owner_id"), state__in=STARTING, goal="run")
    rows = held.filter(owner_kind="replica").annotate(
        deployment=Subquery(replicas.values("deployment__name")[:1]), since=Subquery(replicas.values("state_since")[:1])
    )
    ordered = rows.exclude(deployment=None).order_by("since", "owner_id", "accelerator")
    return [Starting(*one) for one in ordered.values_list("owner_id", "deployment", "accelerator_id")]
