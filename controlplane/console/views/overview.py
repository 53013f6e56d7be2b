"""The first page: the whole fleet at a glance, and the pulse that every page shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.console import samples
from controlplane.console.guard import page
from controlplane.console.views.nodes import fleet_memory
from controlplane.deployments import selectors
from controlplane.deployments.services import freeze
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors as fleet
from controlplane.fleet.models import Node
from controlplane.journal import selectors as journal

_SHOWN = 12
_PROBLEMS = 8


@page()
def overview(request: HttpRequest) -> HttpResponse:
    """The overview, or what to do first where there is nothing yet."""
    return render(request, "overview.html", {**_deployments(), **_nodes(), **_recent(), **_summary()})


@page()
def part(request: HttpRequest, part: str) -> HttpResponse:
    """One part of the overview, fetched again after something has changed."""
    parts = {"tiles": _summary, "deployments": _deployments, "nodes": _nodes, "recent": _recent}
    if part not in parts:
        raise RefusedError("no_such_part", f"The overview has no part {part}.", kind="not_found")
    return render(request, f"overview/{part}.html", parts[part]())


@page()
def pulse(request: HttpRequest) -> HttpResponse:
    """The numbers in the top bar."""
    return render(request, "parts/pulse.html", {"pulse": _pulse()})


def _summary() -> dict[str, Any]:
    return {"pulse": _pulse()}


def _deployments() -> dict[str, Any]:
    rows = list(selectors.deployments()[: _SHOWN + 1])
    shown = rows[:_SHOWN]
    newest = samples.newest(f"deployment:{row.name}" for row in shown)
    return {"deployments": shown, "more_deployments": len(rows) > _SHOWN, "samples": newest}


def _nodes() -> dict[str, Any]:
    rows = list(fleet.nodes()[: _SHOWN + 1])
    shown = rows[:_SHOWN]
    return {"nodes": shown, "cards": fleet_memory(shown), "more_nodes": len(rows) > _SHOWN}


def _recent() -> dict[str, Any]:
    failures = journal.events().filter(level__in=("warning", "error"))
    return {"failures": failures[:6], "decisions": journal.decisions()[:6]}


def _pulse() -> dict[str, Any]:
    """The whole in a few numbers; every open page asks for them every few seconds, so the database counts."""
    replicas, nodes = selectors.replica_totals(), fleet.node_states(Node.objects.all())
    problems = [*_control_problem(), *fleet.problems()]
    return {
        "wanted": replicas.wanted,
        "ready": replicas.ready,
        "failures": replicas.failed,
        "alerts": replicas.failed + len(problems),
        "problems": problems[:_PROBLEMS],
        "more_problems": max(0, len(problems) - _PROBLEMS),
        "freeze": freeze.current(),
        "nodes": nodes["all"],
        "nodes_up": nodes["all"] - nodes["lost"],
        **_amounts(),
    }


def _amounts() -> dict[str, float | None]:
    """Sums over all deployments. Who waits mostly does so in a gateway: what waits in engines is kept short there."""
    found = samples.totals(("tokens_per_s", "running", "waiting", "gateway_queue"))
    known = [one for one in (found.pop("gateway_queue"), found["waiting"]) if one is not None]
    return {**found, "waiting": sum(known) if known else None}


def _control_problem() -> list[fleet.Problem]:
    state = selectors.control_state()
    return [fleet.Problem("", "controller", state.problem, state.hint)] if state.problem else []
