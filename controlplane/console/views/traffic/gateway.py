"""The live page of the gateway."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.console import charts, gateway_page
from controlplane.console.guard import page
from controlplane.deployments.models import Deployment


@page()
def gateway(request: HttpRequest) -> HttpResponse:
    """All gateways now, and one deployment whole with charts."""
    context = _now(request)
    chosen = Deployment.objects.filter(name=context["chosen"], deleted_at=None).first()
    context["tab"] = "gateway"
    context["charts"] = charts.admission(context["chosen"])
    context["begins"] = chosen.created_at.timestamp() if chosen else None
    return render(request, "gateway/page.html", context)


@page()
def now(request: HttpRequest) -> HttpResponse:
    """What changes every second."""
    return render(request, "gateway/poll.html", _now(request))


def _now(request: HttpRequest) -> dict[str, Any]:
    chosen = request.GET.get("deployment", "").strip()[:63]
    return gateway_page.of(chosen, request.GET.get("page", "1"))
