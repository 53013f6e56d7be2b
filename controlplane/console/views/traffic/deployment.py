"""The rules of traffic that hold for one deployment, on its page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.accounts.models import ApiKey
from controlplane.console.guard import page
from controlplane.console.views.deployment import context_of
from controlplane.deployments import selectors
from controlplane.traffic import rule_selectors, tiers_in_force

_ROWS = 50


@page()
def traffic(request: HttpRequest, name: str) -> HttpResponse:
    """Objective, tiers, ladder, shares, quotas and price of a deployment, and what its gateway does now."""
    deployment = selectors.deployment(name)
    shares = list(rule_selectors.shares(deployment=name)[:_ROWS])
    quotas = list(rule_selectors.quotas(deployment=name)[:_ROWS])
    keys = ApiKey.objects.filter(pk__in={row.key_id for row in quotas if row.key_id}).values_list("pk", "name")
    ladder = rule_selectors.ladders().filter(deployment__name=name).first()
    context = context_of(deployment, "traffic")
    context |= {
        "tiers": tiers_in_force.of(name),
        "shares": shares,
        "sold": sum(row.guaranteed for row in shares),
        "quotas": quotas,
        "keys": dict(keys),
        "price": rule_selectors.prices().filter(deployment__name=name).first(),
        "slo": rule_selectors.slos().filter(deployment__name=name).first(),
        "steps": ladder.steps if ladder else [],
        "state": context["gateway_now"],
    }
    return render(request, "deployment/traffic.html", context)
