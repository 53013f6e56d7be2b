"""One deployment: overview with charts, replicas, settings and their history, logs, journal."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from controlplane.console import charts, progress, samples, settings_diff
from controlplane.console.guard import page
from controlplane.console.views.journal import event_list
from controlplane.console.views.replicas import log_lines
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Engine, Replica, ReplicaState
from controlplane.domain.errors import RefusedError
from controlplane.journal import selectors as journal_selectors

_MARKS = 60


@page()
def overview(request: HttpRequest, name: str) -> HttpResponse:
    """Charts, key numbers and the box to try the model."""
    deployment = selectors.deployment(name)
    return render(
        request,
        "deployment/overview.html",
        {**_head(deployment, "overview"), "charts": charts.deployment(name), "marks": _marks(deployment)},
    )


@page()
def replicas(request: HttpRequest, name: str) -> HttpResponse:
    """The living replicas, and on request those that ended."""
    deployment = selectors.deployment(name)
    ended = request.GET.get("ended") == "1"
    rows = list(selectors.replicas(deployment=name, include_ended=ended).order_by("ended_at", "created_at")[:500])
    context = {
        **_head(deployment, "replicas"),
        "replicas": rows,
        "ended": ended,
        "replica_samples": samples.newest(f"replica:{row.pk}" for row in rows if row.ended_at is None),
    }
    return render(request, "deployment/replicas.html", context)


@page()
def settings(request: HttpRequest, name: str) -> HttpResponse:
    """The current revision and every earlier one with what it changed."""
    deployment = selectors.deployment(name)
    revisions = list(deployment.revisions.order_by("-number")[:100])
    history = [
        (revision, settings_diff.between(older.spec if older else {}, revision.spec))
        for revision, older in zip(revisions, [*revisions[1:], None], strict=True)
    ]
    in_use = dict.fromkeys(
        selectors.replicas(deployment=name, state=ReplicaState.READY).values_list("revision__number", flat=True)
    )
    context = {
        **_head(deployment, "settings"),
        "current": settings_diff.told(deployment.revision.spec if deployment.revision else {}),
        "history": history,
        "in_use": list(in_use),
    }
    return render(request, "deployment/settings.html", context)


@page()
def logs(request: HttpRequest, name: str) -> HttpResponse:
    """The live log of one replica, chosen among those that live or ended last."""
    deployment = selectors.deployment(name)
    rows = list(selectors.replicas(deployment=name, include_ended=True).order_by("-created_at")[:20])
    rows.sort(key=lambda row: row.ended_at is not None)
    wanted = request.GET.get("replica", "")
    chosen = next((row for row in rows if row.pk == wanted), rows[0] if rows else None)
    return render(
        request,
        "deployment/logs.html",
        {
            **_head(deployment, "logs"),
            "replicas": rows,
            "chosen": chosen,
            "lines": log_lines(chosen) if chosen else [],
        },
    )


@page()
def journal(request: HttpRequest, name: str) -> HttpResponse:
    """Events and decisions of this deployment."""
    deployment = selectors.deployment(name)
    context = {
        **_head(deployment, "journal"),
        "table": event_list(request, object_kind="deployment", object_id=name),
        "decisions": journal_selectors.decisions(object_kind="deployment", object_id=name)[:20],
    }
    return render(request, "deployment/journal.html", context)


@page()
def head(request: HttpRequest, name: str) -> HttpResponse:
    """The header with the work that is under way, fetched again after a change."""
    tab = request.GET.get("tab", "overview")
    return render(request, "deployment/head.html", _head(selectors.deployment(name), tab))


@page()
def progress_view(request: HttpRequest, name: str) -> HttpResponse:
    """What is under way, for the open dialog."""
    try:
        deployment = selectors.deployment(name)
    except RefusedError:
        return render(request, "parts/progress_gone.html", {"name": name})
    return render(request, "parts/progress.html", {"deployment": deployment, "progress": progress.of(deployment)})


@page()
def marks(request: HttpRequest, name: str) -> HttpResponse:
    """Revisions and decisions as marks of the time axis."""
    return JsonResponse({"marks": _marks(selectors.deployment(name))})


def _head(deployment: Deployment, tab: str) -> dict[str, Any]:
    name = deployment.name
    return {
        "deployment": deployment,
        "status": selectors.status(deployment),
        "tab": tab,
        "progress": progress.of(deployment),
        "external": deployment.engine == Engine.EXTERNAL,
        "simulated": deployment.engine == Engine.SIMULATED,
        "samples": samples.newest([f"deployment:{name}"]),
        "subject": f"deployment:{name}",
        "failed": _newest_failure(deployment),
    }


def _newest_failure(deployment: Deployment) -> Replica | None:
    return selectors.replicas(deployment=deployment.name, state=ReplicaState.FAILED).order_by("-state_since").first()


def _marks(deployment: Deployment) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        {
            "t": revision.created_at.timestamp(),
            "kind": "revision",
            "title": _("Revision %(n)d") % {"n": revision.number},
            "text": revision.note or _("Made by %(who)s.") % {"who": revision.created_by or _("the system")},
        }
        for revision in deployment.revisions.order_by("-number")[:_MARKS]
    ]
    decisions = journal_selectors.decisions(object_kind="deployment", object_id=deployment.name)
    found.extend(
        {
            "t": decision.last_at.timestamp(),
            "kind": "decision",
            "title": f"{decision.rule}: {decision.before} → {decision.after}" if decision.after else decision.rule,
            "text": decision.why,
        }
        for decision in decisions[:_MARKS]
    )
    return found
