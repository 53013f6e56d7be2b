"""Reading deployments and replicas."""

from __future__ import annotations

from typing import Any

from django.db.models import Case, CharField, Count, F, Q, QuerySet, Value, When
from django.db.models.lookups import Exact

from controlplane.deployments.models import Deployment, DesiredState, Engine, Replica, ReplicaState, ReplicaTransition
from controlplane.deployments.wish import DeploymentWish
from controlplane.domain.errors import RefusedError

STATUSES = ("stopped", "starting", "ready", "degraded", "draining", "failed", "waiting")

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


def transitions(replica: Replica) -> QuerySet[ReplicaTransition]:
    """Returns a replica's history, oldest first."""
    return replica.transitions.order_by("at", "id")


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
    )
