"""Quotas: how much the requests of a tenant, a key, or to a deployment may use in a time."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from controlplane.accounts import roles
from controlplane.accounts import selectors as accounts
from controlplane.accounts.models import ApiKey
from controlplane.console import amounts, rest, rule_undo, traffic_words
from controlplane.console.amounts import Amount
from controlplane.console.dialogs import Dialog, Field, Values, ask, pick, plain, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.traffic.common import chosen, deployment_names, done, show
from controlplane.domain.errors import RefusedError
from controlplane.domain.quotas.measures import MEASURES, MICRO, MONEY
from controlplane.traffic import limits_now, rule_selectors
from controlplane.traffic.models import Quota
from controlplane.traffic.services import quotas as services
from controlplane.traffic.services.quotas import LARGEST, QuotaWish

_MOST_KEYS = 200


@page()
def quotas(request: HttpRequest) -> HttpResponse:
    """All quotas."""
    params = params_of(request, ("tenant", "deployment"))
    rows = rule_selectors.quotas(tenant=params.get("tenant"), deployment=params.get("deployment"))
    if "q" in params:
        rows = rows.filter(name__icontains=params["q"])
    columns = [
        Column(_("Quota"), "name"),
        Column(_("Tenant"), "tenant__name"),
        Column(_("Key")),
        Column(_("Deployment"), "deployment__name"),
        Column(_("Used of each limit")),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(rows, params, columns)
    ids = {row.key_id for row in table.page if row.key_id}
    keys = dict(ApiKey.objects.filter(pk__in=ids).values_list("pk", "name"))
    return show(request, "quotas", table, "quota", keys=keys, used=limits_now.of(list(table.page)), polls=5)


@page(roles.ADMINISTRATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Makes a quota."""

    def do(values: Values) -> HttpResponse:
        return _apply(request, (chosen(values, "tenant"), values.get("name", "").strip()), values, None, 0)

    return ask(request, lambda values: _dialog(values, None), do)


@page(roles.ADMINISTRATOR, ASKS)
def edit(request: HttpRequest, tenant: str, quota: str) -> HttpResponse:
    """Changes a quota; what was used stays used."""
    row = rule_selectors.quota(tenant, quota)
    return ask(
        request,
        lambda values: _dialog(values, row),
        lambda values: _apply(request, (tenant, quota), values, row, seen(values)),
    )


@page(roles.ADMINISTRATOR, ASKS)
def delete(request: HttpRequest, tenant: str, quota: str) -> HttpResponse:
    """Removes a quota."""
    row = rule_selectors.quota(tenant, quota)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), tenant=tenant, name=quota, expected_version=seen(values))
        back = rule_undo.gone("quota", f"{tenant}/{quota}", _wish(row), tenant=tenant, name=quota)
        return done(request, reverse("quotas"), _("The quota was removed."), back)

    dialog = Dialog(
        _("Remove quota %(name)s") % {"name": f"{tenant}/{quota}"},
        _("Remove"),
        [_("Nothing that it counts is limited by it any more. What it has counted is forgotten.")],
        rest=rest.call("DELETE", f"tenants/{tenant}/quotas/{quota}/", version=row.version),
        danger=True,
        back=reverse("quotas"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _dialog(values: Values, row: Quota | None) -> Dialog:
    tenant = row.tenant.name if row else values.get("tenant", "")
    name = row.name if row else values.get("name", "").strip()
    deployment = values.get("deployment", row.deployment.name if row and row.deployment else "")
    key = values.get("key_id", str(row.key_id or "") if row else "")
    limits = row.limits if row else {}
    fields = [
        _key_field(tenant, key, row),
        pick("deployment", _("Deployment"), deployment, deployment_names(), every=_("all together")),
        *amounts.fields(_amounts(), values, limits),
    ]
    if row is None:
        help_text = _("Lower-case letters, digits and hyphens; refusals name it. For example daily.")
        names = accounts.tenants().values_list("name", flat=True)
        made = Field("name", _("Name"), value=name, required=True, help=help_text)
        fields = [made, pick("tenant", _("Tenant"), tenant, names), *fields]
    body = {"key_id": plain(key), "deployment": deployment or None, **_as_rest(values, limits)}
    version = row.version if row else 0
    return Dialog(
        _("Edit quota %(name)s") % {"name": f"{tenant}/{name}"} if row else _("New quota"),
        _("Save") if row else _("Make quota"),
        [_("An empty limit does not limit. Days and months are those of UTC.")],
        fields,
        rest.call("PUT", f"tenants/{tenant or 'TENANT'}/quotas/{name or 'NAME'}/", body, version=version),
        back=reverse("quotas"),
        version=version if row else None,
    )


def _key_field(tenant: str, key: str, row: Quota | None) -> Field:
    """A menu of the tenant's keys; while the tenant is not chosen yet, of all keys with their tenant."""
    known = ApiKey.objects.filter(revoked_at=None).select_related("tenant").order_by("tenant__name", "name")
    found = list((known.filter(tenant__name=tenant) if tenant and row else known)[: _MOST_KEYS + 1])
    if len(found) > _MOST_KEYS:
        help_text = _("The number of the key, as in its address; empty = all keys together.")
        return Field("key_id", _("Key"), "text", key, help_text)
    choices = [(str(one.pk), one.name if row else f"{one.tenant.name}/{one.name}") for one in found]
    if key and key not in dict(choices):
        choices.append((key, key))
    return Field("key_id", _("Key"), "select", key, choices=(("", _("all together")), *choices))


def _apply(
    request: HttpRequest, address: tuple[str, str], values: Values, row: Quota | None, expected: int | None
) -> HttpResponse:
    tenant, name = address
    limits = {measure: value for measure, value in amounts.read(_amounts(), values).items() if value is not None}
    if not limits:
        sentence = _("Give at least one limit.")
        raise RefusedError("invalid", sentence, fields={"requests_per_minute": sentence})
    key = plain(values.get("key_id", ""))
    if isinstance(key, str):
        sentence = _("Give the number of a key.")
        raise RefusedError("invalid", sentence, fields={"key_id": sentence})
    wish = QuotaWish(limits, key, values.get("deployment", "").strip())
    before = _wish(row) if row else None
    applied = services.apply(actor=actor(request), tenant=tenant, name=name, wish=wish, expected_version=expected)
    back = rule_undo.back("quota", f"{tenant}/{name}", applied, before, tenant=tenant, name=name)
    return done(request, reverse("quotas"), _("Saved. Gateways follow within seconds."), back)


def _wish(row: Quota) -> dict[str, Any]:
    deployment = row.deployment.name if row.deployment else ""
    return {"limits": dict(row.limits), "key_id": row.key_id, "deployment": deployment}


def _as_rest(values: Values, limits: dict[str, int]) -> dict[str, Any]:
    """Money in the currency, as REST takes it."""
    told = amounts.told(_amounts(), values, limits)
    return {
        name: value / MICRO if MEASURES[name].unit == MONEY and isinstance(value, int) else value
        for name, value in told.items()
    }


def _amounts() -> list[Amount]:
    helps = {
        "requests_per_minute": _("For example 600; a burst of that many, then 10 a second."),
        "tokens_per_minute": _("Prompt and output together, as the engine counts them. For example 100000."),
        "concurrent_requests": _("Running at the same time, waiting ones included. For example 8."),
        "tokens_per_day": _("For example 5000000."),
        "tokens_per_month": _("For example 100000000."),
        "money_per_day": _("By the prices of the deployments. For example 25.50."),
        "money_per_month": _("By the prices of the deployments. For example 500."),
    }
    return [
        Amount(
            name,
            traffic_words.measure(name),
            "",
            helps.get(name, ""),
            0,
            LARGEST // MICRO if measure.unit == MONEY else LARGEST,
            MICRO if measure.unit == MONEY else 1,
            whole=True,
            optional=True,
        )
        for name, measure in MEASURES.items()
    ]
