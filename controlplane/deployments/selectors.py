"""Reading deployments and replicas."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Case, CharField, Count, F, Q, QuerySet, Sum, Value, When
from django.db.models.lookups import Exact

from controlplane.deployments.models import (
    Deployment,
    DesiredState,
    Engine,
    LedgerRow,
    PassedOver,
    Replica,
    ReplicaState,
    ReplicaTransition,
)
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain import labels as naming
from controlplane.domain import rejections
from controlplane.domain.errors import RefusedError
from controlplane.domain.rejections import Rejected
from controlplane.domain.routing import SNAPSHOT_EVERY_S
from controlplane.fleet.models import Node
from controlplane.lib import advisory_locks, keys, valkey

PUBLISHED_OLD_AFTER_S = 6 * SNAPSHOT_EVERY_S
STATUSES = ("stopped", "starting", "ready", "degraded", "draining", "failed", "waiting")


@dataclass(frozen=True, slots=True)
class ControlState:
    """Whether some controller leads, how old its newest routing snapshot is (None = there is none), and what is wrong
    in one sentence with what to do; both are empty when all is well."""

    led: bool
    published_s_ago: float | None
    problem: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Relabelled:
    """Whom other labels of a node matter to: deployments of its pool that may not be placed there any more, or may from
    then on, and how many replicas of the first run there and go on."""

    losing: list[str]
    gaining: list[str]
    running: int


@dataclass(frozen=True, slots=True)
class ReplicaTotals:
    """Replicas of the whole: `wanted` and `ready` of deployments that shall run, `failed` of all."""

    wanted: int
    ready: int
    failed: int


_LIVE = Q(replicas__ended_at__isnull=True)
_WANTED = _LIVE & Q(replicas__goal="run")
_KNOWN = Q(replicas__node__isnull=True) | Q(replicas__node__lost=False)


def _counted(rows: QuerySet[Deployment]) -> QuerySet[Deployment]:
    """Adds the numbers of replicas and the status that follows from them, in one query."""
    ready = Q(replicas__state=ReplicaState.READY)
    return rows.annotate(
        replicas_live=Count("replicas", filter=_LIVE),
        replicas_ready=Count("replicas", filter=_WANTED & ready & _KNOWN),
        replicas_unknown=Count("replicas", filter=_WANTED & Q(replicas__node__lost=True)),
        replicas_failed=Count("replicas", filter=_WANTED & Q(replicas__state=ReplicaState.FAILED)),
        replicas_pending=Count("replicas", filter=_WANTED & Q(replicas__state=ReplicaState.PENDING)),
    ).annotate(status_now=_status_case())


def _status_case() -> Case:
    """The one place that says what a deployment's status is; the first line that fits wins."""
    stopping = ~Q(desired_state=DesiredState.RUNNING) | Q(deleted_at__isnull=False) | Q(replicas_wanted=0)
    return Case(
        When(stopping & Q(replicas_live=0), then=Value("stopped")),
        When(stopping, then=Value("draining")),
        When(replicas_ready__gte=F("replicas_wanted"), then=Value("ready")),
        When(replicas_ready__gt=0, then=Value("degraded")),
        When(replicas_unknown__gt=0, then=Value("degraded")),
        When(replicas_failed__gt=0, then=Value("failed")),
        When(Q(replicas_pending__gt=0) & ~Q(engine=Engine.EXTERNAL), then=Value("waiting")),
        When(Q(frozen=True) & Q(replicas_live=0), then=Value("waiting")),
        default=Value("starting"),
        output_field=CharField(),
    )


def deployments(
    *, state: str | None = None, engine: str | None = None, pool: str | None = None, search: str | None = None
) -> QuerySet[Deployment]:
    """Returns deployments with `replicas_live`, `_ready`, `_unknown`, `_failed`, `_pending` and `status_now`.

    `replicas_ready` leaves out those on a lost node: they are `replicas_unknown`. `state` is one of `STATUSES`.
    """
    rows = _counted(Deployment.objects.select_related("variant__model", "pool", "revision")).order_by("name")
    if state:
        rows = rows.filter(Exact(F("status_now"), state))
    if engine:
        rows = rows.filter(engine=engine)
    if pool:
        rows = rows.filter(pool__name=pool)
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(variant__model__name__icontains=search))
    return rows


def status_counts(rows: QuerySet[Deployment]) -> dict[str, int]:
    """Returns status -> how many of these rows (of `deployments()`) have it, counted by the database."""
    # a status is worked out from counts, and an ORM query can't group by what it has counted itself
    asked: QuerySet[Any, Any] = rows.order_by()
    sql, values = asked.values("pk", "status_now").query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT status_now, count(*) FROM ({sql}) AS counted GROUP BY status_now", values)  # noqa: S608
        return dict(cursor.fetchall())


def replica_totals() -> ReplicaTotals:
    """Returns the numbers of all replicas in two queries, however many there are."""
    running = Deployment.objects.filter(desired_state=DesiredState.RUNNING, deleted_at=None)
    asked = Q(deployment__desired_state=DesiredState.RUNNING, deployment__deleted_at=None)
    known = Q(node__isnull=True) | Q(node__lost=False)
    found = Replica.objects.filter(ended_at=None).aggregate(
        ready=Count("pk", filter=asked & known & Q(goal="run", state=ReplicaState.READY)),
        failed=Count("pk", filter=Q(state=ReplicaState.FAILED)),
    )
    wanted = running.aggregate(wanted=Sum("replicas_wanted"))["wanted"] or 0
    return ReplicaTotals(wanted=wanted, ready=found["ready"], failed=found["failed"])


def deployment(name: str) -> Deployment:
    """Returns one deployment with the numbers of `deployments()`; raises RefusedError when there is none."""
    found = deployments().filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_deployment", f"There is no deployment {name}.", kind="not_found")
    return found


def status(deployment: Deployment) -> str:
    """Returns one of `STATUSES`; asks the database only when the row does not come from `deployments()`."""
    known = getattr(deployment, "status_now", None)
    if known is None:
        known = getattr(_counted(Deployment.objects.all()).get(pk=deployment.pk), "status_now")  # noqa: B009
    return str(known)


def replicas(
    *,
    deployment: str | None = None,
    node: str | None = None,
    state: str | None = None,
    include_ended: bool = False,
) -> QuerySet[Replica]:
    """Returns replicas with deployment, revision and node; those that ended only when asked for."""
    rows = Replica.objects.select_related("deployment", "revision", "node")
    if not include_ended:
        rows = rows.filter(ended_at__isnull=True)
    if deployment:
        rows = rows.filter(deployment__name=deployment)
    if node:
        rows = rows.filter(node__name=node)
    if state:
        rows = rows.filter(state=state)
    return rows


def replica(id: str) -> Replica:
    """Returns one replica, living or ended; raises RefusedError when there is none of this id."""
    found = replicas(include_ended=True).filter(pk=id).first()
    if found is None:
        raise RefusedError("no_such_replica", f"There is no replica {id}.", kind="not_found")
    return found


def up(ids: Collection[str]) -> set[str]:
    """Returns those of these replicas whose engines are up: what they may use of their cards they use."""
    if not ids:
        return set()
    states = (ReplicaState.READY, ReplicaState.DRAINING)
    return set(Replica.objects.filter(pk__in=ids, state__in=states).values_list("pk", flat=True))


def transitions(replica: Replica) -> QuerySet[ReplicaTransition]:
    """Returns a replica's history, oldest first."""
    return replica.transitions.order_by("id")  # as they came: clocks of nodes may differ from ours


def ledger_row(replica: Replica) -> LedgerRow | None:
    """Returns what the memory ledger said of a replica and what its engine measured; None = it was never placed."""
    return LedgerRow.objects.filter(replica=replica.pk).first()


def ledgers_of(replica_ids: Iterable[str]) -> dict[str, LedgerRow]:
    """Returns replica id -> what the memory ledger said of it; those that were never placed are left out."""
    return {row.replica: row for row in LedgerRow.objects.filter(replica__in=list(replica_ids))}


def ledger_rows(
    *,
    deployment: str | None = None,
    accelerator: str | None = None,
    family: str | None = None,
    measured: bool | None = None,
) -> QuerySet[LedgerRow]:
    """Returns ledgers of starts, the newest first."""
    rows = LedgerRow.objects.all()
    for column, value in (("deployment", deployment), ("accelerator", accelerator), ("family", family)):
        if value:
            rows = rows.filter(**{column: value})
    if measured is not None:
        rows = rows.filter(measured_at__isnull=not measured)
    return rows


def passed_over(replica_ids: Iterable[str]) -> dict[str, tuple[Rejected, ...]]:
    """Returns what the last placement of each of these replicas passed over and why, whether it found a place or not;
    a replica that nothing was passed over for is left out."""
    rows = PassedOver.objects.filter(replica__in=list(replica_ids))
    return {row.replica_id: found for row in rows if (found := rejections.from_plain(row.rejected))}


def is_led() -> bool:
    """Returns whether some controller holds the lock of the leader now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objid = %s"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            [advisory_locks.CONTROLLER_LEADER],
        )
        return bool(cursor.fetchone()[0])


def control_state(now: float | None = None) -> ControlState:
    """Returns whether wishes are carried out at all. Asks PostgreSQL and Valkey, one short question each."""
    led = is_led()
    try:
        with valkey.connect() as client:
            raw = client.get(keys.snapshot_at())
    except valkey.ERRORS as error:
        return ControlState(led, None, f"Valkey does not answer: {error}.", "What runs goes on; nothing is changed.")
    age_s = (now or time.time()) - float(raw) if isinstance(raw, bytes) else None
    if not led:
        text = "No controller leads: wishes are kept, and nobody carries them out."
        return ControlState(led, age_s, text, "Look whether `manage.py controller` runs, and read its log.")
    if age_s is None or age_s > PUBLISHED_OLD_AFTER_S:
        since = "has published nothing yet" if age_s is None else f"has published nothing for {age_s:.0f} s"
        return ControlState(led, age_s, f"A controller leads and {since}.", "It may hang; read its log, restart it.")
    return ControlState(led, age_s)


def wish(deployment: Deployment) -> DeploymentWish:
    """Returns what a deployment is asked to be: applying it changes nothing. Never holds the external key."""
    spec: dict[str, Any] = deployment.revision.spec if deployment.revision else {}
    return DeploymentWish(
        engine=deployment.engine,
        variant=str(deployment.variant) if deployment.variant else "",
        pool=deployment.pool.name,
        desired_state=deployment.desired_state,
        replicas=deployment.replicas_wanted,
        accelerators_per_replica=spec.get("accelerators", 1),
        tensor_parallel=spec.get("tensor_parallel", 1),
        pipeline_parallel=spec.get("pipeline_parallel", 1),
        settings=spec.get("settings", {}),
        external_url=spec.get("external_url", ""),
        external_model=spec["served_model_name"] if deployment.engine == Engine.EXTERNAL else "",
        external_key=None,
        note=deployment.revision.note if deployment.revision else "",
        node_labels=dict(deployment.node_labels),
    )


def relabelled(node: Node, labels: Mapping[str, str]) -> Relabelled:
    """Returns whom it matters to when a node carries these labels instead of its own; two queries."""
    rows = Deployment.objects.filter(pool=node.pool_id, deleted_at=None).exclude(node_labels={}).order_by("name")
    found = [
        (name, naming.carry(node.labels, wanted), naming.carry(labels, wanted))
        for name, wanted in rows.values_list("name", "node_labels")
    ]
    losing = [name for name, before, after in found if before and not after]
    gaining = [name for name, before, after in found if after and not before]
    running = Replica.objects.filter(node=node, ended_at=None, deployment__name__in=losing).count() if losing else 0
    return Relabelled(losing, gaining, running)
