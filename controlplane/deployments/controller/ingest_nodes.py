"""The part of a node's report that tells of the node itself, and who is believed under its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Q

from controlplane.deployments.controller import ingest_model_files
from controlplane.deployments.controller.listening import Heard
from controlplane.deployments.controller.times import to_datetime
from controlplane.domain import reporting
from controlplane.domain.observed import NODE_LOST_AFTER_S, REPORT_SCHEMA, NodeReport
from controlplane.domain.reporting import Known
from controlplane.fleet.models import Node, Pool
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.lib import wire
from controlplane.telemetry.services import notify

ACTOR = Actor("system", "controller")
DEFAULT_POOL = "default"
_FACTS = ("address", "simulated", "engines", "cpu_count", "memory_total_bytes", "machine")


@dataclass(frozen=True, slots=True)
class Moved:
    """The node as it is after the report; whether anything changed that decisions depend on."""

    node: Node
    changed: bool


def take_over(node: Node | None, heard: Heard, now: float) -> Moved | None:
    """Moves the node's row on to this report, None when the report does not count."""
    report = heard.report
    joined = node is None
    if node is None:
        node = _join(report)
    verdict = reporting.judge(_known(node, now), report)
    if verdict != "new":
        _refuse(node, report, verdict)
        return None
    restarted = bool(node.incarnation) and node.incarnation != report.incarnation
    facts = _facts(report)
    changed = joined or node.lost or any(getattr(node, name) != value for name, value in facts.items())
    mine = Node.objects.filter(pk=node.pk, incarnation=node.incarnation, report_sequence=node.report_sequence)
    done = mine.update(
        **facts,
        incarnation=report.incarnation,
        starts=report.starts,
        report_sequence=report.sequence,
        last_report_at=to_datetime(now),
        carried_out_version=report.desired_version,
        memory_available_bytes=report.memory_available_bytes,
        clock_ahead_s=heard.clock_ahead_s,
        files_looked_at=ingest_model_files.looked_at(report, now),
        lost=False,
    )
    if not done:
        return None
    _tell(node.name, joined=joined, restarted=restarted, was_lost=node.lost)
    if changed or restarted:
        notify.changed("node", node.name, "node.reported")
    return Moved(node, changed)


def mark_lost(now: float, listening_since: float) -> int:
    """Marks nodes that have been silent too long, and returns how many.

    `listening_since` is since when reports could be heard without a gap: a deaf controller declares nobody lost.
    """
    if now - listening_since < NODE_LOST_AFTER_S:
        return 0
    # one that is to come was written before our clock was set back, so before `listening_since`
    silent = Q(last_report_at__lt=to_datetime(now - NODE_LOST_AFTER_S)) | Q(last_report_at__gt=to_datetime(now))
    count = 0
    for node in Node.objects.filter(silent, lost=False):
        with transaction.atomic():
            mine = Node.objects.filter(pk=node.pk, lost=False, report_sequence=node.report_sequence)
            if not mine.update(lost=True):
                continue
            count += 1
            message = f"No report for {NODE_LOST_AFTER_S:.0f} s. What runs there is left running."
            event(node.name, "node.lost", message, "error")
            notify.changed("node", node.name, "node.lost")
    return count


def event(name: str, verb: str, message: str, level: str) -> None:
    """Writes what the controller saw of a node."""
    record.event(
        actor=ACTOR, verb=verb, object_kind="node", object_id=name, object_name=name, message=message, level=level
    )


def _known(node: Node, now: float) -> Known:
    silent_s = now - node.last_report_at.timestamp() if node.last_report_at else NODE_LOST_AFTER_S
    # a report from the future means that our own clock was set back: then nothing is known of its silence
    silent_s = silent_s if silent_s >= 0 else NODE_LOST_AFTER_S
    return Known(node.machine, node.starts, node.incarnation, node.report_sequence, silent_s)


def _refuse(node: Node, report: NodeReport, verdict: reporting.Verdict) -> None:
    """Tells of what a person has to put right; a late report is nothing to tell."""
    if verdict == "taken":
        why = (
            f"Another machine (address {report.address}) also calls itself {node.name}. Only the machine that was there"
            " first is believed, until it falls silent. Give the other one a name of its own: HEADWORKS_NODE_NAME."
        )
    elif verdict == "newer_schema":
        why = (
            f"Node {node.name} reports in format {report.schema}, this controller reads up to {REPORT_SCHEMA}."
            " Update the control plane."
        )
    else:
        return
    numbers = {"machine": report.machine, "address": report.address, "schema": report.schema}
    record.decision(
        rule="report_refused", object_kind="node", object_id=node.name, object_name=node.name, before="reported",
        after="passed over", why=why, numbers=numbers,
    )  # fmt: skip


def _join(report: NodeReport) -> Node:
    pool = Pool.objects.filter(name=DEFAULT_POOL).first() or Pool.objects.first()
    if pool is None:
        pool = Pool.objects.create(name=DEFAULT_POOL)
    return Node.objects.create(name=report.node, pool=pool)


def _tell(name: str, *, joined: bool, restarted: bool, was_lost: bool) -> None:
    if joined:
        event(name, "node.joined", "It reported for the first time.", "info")
    elif was_lost:
        event(name, "node.back", "It reports again.", "info")
    if restarted:
        event(name, "node.restarted", "Its worker was started anew; its engines went on.", "info")


def _facts(report: NodeReport) -> dict[str, Any]:
    return {
        "address": report.address,
        "simulated": report.simulated,
        "engines": dict(report.engines),
        "cpu_count": report.cpu_count,
        "memory_total_bytes": report.memory_total_bytes,
        "machine": report.machine,
        "topology": None if report.topology is None else wire.decode(wire.encode(report.topology), dict[str, Any]),
    }
