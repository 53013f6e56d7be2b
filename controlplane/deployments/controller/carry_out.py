"""Decisions about deployments become rows, each one in a transaction with the reason why.

Guarantees
    Nothing is done to a deployment whose wish has changed since it was read; the next round sees the new wish. An
    accelerator is given away by inserting its unique reservation, so never twice.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.deployments.controller import view
from controlplane.deployments.models import Deployment, Engine, PassedOver, Replica
from controlplane.deployments.services import endpoints, predictions, steps
from controlplane.domain import reconcile, rejections
from controlplane.domain.desired import AssignedAccelerator
from controlplane.domain.reconcile import Action, Create, Drop, Hold, Place, Remove, Stop, Wait
from controlplane.domain.rejections import Rejected
from controlplane.fleet.models import Accelerator, Node
from controlplane.fleet.services import reservations
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.lib import wire
from controlplane.lib.ids import new_id, new_secret
from controlplane.telemetry.services import notify

ACTOR = Actor("system", "controller")
TOLD_AGAIN_AFTER_S = 600.0
ACTIONS_AT_ONCE = 100  # of one deployment in one transaction
ROUND_S = 1.0  # then what was decided so far is published first


class Reconciler:
    """One round after another over all deployments. Remembers only which standstill it has told of, and when, and with
    which deployment a round that took too long goes on."""

    def __init__(self) -> None:
        self._next = 0  # the deployment's key
        self._told: dict[str, tuple[str, float]] = {}  # deployment -> (why, when)

    def run(self, now: float) -> bool:
        """Decides and acts for every deployment; returns whether anything was written. `now` is wall-clock time."""
        fleet = view.load(now)
        wrote = False
        until = time.monotonic() + ROUND_S
        self._told = {name: told for name, told in self._told.items() if name in {d.name for d in fleet.deployments}}
        for deployment in self._in_turn(fleet.deployments):
            if wrote and time.monotonic() > until:
                self._next = deployment.pk
                return True
            members, wish = fleet.members[deployment.pk], view.wanted(deployment, fleet.frozen)
            if any(one.state == "pending" and one.goal == "run" for one in members):
                wish = view.with_ledgers(wish, deployment, fleet.sites, now)
            actions = reconcile.reconcile(wish, members, fleet.sites)
            if not actions:
                self._told.pop(deployment.name, None)
                continue
            wrote |= self._act(deployment, actions[:ACTIONS_AT_ONCE], fleet)
        return wrote

    def _in_turn(self, deployments: list[Deployment]) -> list[Deployment]:
        """One that always has something to do must not keep the others waiting."""
        start = next((index for index, one in enumerate(deployments) if one.pk == self._next), 0)
        self._next = 0
        return deployments[start:] + deployments[:start]

    @transaction.atomic
    def _act(self, deployment: Deployment, actions: Sequence[Action], fleet: view.Fleet) -> bool:
        # the row lock lets neither a service change the wish nor a second controller act while it is carried out
        if not Deployment.objects.select_for_update().filter(pk=deployment.pk, version=deployment.version).exists():
            return True  # changed meanwhile: another round is due
        living = set(deployment.replicas.filter(ended_at=None).values_list("pk", flat=True))
        if living != {one.id for one in fleet.members[deployment.pk]}:
            return True
        wrote = False
        for action in actions:
            match action:
                case Create():
                    _create(deployment, action)
                    wrote = True
                case Place():
                    wrote |= _place(deployment, action, fleet)
                case Wait():
                    wrote |= _wait(deployment, action)
                case Stop():
                    wrote |= _stop(deployment, action)
                case Drop():
                    wrote |= _drop(deployment, action)
                case Hold():
                    self._hold(deployment, action)
                case Remove():
                    _remove(deployment)
                    wrote = True
        if wrote:
            notify.changed("deployment", deployment.name, "deployment.replicas")
        return wrote

    def _hold(self, deployment: Deployment, action: Hold) -> None:
        why, at = self._told.get(deployment.name, ("", 0.0))
        now = time.monotonic()
        if why == action.why and now - at < TOLD_AGAIN_AFTER_S:
            return
        self._told[deployment.name] = (action.why, now)
        _decide(action.rule, deployment, why=action.why)


def _create(deployment: Deployment, action: Create) -> None:
    assert deployment.revision is not None, f"{deployment.name} wants replicas and has no revision"
    row = Replica.objects.create(
        id=new_id(),
        deployment=deployment,
        revision=deployment.revision,
        state_since=timezone.now(),
        key=new_secret("hwr"),
        cause=_cause(deployment),
    )
    _decide(action.rule, deployment, row.pk, before="", after="pending", why=action.why)
    if deployment.engine == Engine.EXTERNAL:
        dispatch.send_on_commit(dispatch.PROBE_EXTERNAL, expires_s=endpoints.PROBE_EXPIRES_S)


def _place(deployment: Deployment, action: Place, fleet: view.Fleet) -> bool:
    place = action.placement
    node = Node.objects.get(name=place.node)
    with transaction.atomic():
        rows = reservations.take(
            node=node.name,
            uuids=place.uuids,
            owner_kind="replica",
            owner_id=action.replica_id,
            memory_bytes=place.memory_bytes,
        )
        if rows is None:
            return True  # somebody was quicker: another round is due
        mine = Replica.objects.filter(pk=action.replica_id, state="pending", goal="run", node=None)
        values = {
            "state": "placed",
            "state_since": timezone.now(),
            "node": node,
            "assigned": [wire.to_plain(_assigned(row, place.memory_bytes)) for row in rows],
            "reason_code": "placed",
            "reason_message": _placed(node.name, rows, place.why),
            "reason_hint": "",
        }
        if not mine.update(**values):
            transaction.set_rollback(True)
            return True
        _keep(action.replica_id, place.rejected)
        why = _placed(node.name, rows, place.why)
        steps.write(replica_id=action.replica_id, from_state="pending", to_state="placed", code="placed", message=why)
        predictions.write(deployment, action.replica_id, node, rows[0], place.memory_bytes)
    site = fleet.sites[node.name]
    fleet.sites[node.name] = reconcile.take(site, place.uuids, action.replica_id, place.memory_bytes)
    numbers = {
        "accelerators": len(rows),
        "memory_bytes": place.memory_bytes,
        "passed_over": sum(one.count for one in place.rejected),
    }
    _decide("placement", deployment, action.replica_id, "pending", node.name, why=why, numbers=numbers)
    return True


def _keep(replica_id: str, rejected: Sequence[Rejected]) -> None:
    kept = {"rejected": rejections.to_plain(rejected)}
    PassedOver.objects.update_or_create(replica_id=replica_id, defaults=kept)


def _placed(node: str, rows: Sequence[Accelerator], why: str) -> str:
    indexes = ", ".join(str(row.index) for row in rows)
    return f"Placed on {node}, accelerator{'s' if len(rows) != 1 else ''} {indexes}. {why}"


def _assigned(row: Accelerator, memory_bytes: int | None) -> AssignedAccelerator:
    return AssignedAccelerator(
        uuid=row.uuid,
        kind=row.kind,
        address=row.address,
        name=row.name,
        memory_bytes=row.memory_total_bytes or 0,
        bandwidth_bytes_per_s=row.observed.get("bandwidth_bytes_per_s"),
        reserved_bytes=memory_bytes or 0,
    )


def _wait(deployment: Deployment, action: Wait) -> bool:
    hint = "Free accelerators, add a node, or ask for fewer." if action.code == "no_room" else "End the freeze."
    mine = Replica.objects.filter(pk=action.replica_id, state="pending").exclude(reason_message=action.why)
    if not mine.update(reason_code=action.code, reason_message=action.why, reason_hint=hint):
        return False
    _keep(action.replica_id, action.rejected)
    _decide("placement", deployment, action.replica_id, "pending", "pending", why=action.why)
    notify.changed("replica", action.replica_id, "replica.waiting")
    return True


def _stop(deployment: Deployment, action: Stop) -> bool:
    mine = Replica.objects.filter(pk=action.replica_id, goal="run", ended_at=None)
    if not mine.update(goal="stop", drain_timeout_s=action.drain_timeout_s, cause=_cause(deployment)):
        return False
    numbers = {"drain_timeout_s": action.drain_timeout_s}
    _decide(action.rule, deployment, action.replica_id, "run", "stop", why=action.why, numbers=numbers)
    notify.changed("replica", action.replica_id, "replica.stopping")
    return True


def _drop(deployment: Deployment, action: Drop) -> bool:
    row = Replica.objects.filter(pk=action.replica_id, node=None, ended_at=None).first()
    if row is None:
        return False
    now = timezone.now()
    code, why = "asked", "Ended before it reached a node."
    if deployment.engine == Engine.EXTERNAL:
        why = "The endpoint is not used any more."
    Replica.objects.filter(pk=row.pk).update(
        state="stopped", state_since=now, ended_at=now, goal="stop", reason_code=code, reason_message=why
    )
    steps.write(replica_id=row.pk, from_state=row.state, to_state="stopped", code=code, message=why)
    notify.changed("replica", row.pk, "replica.stopped")
    return True


def _remove(deployment: Deployment) -> None:
    name, count = deployment.name, deployment.replicas.count()
    Deployment.objects.filter(pk=deployment.pk).update(revision=None)
    Replica.objects.filter(deployment=deployment).delete()
    Deployment.objects.filter(pk=deployment.pk).delete()
    record.event(
        actor=ACTOR,
        verb="deployment.removed",
        object_kind="deployment",
        object_id=name,
        object_name=name,
        message="Nothing of it ran any more, so it was removed.",
        numbers={"replicas_in_all": count},
    )
    notify.changed("deployment", name, "deployment.removed")


def _decide(
    rule: str,
    deployment: Deployment,
    replica_id: str = "",
    before: str = "",
    after: str = "",
    *,
    why: str,
    numbers: dict[str, Any] | None = None,
) -> None:
    record.decision(
        rule=rule,
        object_kind="replica" if replica_id else "deployment",
        object_id=replica_id or deployment.name,
        object_name=f"{deployment.name}/{replica_id}" if replica_id else deployment.name,
        deployment=deployment.name,
        before=before,
        after=after,
        why=why,
        numbers=numbers,
        cause=_cause(deployment),
    )


def _cause(deployment: Deployment) -> str:
    """The wish that something is done for, as it stands in logs and histories."""
    return f"{deployment.name[:50]}@{deployment.version}"
