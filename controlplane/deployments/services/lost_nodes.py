"""A node that will never report again."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.deployments.models import Replica
from controlplane.deployments.services import steps
from controlplane.domain.errors import RefusedError
from controlplane.fleet.models import Node
from controlplane.fleet.services import reservations
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.telemetry.services import notify


@transaction.atomic
def forget(*, actor: Actor, name: str, expected_version: int | None = None) -> int:
    """Removes a lost node and ends its replicas in the records; returns how many. If the machine does come back, it
    registers anew and ends what it still runs, because no document lists it any more."""
    node = Node.objects.select_for_update().filter(name=name).first()
    if node is None:
        raise RefusedError("no_such_node", f"There is no node {name}.", kind="not_found")
    versioned.check(object_kind="node", object_id=name, version=node.version, expected_version=expected_version)
    if not node.lost and node.last_report_at is not None:
        hint = "Drain it, end its worker, and forget it when it is shown as lost."
        raise RefusedError("node_reports", f"Node {name} still reports.", kind="conflict", hint=hint)
    rows = Replica.objects.select_for_update(of=("self",)).select_related("deployment").order_by("pk")
    living = list(rows.filter(node=node, ended_at=None))
    for row in living:
        _end(row, name)
    Replica.objects.filter(node=node).update(node=None)
    node.delete()
    record.event(
        actor=actor, verb="node.forgotten", object_kind="node", object_id=name, object_name=name,
        message=f"Removed; {len(living)} replica{'s' if len(living) != 1 else ''} there had not ended.",
        numbers={"replicas": len(living)}, level="warning",
    )  # fmt: skip
    dispatch.wake_controller()
    notify.changed("node", name, "node.forgotten")
    return len(living)


def _end(row: Replica, node: str) -> None:
    now = timezone.now()
    code, message = "node_forgotten", f"Node {node} was removed from the records."
    steps.write(replica_id=row.pk, from_state=row.state, to_state="stopped", code=code, message=message)
    Replica.objects.filter(pk=row.pk).update(
        state="stopped", state_since=now, ended_at=now, goal="stop", reason_code=code, reason_message=message, url=""
    )
    reservations.release(owner_kind="replica", owner_id=row.pk)
    notify.changed("replica", row.pk, "replica.stopped")
    notify.changed("deployment", row.deployment.name, "deployment.replicas")
