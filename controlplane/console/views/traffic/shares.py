"""Shares: what part of a deployment's seats and KV tokens a tenant is guaranteed, and has at most."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.accounts import selectors as accounts
from controlplane.console import amounts, rest, rule_undo, units
from controlplane.console.amounts import PERCENT, Amount
from controlplane.console.dialogs import Dialog, Field, Values, ask, pick, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.traffic.common import chosen, deployment_names, done, now, show
from controlplane.deployments.models import Deployment
from controlplane.domain.admission import guarantees
from controlplane.traffic import rule_selectors
from controlplane.traffic.models import Share
from controlplane.traffic.services import shares as services
from controlplane.traffic.services.shares import ShareWish

_FIELDS = ("weight", "guaranteed", "most")
_NOTHING = {"weight": 1.0, "guaranteed": 0.0, "most": 1.0}


@page()
def shares(request: HttpRequest) -> HttpResponse:
    """All shares, with what is sold of each deployment."""
    params = params_of(request, ("tenant", "deployment"))
    rows = rule_selectors.shares(tenant=params.get("tenant"), deployment=params.get("deployment"))
    if "q" in params:
        rows = rows.filter(tenant__name__icontains=params["q"])
    columns = [
        Column(_("Tenant"), "tenant__name"),
        Column(_("Deployment"), "deployment__name"),
        Column(_("Weight"), "weight", "num"),
        Column(_("Guaranteed"), "guaranteed", "num", "%"),
        Column(_("Guaranteed now"), "", "num at-l", _("seats")),
        Column(_("Upper limit"), "most", "num", "%"),
        Column(_("Sold in all"), "", "num", "%"),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(rows, params, columns)
    return show(request, "shares", table, "share", seats={name: state.seats for name, state in now().items()})


@page(roles.ADMINISTRATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Gives a tenant a share of a deployment."""

    def do(values: Values) -> HttpResponse:
        return _apply(request, (chosen(values, "tenant"), chosen(values, "deployment")), values, None, 0)

    return ask(request, lambda values: _dialog(values, None), do)


@page(roles.ADMINISTRATOR, ASKS)
def edit(request: HttpRequest, tenant: str, deployment: str) -> HttpResponse:
    """Changes a share."""
    row = rule_selectors.share(tenant, deployment)
    return ask(
        request,
        lambda values: _dialog(values, row),
        lambda values: _apply(request, (tenant, deployment), values, row, seen(values)),
    )


@page(roles.ADMINISTRATOR, ASKS)
def delete(request: HttpRequest, tenant: str, deployment: str) -> HttpResponse:
    """Removes a share."""
    row = rule_selectors.share(tenant, deployment)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), tenant=tenant, deployment=deployment, expected_version=seen(values))
        back = rule_undo.gone("share", f"{tenant}/{deployment}", _stored(row), tenant=tenant, deployment=deployment)
        return done(request, reverse("shares"), _("The share was removed."), back)

    dialog = Dialog(
        _("Remove the share of %(tenant)s in %(name)s") % {"tenant": tenant, "name": deployment},
        _("Remove"),
        [_("The tenant is then treated as everybody: nothing is guaranteed, nothing is its most.")],
        rest=rest.call("DELETE", f"tenants/{tenant}/shares/{deployment}/", version=row.version),
        danger=True,
        back=reverse("shares"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _dialog(values: Values, row: Share | None) -> Dialog:
    tenant = row.tenant.name if row else values.get("tenant", "")
    deployment = row.deployment.name if row else values.get("deployment", "")
    stored = _stored(row) if row else _NOTHING
    told = amounts.told(_amounts(), values, stored)
    sold = _sold(tenant, deployment)
    seats = _seats(deployment)
    over = (
        sold is not None
        and isinstance(told["guaranteed"], float)
        and guarantees.oversold(told["guaranteed"], before=stored["guaranteed"], others=sold, seats=seats)
    )
    fields = amounts.fields(_amounts(), values, stored)
    if row is None:
        tenants = accounts.tenants().values_list("name", flat=True)
        picks = (
            pick("tenant", _("Tenant"), tenant, tenants),
            pick("deployment", _("Deployment"), deployment, deployment_names()),
        )
        fields = [*picks, *fields]
    override = values.get("override") == "on"
    if over or override:
        label = _("Guarantee more than there is: when all ask at once, not all get what they were promised")
        fields.append(Field("override", label, "check", "on" if override else "", full=True))
    path = f"tenants/{tenant or 'TENANT'}/shares/{deployment or 'NAME'}/"
    version = row.version if row else 0
    return Dialog(
        _("Share of %(tenant)s in %(name)s") % {"tenant": tenant, "name": deployment} if row else _("New share"),
        _("Save") if row else _("Give share"),
        _says(deployment, sold, told["guaranteed"], seats),
        fields,
        rest.call("PUT", path, {**told, "override": override}, version=version),
        back=reverse("shares"),
        version=version if row else None,
    )


def _says(deployment: str, sold: float | None, guaranteed: Any, all_seats: int | None) -> list[str]:
    says = [_("What is guaranteed and idle is lent to others, and called back within the length of one request.")]
    if sold is None:
        return says
    left = max(0.0, 1.0 - sold)
    numbers = {"sold": units.percent(sold), "left": units.percent(left), "name": deployment}
    says.append(_("Others are guaranteed %(sold)s %% of %(name)s, so %(left)s %% is left.") % numbers)
    if all_seats and isinstance(guaranteed, float):
        seats = {"n": units.quantity(guaranteed * all_seats), "all": all_seats}
        says.append(_("Now that would be %(n)s of %(all)d seats.") % seats)
    return says


def _seats(deployment: str) -> int | None:
    state = now().get(deployment)
    return None if state is None else state.seats


def _sold(tenant: str, deployment: str) -> float | None:
    """What others are guaranteed; None where no deployment is chosen yet."""
    found = Deployment.objects.filter(name=deployment, deleted_at=None).first() if deployment else None
    return None if found is None else rule_selectors.guaranteed_sum(found, without=tenant)


def _apply(
    request: HttpRequest, names: tuple[str, str], values: Values, row: Share | None, expected: int | None
) -> HttpResponse:
    wish = ShareWish(**amounts.read(_amounts(), values))
    address = dict(zip(("tenant", "deployment"), names, strict=True))
    override = values.get("override") == "on"
    applied = services.apply(actor=actor(request), **address, wish=wish, override=override, expected_version=expected)
    back = rule_undo.back("share", "/".join(names), applied, _stored(row) if row else None, **address)
    return done(request, reverse("shares"), _("Saved. Gateways follow within seconds."), back)


def _stored(row: Share) -> dict[str, float]:
    return {name: getattr(row, name) for name in _FIELDS}


def _amounts() -> list[Amount]:
    weight = _("Tenants that wait share by this, counted in tokens: 2 gets twice what 1 gets.")
    guaranteed = _("Of the seats and KV tokens of the deployment. For example 25.")
    most = _("Not more than this, even when all else is idle. 100 = no limit.")
    return [
        Amount("weight", _("Weight"), "", weight, 0, 1000, above=True),
        Amount("guaranteed", _("Guaranteed"), "%", guaranteed, 0, 100, PERCENT),
        Amount("most", _("Upper limit"), "%", most, 0, 100, PERCENT, above=True),
    ]
