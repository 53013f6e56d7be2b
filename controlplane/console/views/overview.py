"""The first page: the whole fleet at a glance, and the pulse that every page shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.console import samples
from controlplane.console.guard import page
from controlplane.console.views.nodes import fleet_memory
from controlplane.deployments import selectors
from controlplane.deployments.models import DesiredState, ReplicaState
from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors as fleet
from controlplane.fleet.models import Node
from controlplane.journal import selectors as journal

_SHOWN = 12


@page()
def overview(request: HttpRequest) -> HttpResponse:
    """The overview, or what to do first where there is nothing yet."""
    return render(request, "overview.html", {**_deployments(), **_nodes(), **_recent(), "pulse": _pulse()})


@page()
def part(request: HttpRequest, part: str) -> HttpResponse:
    """One part of the overview, fetched again after something has changed."""
    parts = {"tiles": lambda: {"pulse": _pulse()}, "deployments": _deployments, "nodes": _nodes, "recent": _recent}
    if part not in parts:
        raise RefusedError("no_such_part", f"The overview has no part {part}.", kind="not_found")
    return render(request, f"overview/{part}.html", parts[part]())


@page()
def pulse(request: HttpRequest) -> HttpResponse:
    """The numbers in the top bar."""
    return render(request, "parts/pulse.html", {"pulse": _pulse()})


def _deployments() -> dict[str, Any]:
    rows = list(selectors.deployments()[: _SHOWN + 1])
    shown = rows[:_SHOWN]
    newest = samples.newest(f"deployment:{row.name}" for row in shown)
    return {"deployments": shown, "more_deployments": len(rows) > _SHOWN, "samples": newest}


def _nodes() -> dict[str, Any]:
    rows = list(fleet.nodes()[: _SHOWN + 1])
    shown = rows[:_SHOWN]
    memory = fleet_memory(shown)
    cards = [(row, *memory.get(row.pk, (None, None))) for row in shown]
    return {"nodes": cards, "more_nodes": len(rows) > _SHOWN}


def _recent() -> dict[str, Any]:
    failures = journal.events().filter(level__in=("warning", "error"))
    return {"failures": failures[:6], "decisions": journal.decisions()[:6]}


def _pulse() -> dict[str, Any]:
    running = [
        row for row in selectors.deployments() if row.desired_state == DesiredState.RUNNING and not row.deleted_at
    ]
    newest = samples.newest(f"deployment:{row.name}" for row in running)
    lost = list(Node.objects.values_list("lost", flat=True))
    return {
        "wanted": sum(row.replicas_wanted for row in running),
        "ready": sum(getattr(row, "replicas_ready", 0) for row in running),
        "tokens_per_s": _total(newest, "tokens_per_s"),
        "running": _total(newest, "running"),
        "waiting": _total(newest, "waiting"),
        "nodes": len(lost),
        "nodes_up": lost.count(False),
        "failures": selectors.replicas(state=ReplicaState.FAILED).count(),
    }


def _total(newest: samples.Samples, field: str) -> float | None:
    values = [sample[field] for sample in newest.values() if sample.get(field) is not None]
    return sum(values) if values else None
