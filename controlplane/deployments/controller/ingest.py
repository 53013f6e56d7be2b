"""Reports of nodes become rows.

Guarantees
    A report is taken over once and whole: the node's row is moved from the incarnation and sequence that were read to
    those of the report (compare-and-set), in one transaction with everything that follows from it. What the tables
    can't hold is left out of it and logged, so that one odd value never makes a node look silent. Only the worker that
    is known under a node's name is believed (`domain.reporting`).
Does not do
    Decisions about replicas; those are made afterwards from the rows.
Cost
    What came together is written together: one statement for all that report nothing new, one transaction with a
    savepoint each for the others. Locked are first the nodes, then the replicas in the order of their keys, as services
    lock them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from django.db import DataError, IntegrityError, transaction

from controlplane.deployments.controller import ingest_accelerators, ingest_model_files, ingest_nodes, ingest_replicas
from controlplane.deployments.controller.ingest_quiet import Quiet
from controlplane.deployments.controller.listening import Heard
from controlplane.deployments.models import Replica
from controlplane.domain import reporting
from controlplane.domain.observed import NodeReport
from controlplane.fleet.models import Accelerator, ModelFiles, Node

logger = logging.getLogger(__name__)

_NOT_HELD = (DataError, IntegrityError, ValueError, OverflowError)  # what an odd value in a report may end in
MOST_ODD_NAMES = 100
AT_ONCE = 100  # reports with news in one transaction: what it locks is free again soon


@dataclass(frozen=True, slots=True)
class Taken:
    """What a report did: whether it was new, and whether anything changed that decisions depend on."""

    accepted: bool
    changed: bool


REFUSED = Taken(accepted=False, changed=False)


@dataclass(slots=True)
class Rows:
    """What is in the tables of the nodes that some reports are about."""

    nodes: dict[str, Node]
    accelerators: dict[int, list[Accelerator]]  # node's key -> its accelerators
    model_files: dict[int, list[ModelFiles]]  # node's key -> what it saw of models' files
    replicas: dict[str, Replica]

    @classmethod
    def load(cls, reports: Sequence[NodeReport]) -> Rows:
        """Reads them, four queries for however many reports; locks nodes and replicas until the transaction ends."""
        rows = Node.objects.select_for_update(no_key=True).filter(name__in={report.node for report in reports})
        nodes = {one.name: one for one in rows.order_by("name")}
        ids = {one.replica_id for report in reports for one in report.replicas}
        found = Replica.objects.select_for_update(of=("self",)).select_related("deployment").filter(pk__in=ids)
        replicas = {row.pk: row for row in found.order_by("pk")} if ids else {}
        accelerators: dict[int, list[Accelerator]] = {node.pk: [] for node in nodes.values()}
        for card in Accelerator.objects.filter(node__in=accelerators):
            accelerators[card.node_id].append(card)
        model_files: dict[int, list[ModelFiles]] = {key: [] for key in accelerators}
        for seen in ModelFiles.objects.filter(node__in=accelerators):
            model_files[seen.node_id].append(seen)
        return cls(nodes, accelerators, model_files, replicas)


class Intake:
    """Takes over reports. Remembers what each node said last; `forget` when others may have written meanwhile."""

    def __init__(self) -> None:
        self._quiet = Quiet()
        self._odd_names: set[str] = set()

    def forget(self) -> None:
        """Makes every report be compared with the rows again."""
        self._quiet.forget()

    def take_over(self, heard: Sequence[Heard], now: float) -> list[Taken]:
        """Writes reports in the order in which they came; an old or repeated one changes nothing. `now` is when they
        were received."""
        told = self._quiet.write(heard, now)
        taken = [Taken(accepted=True, changed=False) if index in told else REFUSED for index in range(len(heard))]
        loud = [index for index, one in enumerate(heard) if index not in told and self._has_name(one.report.node)]
        loud.sort(key=lambda one: heard[one].report.node)
        for start in range(0, len(loud), AT_ONCE):
            some = loud[start : start + AT_ONCE]
            for index, one in zip(some, _write_together([heard[index] for index in some], now), strict=True):
                taken[index] = one
                if one.accepted:
                    self._quiet.remember(heard[index].report, now)
        return taken

    def _has_name(self, name: str) -> bool:
        if reporting.is_node_name(name):
            return True
        if name not in self._odd_names and len(self._odd_names) < MOST_ODD_NAMES:
            self._odd_names.add(name)
            logger.error("a node calls itself %.70r, which can't be a name; its reports are passed over", name)
        return False


def take_over(report: NodeReport, now: float) -> Taken:
    """Writes one report by itself."""
    return Intake().take_over([Heard(report, now)], now)[0]


@transaction.atomic
def _write_together(heard: Sequence[Heard], now: float) -> list[Taken]:
    rows = Rows.load([one.report for one in heard])
    taken: list[Taken] = []
    done: set[str] = set()
    for one in heard:
        if one.report.node in done:  # a second report of one node has to see what the first one wrote
            rows, done = Rows.load([one.report]), set()
        done.add(one.report.node)
        taken.append(_take_over(one, rows, now))
    return taken


def _take_over(heard: Heard, rows: Rows, now: float) -> Taken:
    report = heard.report
    try:
        with transaction.atomic():
            return _write(heard, rows, now, piece_by_piece=False)
    except _NOT_HELD as error:
        logger.error("the report of node %s can't be taken over whole: %s", report.node, str(error).strip())
    try:
        with transaction.atomic():
            return _write(heard, Rows.load([report]), now, piece_by_piece=True)
    except _NOT_HELD as error:
        logger.error("the report of node %s can't be taken over: %s", report.node, str(error).strip())
        return REFUSED


def _write(heard: Heard, rows: Rows, now: float, *, piece_by_piece: bool) -> Taken:
    report = heard.report
    moved = ingest_nodes.take_over(rows.nodes.get(report.node), heard, now)
    if moved is None:
        return REFUSED
    node = moved.node
    run = _guarded if piece_by_piece else _plain
    changed = moved.changed
    cards = rows.accelerators.get(node.pk, [])
    changed |= run(partial(ingest_accelerators.take_over, node, cards, report, now))
    files = rows.model_files.get(node.pk, [])
    changed |= run(partial(ingest_model_files.take_over, node, files, report))
    for seen in report.replicas:
        row = rows.replicas.get(seen.replica_id)
        changed |= run(partial(ingest_replicas.take_over, node, row, seen, heard.clock_ahead_s))
    return Taken(accepted=True, changed=changed)


def _plain(work: partial[bool]) -> bool:
    return work()


def _guarded(work: partial[bool]) -> bool:
    try:
        with transaction.atomic():
            return work()
    except _NOT_HELD as error:
        logger.error("a part of a report is passed over: %s", str(error).strip())
        return False
