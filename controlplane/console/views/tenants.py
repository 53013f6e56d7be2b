"""Tenants and what they used."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.accounts import roles, selectors
from controlplane.accounts.models import Tenant
from controlplane.accounts.services import tenants as services
from controlplane.console import rest, usage
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.access import show


@page()
def tenants(request: HttpRequest) -> HttpResponse:
    """All tenants with what they used in the last day."""
    params = params_of(request, ())
    columns = [
        Column(_("Tenant"), "name"),
        Column(_("Description")),
        Column(_("Usable keys"), "keys_usable", "num"),
        Column(_("Requests, 24 h"), "", "num"),
        Column(_("Tokens, 24 h"), "", "num"),
        Column(_("Newest key"), "newest_key_at", "num at-xl"),
        Column(_("Made"), "created_at", "num at-l"),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(selectors.tenants(search=params.get("q")), params, columns)
    used = usage.of_tenants((row.name for row in table.page), timezone.now())
    return show(request, "tenants", table, used=used)


@page(roles.ADMINISTRATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Makes a tenant."""

    def do(values: Values) -> HttpResponse:
        services.apply(
            actor=actor(request),
            name=values.get("name", "").strip(),
            description=values.get("description", "").strip(),
            expected_version=0,
        )
        return leave(request, reverse("tenants"), _("The tenant was made. Give it a key next."))

    return ask(request, lambda values: _dialog(values, None), do)


@page(roles.ADMINISTRATOR, ASKS)
def edit(request: HttpRequest, name: str) -> HttpResponse:
    """Changes a tenant's description."""
    row = selectors.tenant(name)

    def do(values: Values) -> HttpResponse:
        description = values.get("description", "").strip()
        services.apply(actor=actor(request), name=name, description=description, expected_version=seen(values))
        return leave(request, reverse("tenants"), _("Saved."))

    return ask(request, lambda values: _dialog(values, row), do)


@page(roles.ADMINISTRATOR, ASKS)
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Removes a tenant without usable keys."""
    row = selectors.tenant(name)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), name=name, expected_version=seen(values))
        return leave(request, reverse("tenants"), _("The tenant was removed."))

    dialog = Dialog(
        _("Remove tenant %(name)s") % {"name": name},
        _("Remove"),
        [_("Its revoked keys go with it. Its usage stays.")],
        rest=rest.call("DELETE", f"tenants/{name}/", version=row.version),
        danger=True,
        back=reverse("tenants"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)


def _dialog(values: Values, row: Tenant | None) -> Dialog:
    description = values.get("description", row.description if row else "")
    fields = [Field("description", _("Description"), value=description, full=True)]
    if row is None:
        help_text = _("Lower-case letters, digits and hyphens.")
        fields.insert(0, Field("name", _("Name"), value=values.get("name", ""), required=True, help=help_text))
    name = row.name if row else values.get("name") or "NAME"
    version = row.version if row else 0
    return Dialog(
        _("Edit %(name)s") % {"name": name} if row else _("New tenant"),
        _("Save") if row else _("Make tenant"),
        fields=fields,
        rest=rest.call("PUT", f"tenants/{name}/", {"description": description}, version=version),
        back=reverse("tenants"),
        version=version if row else None,
    )
