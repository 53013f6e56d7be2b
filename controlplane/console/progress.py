"""Long work as steps with elapsed and expected time, read from what is stored: so it can be left and found again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.console import sentences, words
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, DesiredState, Replica, ReplicaState

_PATH_UP = (ReplicaState.PENDING, ReplicaState.PLACED, ReplicaState.STARTING, ReplicaState.WARMING, ReplicaState.READY)
_LEAVING = (ReplicaState.DRAINING,)
_SAMPLE = 20
_LATE = 2.0  # times the usual


@dataclass(frozen=True, slots=True)
class Step:
    """One replica's way: where it is, since when, how far (0..1, None = not known), what to know, the way to ready."""

    replica_id: str
    state: str
    begun: datetime
    share: float | None
    note: str
    stages: Sequence[tuple[str, str, str]] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """`settled` = nothing is under way. `expected_s` = what a start of this deployment usually takes."""

    settled: bool
    sentence: str
    steps: list[Step] = field(default_factory=list)
    expected_s: float | None = None
    ready: int = 0
    wanted: int = 0
    missing: int = 0  # wanted, but the controller has not made them yet


def of(deployment: Deployment) -> Progress:
    """Returns what is under way for a deployment (a row of `selectors.deployments()`)."""
    status = selectors.status(deployment)
    rows = list(selectors.replicas(deployment=deployment.name))
    moving = [row for row in rows if row.goal == "stop" or row.state not in (ReplicaState.READY, ReplicaState.STOPPED)]
    wanted = deployment.replicas_wanted if _wants(deployment) else 0
    ready = sum(row.state == ReplicaState.READY and row.goal == "run" for row in rows)
    missing = wanted - sum(row.goal == "run" for row in rows)
    settled = not moving and missing <= 0 and status not in ("starting", "draining")
    expected = None if settled else expected_start_s(deployment)
    now = timezone.now()
    steps = [_step(row, expected, now) for row in moving]
    return Progress(settled, _sentence(status, ready, wanted, moving), steps, expected, ready, wanted, max(0, missing))


def expected_start_s(deployment: Deployment) -> float | None:
    """Returns the median time to ready of this deployment's last replicas, else of its engine's; None when unknown."""
    for rows in (
        Replica.objects.filter(deployment=deployment),
        Replica.objects.filter(deployment__engine=deployment.engine),
    ):
        newest = rows.filter(facts__start_s__isnull=False).order_by("-created_at").values_list("facts__start_s")
        found = [float(value) for (value,) in newest[:_SAMPLE] if value is not None]
        if found:
            return median(found)
    return None


def _wants(deployment: Deployment) -> bool:
    return deployment.desired_state == DesiredState.RUNNING and deployment.deleted_at is None


def _sentence(status: str, ready: int, wanted: int, moving: Sequence[Replica]) -> str:
    if status == "stopped":
        return _("Stopped. Nothing runs.")
    if wanted == 0:
        return ngettext("%(n)d replica is ending.", "%(n)d replicas are ending.", len(moving)) % {"n": len(moving)}
    return _("%(ready)d of %(wanted)d replicas are ready.") % {"ready": ready, "wanted": wanted}


def _step(row: Replica, expected: float | None, now: datetime) -> Step:
    if row.goal == "stop" or row.state in _LEAVING:
        lasted = (now - row.state_since).total_seconds()
        share = min(1.0, lasted / row.drain_timeout_s) if row.state in _LEAVING and row.drain_timeout_s > 0 else None
        return Step(row.pk, row.state, row.state_since, share, _ending_note(row))
    begun = row.process_started_at or row.created_at
    if row.state == ReplicaState.FAILED:
        return Step(row.pk, row.state, row.state_since, None, _failed_note(row, now))
    if row.state not in (ReplicaState.STARTING, ReplicaState.WARMING) or not expected:
        note = sentences.said(row.reason_message) if row.state == ReplicaState.PENDING else ""
        return Step(row.pk, row.state, begun, None, note, stages(row.state))
    share = (now - begun).total_seconds() / max(expected, 1.0)
    note = _("This takes longer than usual; the log tells why.") if share > _LATE else ""
    return Step(row.pk, row.state, begun, min(0.98, share), note, stages(row.state))


def _failed_note(row: Replica, now: datetime) -> str:
    reason = sentences.said(row.reason_message)
    if row.retry_at is None or row.retry_at <= now:
        return reason
    wait_s = (row.retry_at - now).total_seconds() + 1
    return _("%(reason)s Tried again in %(s)d s.") % {"reason": reason, "s": wait_s}


def _ending_note(row: Replica) -> str:
    if row.in_flight is None:
        return _("Ends after at most %(s)d s.") % {"s": row.drain_timeout_s}
    return ngettext(
        "%(n)d request still runs; ends after at most %(s)d s.",
        "%(n)d requests still run; ends after at most %(s)d s.",
        row.in_flight,
    ) % {"n": row.in_flight, "s": row.drain_timeout_s}


def stages(state: str) -> list[tuple[str, str, str]]:
    """Returns the way to ready as (state, word, done | now | todo) for a replica that is on it."""
    if state not in _PATH_UP:
        return []
    at = _PATH_UP.index(ReplicaState(state))
    return [
        (str(one), words.state(one), "done" if index < at else "now" if index == at else "todo")
        for index, one in enumerate(_PATH_UP)
    ]
