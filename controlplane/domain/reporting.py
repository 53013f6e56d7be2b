"""Whose reports count for a node: a late word of an earlier worker, or of another machine with the same name, must not
be taken for news."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from controlplane.domain.names import reserved
from controlplane.domain.observed import NODE_LOST_AFTER_S, REPORT_SCHEMA, NodeReport

# new: take it over · old: pass it over · taken: another machine has this name · newer_schema: not readable here
Verdict = Literal["new", "old", "taken", "newer_schema"]


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")  # names are addresses in REST and in the console


def is_node_name(name: str) -> bool:
    """Returns whether a node may be called so."""
    return _NAME.fullmatch(name) is not None and not reserved(name)


@dataclass(frozen=True, slots=True)
class Known:
    """The report of a node that was taken over last, and for how long the node has been silent since."""

    machine: str
    starts: int
    incarnation: str
    sequence: int
    silent_s: float


def judge(known: Known, report: NodeReport) -> Verdict:
    """Returns what a report is, given the one before.

    A worker that was started anew on the same machine is heard at once. Everything else that is not the worker we know
    has to wait until that one has been silent as long as a lost node; so a wrong guess heals by itself.
    """
    if report.schema > REPORT_SCHEMA:
        return "newer_schema"
    if not known.incarnation:
        return "new"
    if report.incarnation == known.incarnation:
        return "new" if report.sequence > known.sequence else "old"
    if known.silent_s >= NODE_LOST_AFTER_S:
        return "new"
    if known.machine and report.machine != known.machine:
        return "taken"
    return "new" if report.starts > known.starts else "old"
