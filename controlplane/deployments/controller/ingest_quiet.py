"""Reports that tell nothing new: most of them, so they must cost next to nothing.

A report is quiet when everything but its readings is what the same worker said before and what was written then. It is
known by a hash, so that a thousand nodes need no more than their hashes kept, and no row is read.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import DataError, connection, transaction

from controlplane.deployments.controller import ingest_accelerators, ingest_model_files
from controlplane.deployments.controller.listening import Heard
from controlplane.deployments.controller.times import to_datetime
from controlplane.domain.observed import NodeReport
from controlplane.lib import wire

logger = logging.getLogger(__name__)

COMPARED_EVERY_S = 300.0  # then a report is compared with the rows once more, whatever its hash says
READINGS_WRITTEN_EVERY_S = ingest_accelerators.READINGS_WRITTEN_EVERY_S

_MOVE = """
UPDATE fleet_node AS node
SET report_sequence = said.sequence, last_report_at = %s, memory_available_bytes = said.memory,
    clock_ahead_s = said.ahead, files_looked_at = said.looked
FROM jsonb_to_recordset(%s::jsonb)
    AS said(node text, incarnation text, sequence bigint, memory bigint, ahead double precision, looked timestamptz)
WHERE node.name = said.node AND node.incarnation = said.incarnation AND node.report_sequence < said.sequence
    AND NOT node.lost
RETURNING node.name
"""
_READINGS = """
UPDATE fleet_accelerator AS card SET observed = said.observed
FROM jsonb_to_recordset(%s::jsonb) AS said(node text, uuid text, observed jsonb), fleet_node AS node
WHERE node.name = said.node AND card.node_id = node.id AND card.uuid = said.uuid AND card.present
"""


@dataclass(slots=True)
class _Said:
    """What a node's worker said last, and when it was compared and its readings were written (seconds)."""

    incarnation: str
    hash: bytes
    compared_at: float
    readings_at: float


class Quiet:
    """Remembers what was said, and writes quiet reports together."""

    def __init__(self) -> None:
        self._said: dict[str, _Said] = {}  # node -> what it said last

    def forget(self) -> None:
        """Forgets everything."""
        self._said.clear()

    def remember(self, report: NodeReport, now: float) -> None:
        """Notes that a report was compared with the rows and written whole."""
        self._said[report.node] = _Said(report.incarnation, _hash(report), now, now)

    def write(self, heard: Sequence[Heard], now: float) -> set[int]:
        """Writes those of the reports that are quiet; returns their places in `heard`."""
        quiet = {index: one.report for index, one in enumerate(heard) if self._is_quiet(one.report, now)}
        if not quiet:
            return set()
        try:
            with transaction.atomic():
                moved = self._move([heard[index] for index in quiet], now)
                told = {index: report for index, report in quiet.items() if report.node in moved}
                self._write_readings(list(told.values()), now)
        except DataError as error:  # one of them holds what the tables can't; each by itself will show which
            logger.error("quiet reports can't be written together: %s", str(error).strip())
            self.forget()
            return set()
        return set(told)

    def _is_quiet(self, report: NodeReport, now: float) -> bool:
        said = self._said.get(report.node)
        if said is None or said.incarnation != report.incarnation:
            return False
        if not 0 <= now - said.compared_at < COMPARED_EVERY_S or said.hash != _hash(report):
            del self._said[report.node]  # until it has been compared, this node's reports are no longer quiet
            return False
        return True

    def _move(self, heard: Sequence[Heard], now: float) -> set[str]:
        rows = [
            {
                "node": one.report.node,
                "incarnation": one.report.incarnation,
                "sequence": one.report.sequence,
                "memory": one.report.memory_available_bytes,
                "ahead": one.clock_ahead_s,
                "looked": ingest_model_files.looked_at(one.report, now),
            }
            for one in heard
        ]
        with connection.cursor() as cursor:
            cursor.execute(_MOVE, [to_datetime(now), wire.encode(rows).decode()])
            return {name for (name,) in cursor.fetchall()}

    def _write_readings(self, reports: Sequence[NodeReport], now: float) -> None:
        due = [one for one in reports if self._is_due(one.node, now)]
        if not due:
            return
        rows = [
            {"node": report.node, "uuid": seen.uuid, "observed": ingest_accelerators.readings(seen, now)}
            for report in due
            for seen in report.accelerators
        ]
        with connection.cursor() as cursor:
            cursor.execute(_READINGS, [wire.encode(rows).decode()])
        for report in due:
            self._said[report.node].readings_at = now

    def _is_due(self, node: str, now: float) -> bool:
        said = self._said.get(node)
        return said is not None and now - said.readings_at >= READINGS_WRITTEN_EVERY_S


def _hash(report: NodeReport) -> bytes:
    """Of all that is not a reading."""
    content: tuple[Any, ...] = (
        report.schema, report.machine, report.starts, report.address, report.simulated, report.engines,
        report.cpu_count, report.memory_total_bytes, report.desired_version, report.replicas, report.topology,
        [ingest_accelerators.steady(one) for one in report.accelerators],
        None if report.model_files is None else report.model_files.found,
    )  # fmt: skip
    return hashlib.blake2b(wire.encode(content), digest_size=16).digest()
