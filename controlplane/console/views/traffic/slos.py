"""Objectives: how long the first token of a deployment and each further one may take."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import amounts, rest, rule_undo, samples
from controlplane.console.amounts import Amount
from controlplane.console.dialogs import Dialog, Values, ask, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.traffic.common import done, show
from controlplane.deployments import selectors
from controlplane.deployments.models import Deployment
from controlplane.traffic import rule_selectors
from controlplane.traffic.models import Slo
from controlplane.traffic.services import slos as services


@dataclass(frozen=True, slots=True)
class Reached:
    """An objective (None = nothing is promised) and whether the last minute's requests met it. None = nothing says so:
    nothing is promised, or nothing was asked."""

    slo: Slo | None
    ttft_p95_s: float | None
    tpot_p95_s: float | None
    is_met: bool | None


@page()
def slos(request: HttpRequest) -> HttpResponse:
    """All deployments with their objectives and what they reach."""
    params = params_of(request, ("with",))
    rows: QuerySet[Deployment] = Deployment.objects.filter(deleted_at=None).select_related("slo").order_by("name")
    if params.get("with") == "objective":
        rows = rows.filter(slo__isnull=False)
    if "q" in params:
        rows = rows.filter(name__icontains=params["q"])
    columns = [
        Column(_("Deployment"), "name"),
        Column(_("TTFT, at most"), "slo__ttft_s", "num"),
        Column(_("TTFT p95"), "", "num", note=_("Of streams, last 60 s")),
        Column(_("TPOT, at most"), "slo__tpot_s", "num"),
        Column(_("TPOT p95"), "", "num", note=_("Of streams, last 60 s")),
        Column(_("Now")),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(rows, params, columns)
    table.add_chips(_("Which"), "with", [("", _("All"), None), ("objective", _("With an objective"), None)])
    found = samples.newest(f"deployment:{row.name}" for row in table.page)
    reached = {row.pk: _reached(row, found) for row in table.page}
    return show(request, "slos", table, "slo", reached=reached, polls=5)


def _reached(row: Deployment, found: samples.Samples) -> Reached:
    slo: Slo | None = getattr(row, "slo", None)
    sample = found.get(f"deployment:{row.name}", {})
    objectives = [] if slo is None else [(slo.ttft_s, sample.get("ttft_p95")), (slo.tpot_s, sample.get("tpot_p95"))]
    judged = [reached <= most for most, reached in objectives if most is not None and reached is not None]
    return Reached(slo, sample.get("ttft_p95"), sample.get("tpot_p95"), all(judged) if judged else None)


@page(roles.OPERATOR, ASKS)
def edit(request: HttpRequest, deployment: str) -> HttpResponse:
    """Sets or changes an objective."""
    selectors.deployment(deployment)
    row = rule_selectors.slos().filter(deployment__name=deployment).first()

    def do(values: Values) -> HttpResponse:
        wish = amounts.read(_amounts(), values)
        expected = seen(values) if row else 0
        applied = services.apply(actor=actor(request), deployment=deployment, **wish, expected_version=expected)
        back = rule_undo.back("slo", deployment, applied, _stored(row) if row else None, deployment=deployment)
        return done(request, _page_of(deployment), _("Saved. Gateways follow within seconds."), back)

    return ask(request, lambda values: _dialog(values, deployment, row), do)


@page(roles.OPERATOR, ASKS)
def delete(request: HttpRequest, deployment: str) -> HttpResponse:
    """Removes an objective."""
    row = rule_selectors.slo(deployment)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), deployment=deployment, expected_version=seen(values))
        back = rule_undo.gone("slo", deployment, _stored(row), deployment=deployment)
        return done(request, _page_of(deployment), _("The objective was removed."), back)

    dialog = Dialog(
        _("Remove the objective of %(name)s") % {"name": deployment},
        _("Remove"),
        [_("Requests then wait as long as their tier allows, and seats are not lowered for slow tokens.")],
        rest=rest.call("DELETE", f"deployments/{deployment}/slo/", version=row.version),
        danger=True,
        back=_page_of(deployment),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _dialog(values: Values, deployment: str, row: Slo | None) -> Dialog:
    stored = _stored(row) if row else {}
    version = row.version if row else 0
    body = amounts.told(_amounts(), values, stored)
    return Dialog(
        _("Objective of %(name)s") % {"name": deployment},
        _("Save"),
        [
            _("Interactive requests wait only as long as leaves time for their prefill."),
            _("Seats are lowered where tokens come slower."),
        ],
        amounts.fields(_amounts(), values, stored),
        rest.call("PUT", f"deployments/{deployment}/slo/", body, version=version),
        back=_page_of(deployment),
        version=version if row else None,
    )  # fmt: skip


def _stored(row: Slo) -> dict[str, float | None]:
    return {"ttft_s": row.ttft_s, "tpot_s": row.tpot_s}


def _page_of(deployment: str) -> str:
    return reverse("deployment-traffic", args=[deployment])


def _amounts() -> list[Amount]:
    return [
        Amount(
            "ttft_s", _("Time to first token"), _("s"),
            _("Of streams, from the request's arrival, waiting included. For example 1. Empty = not promised."),
            low=0.001, high=services.TTFT_MOST_S, optional=True,
        ),
        Amount(
            "tpot_s", _("Time per output token"), _("ms"),
            _("Of streams, on average. For example 80. Empty = not promised."),
            low=0.1, high=services.TPOT_MOST_S * 1000, scale=0.001, optional=True,
        ),
    ]  # fmt: skip
