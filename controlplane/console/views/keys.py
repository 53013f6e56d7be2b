"""API keys of the gateway and what they used."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles, selectors
from controlplane.accounts.services import keys as services
from controlplane.console import rest, usage
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, pick
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.access import expiry, expiry_text, show, show_secret, validity
from controlplane.console.views.traffic.key_tiers import tier_field
from controlplane.deployments.models import Deployment
from controlplane.traffic import owners
from controlplane.traffic.services import new_keys

_TENANT_CHIPS = 12


@page()
def keys(request: HttpRequest) -> HttpResponse:
    """All API keys with what they used in the last day."""
    params = params_of(request, ("tenant", "use"))
    now = timezone.now()
    rows = selectors.keys(tenant=params.get("tenant"), usable_at=now if params.get("use") == "usable" else None)
    if "q" in params:
        rows = rows.filter(name__icontains=params["q"])
    columns = [
        Column(_("Key"), "name"),
        Column(_("State")),
        Column(_("Begins with"), "", "at-l"),
        Column(_("Tenant"), "tenant__name"),
        Column(_("Tier")),
        Column(_("Deployments"), "", "at-l"),
        Column(_("Requests, 24 h"), "", "num"),
        Column(_("Tokens, 24 h"), "", "num"),
        Column(_("Expires"), "expires_at", "num at-l"),
        Column(_("Made"), "created_at", "num at-xl"),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(rows, params, columns)
    table.add_chips(_("Use"), "use", [("", _("All"), None), ("usable", _("Usable"), None)])
    names = [row.name for row in selectors.tenants()[:_TENANT_CHIPS]]
    if len(names) > 1:
        table.add_chips(_("Tenant"), "tenant", [("", _("All tenants"), None), *((name, name, None) for name in names)])
    used = usage.of_keys((row.pk for row in table.page), now)
    return show(request, "keys", table, now=now, used=used)


@page(roles.ADMINISTRATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Makes a key and shows its secret once."""

    def do(values: Values) -> HttpResponse:
        only = values.get("deployment", "")
        key, secret = new_keys.create(
            actor=actor(request),
            tenant=values.get("tenant", ""),
            name=values.get("name", "").strip(),
            tier=values.get("tier", owners.STANDARD),
            deployments=[only] if only else None,
            expires_at=expiry(values),
        )
        return show_secret(request, _("Key %(name)s") % {"name": key.name}, secret, reverse("keys"))

    return ask(request, _new_dialog, do)


def _new_dialog(values: Values) -> Dialog:
    deployments = Deployment.objects.filter(deleted_at=None).order_by("name").values_list("name", flat=True)
    tenant, only = values.get("tenant", ""), values.get("deployment", "")
    tier = values.get("tier", owners.STANDARD)
    fields = [
        Field("name", _("Name"), value=values.get("name", ""), required=True, help=_("Where it is used.")),
        pick("tenant", _("Tenant"), tenant, selectors.tenants().values_list("name", flat=True)),
        pick("deployment", _("Deployment"), only, deployments, every=_("Every deployment")),
        tier_field(tier),
        validity(values),
    ]
    if not tenant and fields[1].choices:
        tenant = fields[1].choices[0][0]
    body = {
        "name": values.get("name") or "NAME",
        "tier": tier,
        "deployments": [only] if only else None,
        "expires_at": expiry_text(values),
    }
    call = rest.call("POST", f"tenants/{tenant or 'TENANT'}/keys/", body)
    return Dialog(_("New API key"), _("Make key"), fields=fields, rest=call, back=reverse("keys"))


@page(roles.ADMINISTRATOR, ASKS)
def revoke(request: HttpRequest, tenant: str, key_id: int) -> HttpResponse:
    """Ends a key for ever."""
    row = selectors.key(tenant, key_id)
    used = usage.of_keys([key_id], timezone.now()).get(key_id)

    def do(_values: Values) -> HttpResponse:
        services.revoke(actor=actor(request), tenant=tenant, key_id=key_id)
        return leave(request, reverse("keys"), _("The key was revoked."))

    requests = used.requests if used else 0
    dialog = Dialog(
        _("Revoke key %(name)s") % {"name": row.name},
        _("Revoke"),
        [
            ngettext(
                "%(n)s request came with it in the last 24 hours.",
                "%(n)s requests came with it in the last 24 hours.",
                requests,
            )
            % {"n": f"{requests:,}"},
            _("Gateways refuse it within seconds. It can't be made usable again."),
        ],
        rest=rest.call("DELETE", f"tenants/{tenant}/keys/{key_id}/"),
        danger=True,
        back=reverse("keys"),
    )
    return ask(request, lambda _values: dialog, do)
