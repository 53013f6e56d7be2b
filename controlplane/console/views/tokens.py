"""Bearer tokens of REST."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.accounts import roles, selectors
from controlplane.accounts.services import tokens as services
from controlplane.console import rest
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, pick
from controlplane.console.guard import ASKS, actor, page, person
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.access import expiry, expiry_text, role_choices, show, show_secret, validity


@page(roles.ADMINISTRATOR)
def tokens(request: HttpRequest) -> HttpResponse:
    """All REST tokens."""
    params = params_of(request, ("use",))
    now = timezone.now()
    rows = selectors.tokens(usable_at=now if params.get("use") == "usable" else None)
    if "q" in params:
        rows = rows.filter(name__icontains=params["q"])
    columns = [
        Column(_("Token"), "name"),
        Column(_("State")),
        Column(_("Begins with")),
        Column(_("Acts as"), "user__username"),
        Column(_("Role"), "role"),
        Column(_("Last used"), "last_used_at", "num"),
        Column(_("Expires"), "expires_at", "num at-l"),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(rows, params, columns)
    table.add_chips(_("Use"), "use", [("", _("All"), None), ("usable", _("Usable"), None)])
    return show(request, "tokens", table, now=now)


@page(roles.ADMINISTRATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Makes a REST token and shows it once."""

    def do(values: Values) -> HttpResponse:
        token, secret = services.create(
            actor=actor(request),
            username=values.get("user", ""),
            name=values.get("name", "").strip(),
            role=values.get("role") or None,
            expires_at=expiry(values),
        )
        return show_secret(request, _("Token %(name)s") % {"name": token.name}, secret, reverse("tokens"))

    return ask(request, lambda values: _new_dialog(values, person(request).username), do)


def _new_dialog(values: Values, myself: str) -> Dialog:
    people = selectors.users(is_active=True).values_list("username", flat=True)
    user, role = values.get("user", myself), values.get("role", "")
    fields = [
        Field("name", _("Name"), value=values.get("name", ""), required=True, help=_("Where it is used.")),
        pick("user", _("Acts as"), user, people),
        Field("role", _("At most"), "select", role, choices=(("", _("The user's role")), *role_choices())),
        validity(values),
    ]
    body = {
        "user": user,
        "name": values.get("name") or "NAME",
        "role": role or None,
        "expires_at": expiry_text(values),
    }
    call = rest.call("POST", "tokens/", body)
    return Dialog(_("New REST token"), _("Make token"), (), fields, call, back=reverse("tokens"))


@page(roles.ADMINISTRATOR, ASKS)
def revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Ends a token for ever."""
    row = selectors.token(token_id)

    def do(_values: Values) -> HttpResponse:
        services.revoke(actor=actor(request), token_id=token_id)
        return leave(request, reverse("tokens"), _("The token was revoked."))

    dialog = Dialog(
        _("Revoke token %(name)s") % {"name": row.name},
        _("Revoke"),
        [_("It is refused at once. It can't be made usable again.")],
        rest=rest.call("DELETE", f"tokens/{token_id}/"),
        danger=True,
        back=reverse("tokens"),
    )
    return ask(request, lambda _values: dialog, do)
