"""One deployment: overview with charts, replicas, settings and their history, logs, journal."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.console import (
    charts,
    decision_words,
    ledger_rows,
    passed_over,
    progress,
    rest,
    samples,
    sentences,
    settings_diff,
    usage,
    words,
)
from controlplane.console.guard import is_fragment, page
from controlplane.console.lists import listing, params_of
from controlplane.console.views.journal import event_list
from controlplane.console.views.replicas import log_lines, replica_columns
from controlplane.console.views.traffic.common import now
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment, Engine, Replica, ReplicaState
from controlplane.deployments.services import freeze
from controlplane.domain.access import LOGS
from controlplane.journal import selectors as journal_selectors
from controlplane.journal.models import Decision

_MARKS = 60
_LEDGERS = 40
_PAST_LEDGERS = 5
_REPLICAS = 80  # of a page; a websocket takes 100 subjects


@page()
def overview(request: HttpRequest, name: str) -> HttpResponse:
    """Charts, key numbers and the box to try the model."""
    deployment = selectors.deployment(name)
    return render(
        request,
        "deployment/overview.html",
        {
            **context_of(deployment, "overview"),
            "charts": charts.deployment(name, external=deployment.engine == Engine.EXTERNAL),
            "begins": deployment.created_at.timestamp(),
            "usage": usage.of_deployment(name, timezone.now(), since=deployment.created_at),
            "chat": rest.chat(name, _("What is the capital of France?")),
        },
    )


@page()
def replicas(request: HttpRequest, name: str) -> HttpResponse:
    """The living replicas, and on request those that ended."""
    deployment = selectors.deployment(name)
    params = params_of(request, ("ended", "state"))
    ended = params.get("ended") == "1"
    rows = selectors.replicas(deployment=name, state=params.get("state"), include_ended=ended)
    if "q" in params:
        rows = rows.filter(Q(pk__startswith=params["q"]) | Q(node__name__icontains=params["q"]))
    table = listing(rows.order_by("ended_at", "created_at"), params, replica_columns(), size=_REPLICAS)
    counted = selectors.replicas(deployment=name, include_ended=ended).order_by().values_list("state")
    states = dict(counted.annotate(n=Count("pk")))
    shown = [(str(state), words.state(state), states[state]) for state in ReplicaState if state in states]
    table.add_chips(_("State"), "state", [("", _("All"), sum(states.values())), *shown])
    table.add_chips(_("Which"), "ended", [("", _("Living"), None), ("1", _("Also ended"), None)])
    context = {
        **context_of(deployment, "replicas"),
        "table": table,
        "replicas": list(table.page),
        "replica_samples": samples.newest(f"replica:{row.pk}" for row in table.page if row.ended_at is None),
    }
    template = "deployment/replica_rows.html" if is_fragment(request) else "deployment/replicas.html"
    return render(request, template, context)


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
        **context_of(deployment, "settings"),
        "current": settings_diff.told(deployment.revision.spec if deployment.revision else {}),
        "history": history,
        "in_use": list(in_use),
    }
    return render(request, "deployment/settings.html", context)


@page()
def ledger(request: HttpRequest, name: str) -> HttpResponse:
    """Predicted beside measured memory of the living replicas; without any, of the newest starts."""
    deployment = selectors.deployment(name)
    living = {row.pk: row for row in selectors.replicas(deployment=name)[:_LEDGERS]}
    rows = selectors.ledger_rows(deployment=name)
    found = list(rows.filter(replica__in=living) if living else rows[:_PAST_LEDGERS])
    over = selectors.passed_over(living)
    ledgers = [
        (ledger_rows.of_row(row), passed_over.lines(some := over.get(row.replica, ())), sum(one.count for one in some))
        for row in found
    ]
    context = {**context_of(deployment, "ledger"), "ledgers": ledgers}
    return render(request, "deployment/ledger.html", context)


@page(LOGS)
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
            **context_of(deployment, "logs"),
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
        **context_of(deployment, "journal"),
        "table": event_list(request, object_kind="deployment", object_id=name),
        "decisions": journal_selectors.decisions(deployment=name)[:20],
    }
    return render(request, "deployment/journal.html", context)


@page()
def head(request: HttpRequest, name: str) -> HttpResponse:
    """The header with the work that is under way, fetched again after a change."""
    tab = request.GET.get("tab", "overview")
    return render(request, "deployment/head.html", {**context_of(selectors.deployment(name), tab), "fragment": True})


@page()
def marks(request: HttpRequest, name: str) -> HttpResponse:
    """Revisions and decisions as marks of the time axis; those of a predecessor of the same name are not its own."""
    return JsonResponse({"marks": _marks(selectors.deployment(name))})


def context_of(deployment: Deployment, tab: str) -> dict[str, Any]:
    """Returns what every tab of a deployment shows."""
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
        "all_frozen": freeze.is_frozen(),
        "gateway_now": now().get(name),
    }


def _newest_failure(deployment: Deployment) -> Replica | None:
    return selectors.replicas(deployment=deployment.name, state=ReplicaState.FAILED).order_by("-state_since").first()


def _marks(deployment: Deployment) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        {
            "t": revision.created_at.timestamp(),
            "kind": "revision",
            "title": _("Revision %(n)d") % {"n": revision.number},
            "text": sentences.said(revision.note)
            or _("Made by %(who)s.") % {"who": revision.created_by or _("the system")},
        }
        for revision in deployment.revisions.order_by("-number")[:_MARKS]
    ]
    found.extend(
        {
            "t": decision.last_at.timestamp(),
            "kind": "decision",
            "title": _decided(decision),
            "text": sentences.said(decision.why),
        }
        for decision in journal_selectors.decisions(deployment=deployment.name, since=deployment.created_at)[:_MARKS]
    )
    found.extend(
        {
            "t": event.at.timestamp(),
            "kind": "failure",
            "title": _("Replica %(id)s failed") % {"id": event.object_id},
            "text": sentences.said(event.message),
        }
        for event in journal_selectors.events(
            deployment=deployment.name, verb="replica.failed", since=deployment.created_at
        )[:_MARKS]
    )
    return found


def _decided(decision: Decision) -> str:
    rule = words.rule(decision.rule)
    return (
        f"{rule}: {decision_words.outcome(decision.before)} → {decision_words.outcome(decision.after)}"
        if decision.after
        else rule
    )
