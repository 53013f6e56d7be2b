"""The part of a node's report that tells which models' files it has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from controlplane.deployments.controller.times import to_datetime
from controlplane.domain.model_files import FilesSeen
from controlplane.domain.observed import NodeReport
from controlplane.fleet.models import ModelFiles, Node

_REASON_LENGTH = 300
_LONGEST_AGO_S = 7 * 86_400.0  # of a clock that was set meanwhile
_COLUMNS = ("state", "size_bytes", "missing", "reason")


def take_over(node: Node, known: Sequence[ModelFiles], report: NodeReport) -> bool:
    """Writes what the node saw; returns whether placement would see a difference."""
    seen = {one.location: one for one in report.model_files.found} if report.model_files is not None else {}
    gone = [row for row in known if row.location not in seen]
    if gone:
        ModelFiles.objects.filter(pk__in=[row.pk for row in gone]).delete()
    made: list[ModelFiles] = []
    written: list[ModelFiles] = []
    moved = bool(gone)
    rows = {row.location: row for row in known}
    for location, one in seen.items():
        row = rows.get(location)
        if row is None:
            made.append(_with(ModelFiles(node=node, location=location), one))
        elif _of(row) != _of(one):
            moved |= row.state != one.state
            written.append(_with(row, one))
    ModelFiles.objects.bulk_create(made)
    ModelFiles.objects.bulk_update(written, _COLUMNS)
    return moved or bool(made)


def looked_at(report: NodeReport, now: float) -> datetime | None:
    """Returns when the node looked, by our clock, given that its report came at `now`; None when it did not."""
    if report.model_files is None:
        return None
    ago_s = min(max(0.0, report.reported_at - report.model_files.at), _LONGEST_AGO_S)
    return to_datetime(now - ago_s)


def _of(one: ModelFiles | FilesSeen) -> tuple[str, int, int, str]:
    return one.state, one.size_bytes, one.missing, one.reason[:_REASON_LENGTH]


def _with(row: ModelFiles, seen: FilesSeen) -> ModelFiles:
    row.state, row.size_bytes, row.missing, row.reason = _of(seen)
    return row
