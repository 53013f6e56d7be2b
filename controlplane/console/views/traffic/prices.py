"""Prices: what a million tokens of a deployment cost; quotas of money count by them."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.console import amounts, rest, rule_undo
from controlplane.console.amounts import Amount
from controlplane.console.dialogs import Dialog, Values, ask, pick, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.traffic.common import chosen, deployment_names, done, show
from controlplane.domain.quotas.quota import Price as PriceWish
from controlplane.traffic import rule_selectors
from controlplane.traffic.models import Price
from controlplane.traffic.services import ladders as services

_FIELDS = ("prompt_per_million", "completion_per_million")


@page()
def prices(request: HttpRequest) -> HttpResponse:
    """All prices."""
    params = params_of(request, ())
    rows = rule_selectors.prices()
    if "q" in params:
        rows = rows.filter(deployment__name__icontains=params["q"])
    columns = [
        Column(_("Deployment"), "deployment__name"),
        Column(_("Million prompt tokens"), "prompt_per_million", "num"),
        Column(_("Million output tokens"), "completion_per_million", "num"),
        Column(_("Actions"), "", "quiet"),
    ]
    return show(request, "prices", listing(rows, params, columns), "price")


@page(roles.ADMINISTRATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Gives a deployment a price."""

    def do(values: Values) -> HttpResponse:
        return _apply(request, chosen(values, "deployment"), values, None, 0)

    return ask(request, lambda values: _dialog(values, None), do)


@page(roles.ADMINISTRATOR, ASKS)
def edit(request: HttpRequest, deployment: str) -> HttpResponse:
    """Changes a price."""
    row = rule_selectors.price(deployment)
    return ask(
        request,
        lambda values: _dialog(values, row),
        lambda values: _apply(request, deployment, values, row, seen(values)),
    )


@page(roles.ADMINISTRATOR, ASKS)
def delete(request: HttpRequest, deployment: str) -> HttpResponse:
    """Removes a price."""
    row = rule_selectors.price(deployment)

    def do(values: Values) -> HttpResponse:
        services.delete_price(actor=actor(request), deployment=deployment, expected_version=seen(values))
        back = rule_undo.gone("price", deployment, _stored(row), deployment=deployment)
        return done(request, reverse("prices"), _("The price was removed."), back)

    dialog = Dialog(
        _("Remove the price of %(name)s") % {"name": deployment},
        _("Remove"),
        [_("Its tokens then cost nothing, and quotas of money do not count them.")],
        rest=rest.call("DELETE", f"deployments/{deployment}/price/", version=row.version),
        danger=True,
        back=reverse("prices"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _dialog(values: Values, row: Price | None) -> Dialog:
    deployment = row.deployment.name if row else values.get("deployment", "")
    stored = _stored(row) if row else {}
    fields = amounts.fields(_amounts(), values, stored)
    if row is None:
        fields.insert(0, pick("deployment", _("Deployment"), deployment, deployment_names()))
    version = row.version if row else 0
    body = amounts.told(_amounts(), values, stored)
    return Dialog(
        _("Price of %(name)s") % {"name": deployment} if row else _("New price"),
        _("Save") if row else _("Set price"),
        [_("Quotas of money count by it from now on; what was used before stays as it was counted.")],
        fields,
        rest.call("PUT", f"deployments/{deployment or 'NAME'}/price/", body, version=version),
        back=reverse("prices"),
        version=version if row else None,
    )


def _apply(
    request: HttpRequest, deployment: str, values: Values, row: Price | None, expected: int | None
) -> HttpResponse:
    wish = PriceWish(**amounts.read(_amounts(), values))
    applied = services.apply_price(actor=actor(request), deployment=deployment, wish=wish, expected_version=expected)
    before = _stored(row) if row else None
    back = rule_undo.back("price", deployment, applied, before, deployment=deployment)
    return done(request, reverse("prices"), _("Saved. Gateways follow within seconds."), back)


def _stored(row: Price) -> dict[str, float]:
    return {name: getattr(row, name) for name in _FIELDS}


def _amounts() -> list[Amount]:
    help_text = _("In the currency of this installation, for a million tokens. For example 0.60.")
    return [
        Amount("prompt_per_million", _("Prompt tokens"), _("a million"), help_text),
        Amount("completion_per_million", _("Output tokens"), _("a million"), help_text),
    ]
