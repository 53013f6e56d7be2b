"""What people do to single replicas."""

from __future__ import annotations

from django.db import transaction

from controlplane import dispatch
from controlplane.deployments.models import Engine, Replica
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.telemetry.services import notify


@transaction.atomic
def drain(*, actor: Actor, replica_id: str, drain_timeout_s: float = 60.0) -> Replica:
    """Takes a replica out; it ends when its requests have, and the deployment makes another one if it wants one."""
    return _end(
        actor,
        replica_id,
        drain_timeout_s,
        "replica.drained",
        "It takes nothing new and ends once its requests have finished.",
    )


@transaction.atomic
def restart(*, actor: Actor, replica_id: str) -> Replica:
    """Ends a replica now, without waiting for its requests; the deployment makes another one if it wants one."""
    return _end(actor, replica_id, 0.0, "replica.restarted", "It is ended now, whatever runs in it.")


def _end(actor: Actor, replica_id: str, drain_timeout_s: float, verb: str, message: str) -> Replica:
    rows = Replica.objects.select_for_update(of=("self",)).select_related("deployment")
    replica = rows.filter(pk=replica_id).first()
    if replica is None:
        raise RefusedError("no_such_replica", f"There is no replica {replica_id}.", kind="not_found")
    if replica.deployment.engine == Engine.EXTERNAL:
        hint = "Stop the deployment to take it out of the routing."
        raise RefusedError("not_managed", "An external endpoint is not started or stopped from here.", hint=hint)
    if replica.ended_at is not None:
        raise RefusedError("already_ended", f"Replica {replica_id} has already ended.", kind="conflict")
    if replica.goal == "stop" and replica.drain_timeout_s <= drain_timeout_s:
        return replica
    replica.goal, replica.drain_timeout_s = "stop", drain_timeout_s
    replica.save(update_fields=["goal", "drain_timeout_s"])
    name = replica.deployment.name
    record.event(
        actor=actor, verb=verb, object_kind="replica", object_id=replica_id, object_name=f"{name}/{replica_id}",
        deployment=name, message=message, numbers={"drain_timeout_s": drain_timeout_s, "state": replica.state},
    )  # fmt: skip
    dispatch.wake_controller()
    notify.changed("replica", replica_id, verb)
    notify.changed("deployment", name, verb)
    return replica
