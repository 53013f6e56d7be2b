"""Long work as steps with elapsed and expected time, read from what is stored: so it can be left and found again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.console import sentences, words
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, DesiredState, Engine, Replica, ReplicaState
from controlplane.deployments.services import start_times
from controlplane.fleet.models import Node

_PATH_UP = (ReplicaState.PENDING, ReplicaState.PLACED, ReplicaState.STARTING, ReplicaState.WARMING, ReplicaState.READY)
_LEAVING = (ReplicaState.DRAINING,)
_LATE = 2.0  # times the usual
SHOWN = 12  # steps of one piece of work; the rest is counted

_MOVING = ~Q(state__in=(ReplicaState.READY, ReplicaState.STOPPED)) | Q(goal="stop")


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
    more: int = 0  # steps that are not shown


@dataclass(frozen=True, slots=True)
class Line:
    """One of several objects in a piece of work: its state and where it is."""

    name: str
    url: str
    state: str
    sentence: str
    settled: bool


def of(deployment: Deployment) -> Progress:
    """Returns what is under way for a deployment (a row of `selectors.deployments()`)."""
    status = selectors.status(deployment)
    rows = selectors.replicas(deployment=deployment.name)
    numbers = rows.aggregate(
        run=Count("pk", filter=Q(goal="run")),
        ready=Count("pk", filter=Q(goal="run", state=ReplicaState.READY)),
        moving=Count("pk", filter=_MOVING),
    )
    wanted = deployment.replicas_wanted if _wants(deployment) else 0
    missing = max(0, wanted - numbers["run"])
    settled = not numbers["moving"] and not missing and status not in ("starting", "draining")
    external = deployment.engine == Engine.EXTERNAL
    expected = None if settled or external else expected_start_s(deployment)
    steps = _steps(rows.filter(_MOVING).order_by("created_at"), expected) if numbers["moving"] else []
    if external:
        return Progress(settled, _endpoint_sentence(status), steps, None, numbers["ready"], wanted)
    sentence = _sentence(status, numbers["ready"], wanted, numbers["moving"])
    more = numbers["moving"] - len(steps)
    return Progress(settled, sentence, steps, expected, numbers["ready"], wanted, missing, more)


def of_node(node: Node) -> Progress:
    """Returns what still has to leave a node, and the successors that start elsewhere meanwhile."""
    here = selectors.replicas(node=node.name)
    number = here.count()
    if not number:
        return Progress(True, _("Nothing runs on %(node)s any more.") % {"node": node.name})
    text = ngettext("%(n)d replica still runs on %(node)s.", "%(n)d replicas still run on %(node)s.", number)
    going = here.filter(goal="stop").count()
    elsewhere = selectors.replicas().filter(_MOVING, deployment__in=here.values("deployment")).exclude(node=node)
    steps = _steps(here.order_by("-goal", "created_at"), None, _("Waits until a successor is ready elsewhere."))
    successors = _steps(elsewhere.order_by("created_at"), None) if len(steps) < SHOWN else []
    shown = [*steps, *successors][:SHOWN]
    return Progress(
        False, text % {"n": number, "node": node.name}, shown, ready=number - going, more=number - len(steps)
    )


def of_several(names: Sequence[str]) -> list[Line]:
    """Returns one line a deployment: how far each of several is. Those that are gone are settled."""
    rows = {row.name: row for row in selectors.deployments().filter(name__in=names)}
    return [_line(name, rows.get(name)) for name in names]


def of_nodes(names: Sequence[str]) -> list[Line]:
    """Returns one line a node: what still runs on each of several."""
    counts = selectors.replicas().filter(node__name__in=names).order_by()
    running = dict(counts.values_list("node__name").annotate(n=Count("pk")))
    lines = []
    for name in names:
        number = running.get(name, 0)
        text = ngettext("%(n)d replica still runs there", "%(n)d replicas still run there", number) % {"n": number}
        state = "draining" if number else "stopped"
        lines.append(Line(name, reverse("node", args=[name]), state, text if number else _("empty"), not number))
    return lines


def _line(name: str, row: Deployment | None) -> Line:
    if row is None:
        return Line(name, "", "stopped", _("gone"), settled=True)
    status = selectors.status(row)
    wanted = row.replicas_wanted if _wants(row) else 0
    ready, live = getattr(row, "replicas_ready", 0), getattr(row, "replicas_live", 0)
    external = row.engine == Engine.EXTERNAL
    sentence = _endpoint_sentence(status) if external else _sentence(status, ready, wanted, live)
    return Line(name, reverse("deployment", args=[name]), status, sentence, status in ("ready", "stopped"))


def _steps(rows: QuerySet[Replica], expected: float | None, waiting: str = "") -> list[Step]:
    now = timezone.now()
    return [
        Step(row.pk, row.state, row.state_since, None, waiting)
        if waiting and row.goal == "run" and row.state == ReplicaState.READY
        else _step(row, expected, now)
        for row in rows[:SHOWN]
    ]


def expected_start_s(deployment: Deployment) -> float | None:
    """Returns how long a start of this deployment usually takes; None when unknown."""
    return start_times.usual_s([deployment]).get(deployment.pk)


def _wants(deployment: Deployment) -> bool:
    return deployment.desired_state == DesiredState.RUNNING and deployment.deleted_at is None


def _sentence(status: str, ready: int, wanted: int, moving: int) -> str:
    if status == "stopped":
        return _("Stopped. Nothing runs.")
    if wanted == 0:
        return ngettext("%(n)d replica is ending.", "%(n)d replicas are ending.", moving) % {"n": moving}
    return replicas_ready(ready, wanted)


def replicas_ready(ready: int, wanted: int) -> str:
    """Returns how many are ready of those that are wanted."""
    return _("Replicas ready: %(ready)d of %(wanted)d.") % {"ready": ready, "wanted": wanted}


def _endpoint_sentence(status: str) -> str:
    told = {
        "stopped": _("Stopped. No request goes to the endpoint."),
        "draining": _("The endpoint is being taken out; it runs on."),
        "ready": _("The endpoint answers."),
        "failed": _("The endpoint can't be used now. It is asked again and again."),
    }
    return told.get(status) or _("The endpoint is asked whether it answers.")


def _step(row: Replica, expected: float | None, now: datetime) -> Step:
    if row.deployment.engine == Engine.EXTERNAL:  # it is asked, and that is all: no process, no stages
        told = f"{sentences.said(row.reason_message)} {sentences.said(row.reason_hint)}".strip()
        return Step(row.pk, row.state, row.state_since, None, told)
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
    return _("%(reason)s Next try in %(s)d s.") % {"reason": reason, "s": wait_s}


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
