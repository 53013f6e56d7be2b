"""How long replicas and their histories are kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Count, F, QuerySet, Window
from django.db.models.functions import RowNumber

from controlplane.deployments.models import LedgerRow, Replica, ReplicaTransition
from controlplane.deployments.services import ledgers

AT_ONCE = 1000  # a statement that deletes millions of rows would hold locks for minutes
MOST_STEPS = 200  # of one replica: an engine that fails every few minutes makes that many a day


def sweep(*, now: datetime, keep_days: int) -> int:
    """Removes replicas that ended more than `keep_days` ago, with their history, and of those that live the steps that
    are older or too many; returns how many replicas."""
    before = now - timedelta(days=keep_days)
    count = 0
    while some := list(Replica.objects.filter(ended_at__lt=before).values_list("pk", flat=True)[:AT_ONCE]):
        count += Replica.objects.filter(pk__in=some).delete()[1].get("deployments.Replica", 0)
    _delete(ReplicaTransition.objects.filter(at__lt=before))
    _sweep_ledgers(before)
    for replica_id in _with_too_many_steps():
        steps = ReplicaTransition.objects.filter(replica=replica_id).order_by("-pk").values_list("pk", flat=True)
        _delete(ReplicaTransition.objects.filter(replica=replica_id, pk__lte=steps[MOST_STEPS]))
    return count


def _sweep_ledgers(before: datetime) -> None:
    """Old ledgers of replicas that are gone; the newest measured ones of each kind stay, because they teach."""
    place = Window(
        RowNumber(), partition_by=[F("engine_version"), F("accelerator"), F("family")], order_by=F("measured_at").desc()
    )
    measured = LedgerRow.objects.filter(measured_at__isnull=False).annotate(place=place)
    kept = measured.filter(place__lte=ledgers.LEARNED_FROM).order_by().values("pk")
    gone = LedgerRow.objects.filter(made_at__lt=before).exclude(replica__in=Replica.objects.values("pk"))
    gone.exclude(pk__in=list(kept.values_list("pk", flat=True))).delete()


def _with_too_many_steps() -> list[str]:
    counted = ReplicaTransition.objects.order_by().values("replica").annotate(steps=Count("pk"))
    return list(counted.filter(steps__gt=MOST_STEPS).values_list("replica", flat=True))


def _delete(rows: QuerySet[ReplicaTransition]) -> None:
    while some := list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE]):
        ReplicaTransition.objects.filter(pk__in=some).delete()
