"""The part of a node's report that tells of its cards or groups of cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from controlplane.deployments.controller import ingest_nodes
from controlplane.domain.observed import AcceleratorObserved, NodeReport
from controlplane.fleet.models import Accelerator, Node
from controlplane.lib import wire

READINGS_WRITTEN_EVERY_S = 10.0
# what changes all the time; the live values come by telemetry
_VOLATILE = frozenset(
    {"memory_used_bytes", "memory_free_bytes", "utilization", "temperature_c", "power_w", "replica_use"}
)
_COLUMNS = ("index", "kind", "name", "address", "memory_total_bytes", "present", "observed")


def take_over(node: Node, known: Sequence[Accelerator], report: NodeReport, now: float) -> bool:
    """Writes what the node sees of its cards; returns whether placement would see a difference."""
    rows = {row.uuid: row for row in known}
    made: list[Accelerator] = []
    written: list[Accelerator] = []
    changed = False
    for seen in report.accelerators:
        row = rows.pop(seen.uuid, None)
        observed = readings(seen, now)
        same = row is not None and row.present and _steady(row.observed) == _steady(observed)
        if row is not None and same and 0 <= now - float(row.observed["written_at"]) < READINGS_WRITTEN_EVERY_S:
            continue
        changed |= not same
        target = row or Accelerator(node=node, uuid=seen.uuid)
        for name, value in _columns(seen, observed).items():
            setattr(target, name, value)
        (written if row else made).append(target)
    Accelerator.objects.bulk_create(made)
    Accelerator.objects.bulk_update(written, _COLUMNS)
    return _gone(node, [row for row in rows.values() if row.present]) or changed


def readings(seen: AcceleratorObserved, now: float) -> dict[str, Any]:
    """Returns what is kept of a card's newest readings."""
    return {**wire.to_plain(seen), "written_at": now}


def steady(seen: AcceleratorObserved) -> tuple[Any, ...]:
    """Returns what of a card changes seldom, to notice when it does."""
    foreign = sorted(one.pid for one in seen.foreign_processes)
    slices = [one.uuid for one in seen.mig_devices]
    return (
        seen.uuid, seen.index, seen.kind, seen.name, seen.address, seen.memory_total_bytes, seen.power_limit_w,
        seen.mig_enabled, seen.numa_node, seen.bandwidth_bytes_per_s, foreign, slices,
        seen.uncorrected_errors, seen.remap_pending, seen.remap_failed,
    )  # fmt: skip


def _gone(node: Node, rows: Sequence[Accelerator]) -> bool:
    if not rows:
        return False
    Accelerator.objects.filter(pk__in=[row.pk for row in rows]).update(present=False)
    names = ", ".join(f"{row.name} ({row.uuid})" for row in rows[:4])
    more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
    message = f"No longer seen on {node.name}: {names}{more}."
    ingest_nodes.event(node.name, "node.accelerators_gone", message, "warning")
    return True


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
