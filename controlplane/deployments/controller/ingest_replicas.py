"""The part of a node's report that tells of its replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils import timezone

from controlplane.deployments.controller.times import to_datetime, to_optional
from controlplane.deployments.models import Replica, ReplicaTransition
from controlplane.deployments.services import predictions
from controlplane.domain.lifecycle import Reason, Transition
from controlplane.domain.observed import ReplicaObserved
from controlplane.fleet.models import Node
from controlplane.fleet.services import reservations
from controlplane.journal.models import Decision
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.lib import wire
from controlplane.telemetry.services import notify

CLOCK_TOLERATED_S = 5.0
MOST_IN_FLIGHT = 2**31 - 1
_TIMES = ("state_since", "retry_at", "process_started_at")


def take_over(node: Node, row: Replica | None, seen: ReplicaObserved, clock_ahead_s: float | None) -> bool:
    """Writes what a node reports of one replica; returns whether anything changed that decisions depend on.

    `clock_ahead_s` is how much the node's clock is ahead: its times are put right, so that histories stay in order.
    """
    if row is None or row.node_id != node.pk:
        _unknown(node, seen)
        return False
    if row.ended_at is not None:
        return False
    return _one(node, row, _put_right(seen, clock_ahead_s or 0.0))


def _put_right(seen: ReplicaObserved, ahead_s: float) -> ReplicaObserved:
    if abs(ahead_s) <= CLOCK_TOLERATED_S:
        return seen
    return replace(
        seen,
        since=seen.since - ahead_s,
        retry_at=None if seen.retry_at is None else seen.retry_at - ahead_s,
        process_started_at=None if seen.process_started_at is None else seen.process_started_at - ahead_s,
        transitions=tuple(replace(one, at=one.at - ahead_s) for one in seen.transitions),
    )


def _unknown(node: Node, seen: ReplicaObserved) -> None:
    """Told once; the node stops it by itself, because no desired document lists it."""
    if seen.state == "stopped" or _was_told(seen.replica_id):
        return
    record.decision(
        rule="unknown_replica",
        object_kind="replica",
        object_id=seen.replica_id,
        object_name=f"{node.name}/{seen.replica_id}",
        before=seen.state,
        after="stopped",
        why=f"Node {node.name} runs a replica that is in no record here, so it is to end it.",
    )


def _was_told(replica_id: str) -> bool:
    return Decision.objects.filter(rule="unknown_replica", object_kind="replica", object_id=replica_id).exists()


def _one(node: Node, row: Replica, seen: ReplicaObserved) -> bool:
    new = [one for one in seen.transitions if one.seq > row.observed_seq]
    values = _columns(row, seen, new)
    if seen.seq < row.observed_seq:
        _forgotten(node, row, values)
    if seen.seq == row.observed_seq and seen.pid == row.pid:
        for name in _TIMES:  # they have not changed; only our idea of the node's clock may have
            del values[name]
    stale = {name: value for name, value in values.items() if getattr(row, name) != value}
    if not stale:
        return False
    matters = bool({"state", "url", "ended_at", "goal"} & set(stale))
    # compare-and-set: a controller that was ahead of us has already written this or more
    if not Replica.objects.filter(pk=row.pk, observed_seq=row.observed_seq, ended_at=None).update(**stale):
        return False
    ReplicaTransition.objects.bulk_create([_step(row, one) for one in new], ignore_conflicts=True)
    for one in new:
        _tell(node, row, one)
    if seen.state == "ready" and "state" in stale:
        predictions.complete(row, seen.facts)
    if values.get("ended_at") is not None:
        reservations.release(owner_kind="replica", owner_id=row.pk)
    if matters:
        notify.changed("replica", row.pk, f"replica.{seen.state}")
        notify.changed("deployment", row.deployment.name, "deployment.replicas")
    return matters


def _columns(row: Replica, seen: ReplicaObserved, new: list[Transition]) -> dict[str, Any]:
    values: dict[str, Any] = {
        "state": seen.state,
        "state_since": to_datetime(seen.since),
        "url": seen.url or "",
        "log_path": seen.log_path or "",
        "command": list(seen.command),
        "pid": seen.pid,
        "process_started_at": to_optional(seen.process_started_at),
        "attempt": seen.attempt,
        "retry_at": to_optional(seen.retry_at),
        "in_flight": seen.in_flight if 0 <= (seen.in_flight or 0) <= MOST_IN_FLIGHT else None,
        "facts": _facts(row, seen),
        "observed_seq": seen.seq,
    }
    if new:
        values |= _reason(new[-1].reason)
    if seen.state == "stopped":
        values["ended_at"] = timezone.now()
    return values


def _facts(row: Replica, seen: ReplicaObserved) -> dict[str, Any]:
    """Returns what the engine told. How long the last start took outlives it: with one replica alone nothing else says
    when that one is to be expected again."""
    facts: dict[str, Any] = wire.to_plain(seen.facts)
    if facts["start_s"] is None:
        facts["start_s"] = row.facts.get("start_s")
    return facts


def clean(text: str) -> str:
    """Returns the text without NUL, which PostgreSQL can't keep and engines sometimes log."""
    return text.replace("\x00", "")


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "reason_code": reason.code[:64],
        "reason_message": clean(reason.message),
        "reason_hint": clean(reason.hint),
        "log_tail": [clean(line) for line in reason.log_tail],
    }


def _forgotten(node: Node, row: Replica, values: dict[str, Any]) -> None:
    """The node lost its memory of the replica and began its history anew: what it now runs is ended and replaced."""
    values["observed_seq"] = row.observed_seq
    if row.goal == "stop":
        return
    values["goal"] = "stop"
    record.decision(
        rule="replace",
        object_kind="replica",
        object_id=row.pk,
        object_name=f"{row.deployment.name}/{row.pk}",
        deployment=row.deployment.name,
        before="run",
        after="stop",
        why=f"Node {node.name} lost its record of the replica, so it is replaced by a new one.",
    )


def _step(row: Replica, step: Transition) -> ReplicaTransition:
    return ReplicaTransition(
        replica=row,
        seq=step.seq,
        at=to_datetime(step.at),
        from_state=step.from_state,
        to_state=step.to_state,
        code=step.reason.code[:64],
        message=clean(step.reason.message),
        hint=clean(step.reason.hint),
        log_tail=[clean(line) for line in step.reason.log_tail],
        cause=step.cause[:64],
    )


def _tell(node: Node, row: Replica, step: Transition) -> None:
    if step.to_state == "failed":
        _event(node, row, step, "error")
    elif step.to_state in ("ready", "stopped"):
        _event(node, row, step, "info")
    elif step.from_state == "failed" and step.to_state == "placed":
        record.decision(
            rule="restart",
            object_kind="replica",
            object_id=row.pk,
            object_name=f"{row.deployment.name}/{row.pk}",
            deployment=row.deployment.name,
            before="failed",
            after="placed",
            why=clean(step.reason.message),
            numbers={"attempt": row.attempt},
            cause=step.cause[:64],
        )


def _event(node: Node, row: Replica, step: Transition, level: str) -> None:
    record.event(
        actor=Actor("system", f"node {node.name}"),
        verb=f"replica.{step.to_state}",
        object_kind="replica",
        object_id=row.pk,
        object_name=f"{row.deployment.name}/{row.pk}",
        deployment=row.deployment.name,
        message=clean(step.reason.message),
        numbers={"code": step.reason.code, "seq": step.seq},
        level=level,
        cause=step.cause[:64],
    )
