"""How long engines take to be ready, by what they took before, and when a replica of a deployment is expected so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from statistics import median

from django.db.models import Q

from controlplane.deployments.models import Deployment, Replica, ReplicaState

SAMPLE = 20  # of the newest starts of a deployment, else of its engine
ROWS_MOST = 1000
ON_THE_WAY = (ReplicaState.PLACED, ReplicaState.STARTING, ReplicaState.WARMING, ReplicaState.FAILED)


def usual_s(deployments: Collection[Deployment]) -> dict[int, float]:
    """Returns deployment -> the median time to ready of its last replicas, else of those of its engine; one query. What
    has no start behind it is left out."""
    engines = {one.engine for one in deployments}
    rows = Replica.objects.filter(Q(deployment__in=deployments) | Q(deployment__engine__in=engines))
    newest = rows.filter(facts__start_s__isnull=False).order_by("-created_at")
    own: dict[int, list[float]] = defaultdict(list)
    of_engine: dict[str, list[float]] = defaultdict(list)
    for pk, engine, took in newest.values_list("deployment", "deployment__engine", "facts__start_s")[:ROWS_MOST]:
        if took is not None:
            own[pk].append(float(took))
            of_engine[engine].append(float(took))
    found = {one.pk: own.get(one.pk) or of_engine.get(one.engine, []) for one in deployments}
    return {pk: median(took[:SAMPLE]) for pk, took in found.items() if took}


def expected_at(deployments: Collection[Deployment]) -> dict[int, float]:
    """Returns deployment -> when the first of its replicas that start is expected to be ready (UTC seconds); two
    queries. One that waits for its next try starts then; one that has no place yet is expected at no time."""
    if not deployments:
        return {}
    usual = usual_s(deployments)
    rows = Replica.objects.filter(ended_at=None, goal="run", deployment__in=usual, state__in=ON_THE_WAY)
    found: dict[int, float] = {}
    for row in rows.only("deployment", "state", "state_since", "process_started_at", "retry_at"):
        begin = row.retry_at
        if begin is None and row.state != ReplicaState.FAILED:
            begin = row.process_started_at or row.state_since
        if begin is not None:
            at = begin.timestamp() + usual[row.deployment_id]
            found[row.deployment_id] = min(at, found.get(row.deployment_id, at))
    return found
