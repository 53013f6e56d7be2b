"""Reports of nodes become rows.

Guarantees
    A report is taken over once and whole, or not at all: the node's row is moved from the incarnation and sequence
    that were read to those of the report (compare-and-set), in one transaction with everything that follows from it.
Does not do
    Decisions about replicas; those are made afterwards from the rows.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from controlplane.deployments.controller import ingest_replicas
from controlplane.deployments.controller.times import to_datetime
from controlplane.domain.observed import NODE_LOST_AFTER_S, AcceleratorObserved, NodeReport
from controlplane.fleet.models import Accelerator, Node, Pool
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.lib import wire
from controlplane.telemetry.services import notify

logger = logging.getLogger(__name__)

ACTOR = Actor("system", "controller")
DEFAULT_POOL = "default"
ACCELERATORS_WRITTEN_EVERY_S = 10.0
# what changes all the time; the live values come by telemetry
_VOLATILE = frozenset({"memory_used_bytes", "memory_free_bytes", "utilization", "temperature_c", "power_w"})


@dataclass(frozen=True, slots=True)
class Taken:
    """What a report did: whether it was new, and whether anything changed that decisions depend on."""

    accepted: bool
    changed: bool


@transaction.atomic
def take_over(report: NodeReport, now: float) -> Taken:
    """Writes one report; an old or repeated one changes nothing. `now` is when it was received."""
    node = Node.objects.select_related("pool").filter(name=report.node).first()
    joined = node is None
    if node is None:
        node = _join(report)
    if node.incarnation == report.incarnation and report.sequence <= node.report_sequence:
        return Taken(accepted=False, changed=False)
    restarted = bool(node.incarnation) and node.incarnation != report.incarnation
    was_lost = node.lost
    before = _facts(node)
    after = _facts_of(report)
    mine = Node.objects.filter(pk=node.pk, incarnation=node.incarnation, report_sequence=node.report_sequence)
    done = mine.update(
        **after,
        incarnation=report.incarnation,
        report_sequence=report.sequence,
        last_report_at=to_datetime(now),
        carried_out_version=report.desired_version,
        memory_available_bytes=report.memory_available_bytes,
        lost=False,
    )
    if not done:
        return Taken(accepted=False, changed=False)
    _tell(node.name, joined=joined, restarted=restarted, was_lost=was_lost)
    changed = _accelerators(node, report, now)
    changed |= ingest_replicas.take_over(node, report)
    changed |= joined or was_lost or before != after
    if joined or restarted or was_lost or before != after:
        notify.changed("node", node.name, "node.reported")
    return Taken(accepted=True, changed=changed)


def mark_lost(now: float, listening_since: float) -> int:
    """Marks nodes that have been silent too long, and returns how many.

    `listening_since` is since when reports could be heard without a gap: a deaf controller declares nobody lost.
    """
    deadline = to_datetime(now - NODE_LOST_AFTER_S)
    if now - listening_since < NODE_LOST_AFTER_S:
        return 0
    count = 0
    for node in Node.objects.filter(lost=False, last_report_at__lt=deadline):
        with transaction.atomic():
            mine = Node.objects.filter(pk=node.pk, lost=False, report_sequence=node.report_sequence)
            if not mine.update(lost=True):
                continue
            count += 1
            message = f"No report for {NODE_LOST_AFTER_S:.0f} s. What runs there is left running."
            _event(node.name, "node.lost", message, "error")
            notify.changed("node", node.name, "node.lost")
    return count


def _join(report: NodeReport) -> Node:
    pool = Pool.objects.filter(name=DEFAULT_POOL).first() or Pool.objects.first()
    if pool is None:
        pool = Pool.objects.create(name=DEFAULT_POOL)
    return Node.objects.create(name=report.node, pool=pool)


def _tell(name: str, *, joined: bool, restarted: bool, was_lost: bool) -> None:
    if joined:
        _event(name, "node.joined", "Reported for the first time.", "info")
    elif was_lost:
        _event(name, "node.back", "Reports again.", "info")
    if restarted:
        _event(name, "node.restarted", "Its worker was started anew; engines go on.", "info")


def _event(name: str, verb: str, message: str, level: str) -> None:
    record.event(
        actor=ACTOR, verb=verb, object_kind="node", object_id=name, object_name=name, message=message, level=level
    )


def _facts(node: Node) -> dict[str, Any]:
    return {name: getattr(node, name) for name in _FACTS}


_FACTS = ("address", "simulated", "engines", "cpu_count", "memory_total_bytes")


def _facts_of(report: NodeReport) -> dict[str, Any]:
    return {
        "address": report.address,
        "simulated": report.simulated,
        "engines": dict(report.engines),
        "cpu_count": report.cpu_count,
        "memory_total_bytes": report.memory_total_bytes,
    }


def _accelerators(node: Node, report: NodeReport, now: float) -> bool:
    """Takes over what the node sees of its cards; returns whether placement would see a difference."""
    known = {row.uuid: row for row in Accelerator.objects.filter(node=node)}
    changed = False
    for seen in report.accelerators:
        row = known.pop(seen.uuid, None)
        observed = {**wire.to_plain(seen), "written_at": now}
        same = row is not None and row.present and _steady(row.observed) == _steady(observed)
        if row is not None and same and now - float(row.observed["written_at"]) < ACCELERATORS_WRITTEN_EVERY_S:
            continue
        changed |= not same
        Accelerator.objects.update_or_create(node=node, uuid=seen.uuid, defaults=_columns(seen, observed))
    gone = [row.pk for row in known.values() if row.present]
    if gone:
        Accelerator.objects.filter(pk__in=gone).update(present=False)
        _event(node.name, "node.accelerators_gone", f"{len(gone)} accelerators are not seen any more.", "warning")
    return changed or bool(gone)


def _columns(seen: AcceleratorObserved, observed: dict[str, Any]) -> dict[str, Any]:
    return {
        "index": seen.index,
        "kind": seen.kind,
        "name": seen.name[:100],
        "address": seen.address,
        "memory_total_bytes": seen.memory_total_bytes,
        "present": True,
        "observed": observed,
    }


def _steady(observed: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in observed.items() if name not in _VOLATILE and name != "written_at"}
    kept["foreign_processes"] = sorted(one["pid"] for one in observed.get("foreign_processes", ()))
    kept["mig_devices"] = [one.get("uuid") for one in observed.get("mig_devices", ())]
    return kept
