"""Tenants, API keys, users and REST tokens."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from controlplane.accounts import roles, selectors
from controlplane.accounts.models import Role
from controlplane.accounts.services import keys as key_services
from controlplane.accounts.services import tenants as tenant_services
from controlplane.accounts.services import tokens as token_services
from controlplane.accounts.services import users as user_services
from controlplane.console import rest, words
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, whole
from controlplane.console.guard import actor, is_fragment, page, person
from controlplane.console.lists import Column, Listing, listing, params_of
from controlplane.deployments.models import Deployment

_VALID = ("", "30", "90", "365")


@page()
def tenants(request: HttpRequest) -> HttpResponse:
    """All tenants."""
    params = params_of(request, ())
    columns = [
        Column(_("Tenant"), "name"),
        Column(_("Description")),
        Column(_("Usable keys"), "keys_usable", "num"),
        Column(_("Newest key"), "newest_key_at", "num at-l"),
        Column(_("Made"), "created_at", "num"),
        Column(_("Actions"), "", "quiet"),
    ]
    return _page(request, "tenants", listing(selectors.tenants(search=params.get("q")), params, columns))


@page(roles.ADMINISTRATOR)
def new_tenant(request: HttpRequest) -> HttpResponse:
    """Makes a tenant."""

    def do(values: Values) -> HttpResponse:
        tenant_services.apply(
            actor=actor(request),
            name=values.get("name", "").strip(),
            description=values.get("description", "").strip(),
            expected_version=0,
        )
        return leave(request, reverse("tenants"), _("The tenant was made. Give it a key next."))

    def build(values: Values) -> Dialog:
        fields = [
            Field(
                "name",
                _("Name"),
                value=values.get("name", ""),
                required=True,
                help=_("Lower-case letters, digits and hyphens."),
            ),
            Field("description", _("Description"), value=values.get("description", ""), full=True),
        ]
        call = rest.call(
            "PUT", f"tenants/{values.get('name') or 'NAME'}/", {"description": values.get("description", "")}
        )
        return Dialog(_("New tenant"), _("Make tenant"), fields=fields, rest=call, back=reverse("tenants"))

    return ask(request, build, do)


@page(roles.ADMINISTRATOR)
def delete_tenant(request: HttpRequest, name: str) -> HttpResponse:
    """Removes a tenant without usable keys."""
    selectors.tenant(name)

    def do(_values: Values) -> HttpResponse:
        tenant_services.delete(actor=actor(request), name=name)
        return leave(request, reverse("tenants"), _("The tenant was removed."))

    dialog = Dialog(
        _("Remove tenant %(name)s") % {"name": name},
        _("Remove"),
        [_("Its revoked keys go with it. Its usage stays.")],
        rest=rest.call("DELETE", f"tenants/{name}/"),
        danger=True,
        back=reverse("tenants"),
    )
    return ask(request, lambda _values: dialog, do)


@page()
def keys(request: HttpRequest) -> HttpResponse:
    """All API keys of the gateway."""
    params = params_of(request, ("tenant", "use"))
    now = timezone.now()
    rows = selectors.keys(tenant=params.get("tenant"), usable_at=now if params.get("use") == "usable" else None)
    if "q" in params:
        rows = rows.filter(name__icontains=params["q"])
    columns = [
        Column(_("Key"), "name"),
        Column(_("State")),
        Column(_("Begins with")),
        Column(_("Tenant"), "tenant__name"),
        Column(_("Deployments"), "", "at-l"),
        Column(_("Expires"), "expires_at", "num at-l"),
        Column(_("Made"), "created_at", "num"),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(rows, params, columns)
    table.add_chips(_("Use"), "use", [("", _("All"), None), ("usable", _("Usable"), None)])
    names = [row.name for row in selectors.tenants()[:12]]
    if len(names) > 1:
        table.add_chips(_("Tenant"), "tenant", [("", _("All tenants"), None), *((name, name, None) for name in names)])
    return _page(request, "keys", table, now=now)


@page(roles.ADMINISTRATOR)
def new_key(request: HttpRequest) -> HttpResponse:
    """Makes a key and shows its secret once."""

    def do(values: Values) -> HttpResponse:
        only = values.get("deployment", "")
        key, secret = key_services.create(
            actor=actor(request),
            tenant=values.get("tenant", ""),
            name=values.get("name", "").strip(),
            deployments=[only] if only else None,
            expires_at=_expiry(values),
        )
        return _secret(request, _("Key %(name)s") % {"name": key.name}, secret, reverse("keys"))

    def build(values: Values) -> Dialog:
        tenant_names = tuple((row.name, row.name) for row in selectors.tenants())
        deployments = tuple((name, name) for name in Deployment.objects.values_list("name", flat=True))
        fields = [
            Field("name", _("Name"), value=values.get("name", ""), required=True, help=_("Where it is used.")),
            Field("tenant", _("Tenant"), "select", values.get("tenant", ""), choices=tenant_names, required=True),
            Field(
                "deployment",
                _("Deployment"),
                "select",
                values.get("deployment", ""),
                choices=(("", _("Every deployment")), *deployments),
            ),
            _validity(values),
        ]
        body = {"name": values.get("name") or "NAME"}
        call = rest.call("POST", f"tenants/{values.get('tenant') or 'TENANT'}/keys/", body)
        return Dialog(_("New API key"), _("Make key"), fields=fields, rest=call, back=reverse("keys"))

    return ask(request, build, do)


@page(roles.ADMINISTRATOR)
def revoke_key(request: HttpRequest, tenant: str, key_id: int) -> HttpResponse:
    """Ends a key for ever."""
    row = selectors.key(tenant, key_id)

    def do(_values: Values) -> HttpResponse:
        key_services.revoke(actor=actor(request), tenant=tenant, key_id=key_id)
        return leave(request, reverse("keys"), _("The key was revoked."))

    dialog = Dialog(
        _("Revoke key %(name)s") % {"name": row.name},
        _("Revoke"),
        [_("Gateways refuse it within seconds. It can't be made usable again.")],
        rest=rest.call("DELETE", f"tenants/{tenant}/keys/{key_id}/"),
        danger=True,
        back=reverse("keys"),
    )
    return ask(request, lambda _values: dialog, do)


@page(roles.ADMINISTRATOR)
def users(request: HttpRequest) -> HttpResponse:
    """All people."""
    params = params_of(request, ("role",))
    columns = [
        Column(_("User"), "username"),
        Column(_("Role"), "role"),
        Column(_("State"), "is_active"),
        Column(_("E-mail"), "email", "at-l"),
        Column(_("Last login"), "last_login", "num"),
        Column(_("Actions"), "", "quiet"),
    ]
    table = listing(selectors.users(role=params.get("role"), search=params.get("q")), params, columns)
    table.add_chips(_("Role"), "role", [("", _("All"), None), *((role, words.of(role), None) for role in Role.values)])
    return _page(request, "users", table)


@page(roles.ADMINISTRATOR)
def new_user(request: HttpRequest) -> HttpResponse:
    """Makes a user."""

    def do(values: Values) -> HttpResponse:
        user_services.create(
            actor=actor(request),
            username=values.get("username", "").strip(),
            password=values.get("password", ""),
            role=values.get("role", ""),
            email=values.get("email", "").strip(),
        )
        return leave(request, reverse("users"), _("The user was made."))

    def build(values: Values) -> Dialog:
        fields = [
            Field("username", _("Username"), value=values.get("username", ""), required=True),
            Field("role", _("Role"), "select", values.get("role", Role.VIEWER), choices=_roles(), required=True),
            Field("email", _("E-mail"), value=values.get("email", "")),
            Field(
                "password",
                _("First password"),
                "password",
                required=True,
                help=_("At least 10 characters; they change it in their profile."),
            ),
        ]
        body = {"role": values.get("role", "viewer"), "password": "…"}
        call = rest.call("PUT", f"users/{values.get('username') or 'NAME'}/", body)
        says = [
            _("Viewers read. Operators also change deployments, nodes and models. Administrators also manage access.")
        ]
        return Dialog(_("New user"), _("Make user"), says, fields, call, back=reverse("users"))

    return ask(request, build, do)


@page(roles.ADMINISTRATOR)
def edit_user(request: HttpRequest, username: str) -> HttpResponse:
    """Changes role, e-mail, password or whether a user may log in."""
    row = selectors.user(username)

    def do(values: Values) -> HttpResponse:
        wish = user_services.UserWish(
            role=values.get("role", row.role),
            email=values.get("email", "").strip(),
            is_active=values.get("is_active") == "on",
            password=values.get("password") or None,
        )
        user_services.apply(
            actor=actor(request), username=username, wish=wish, expected_version=whole(values, "version")
        )
        return leave(request, reverse("users"), _("Saved."))

    def build(values: Values) -> Dialog:
        active = values.get("is_active", "") if request.method == "POST" else "on" if row.is_active else ""
        fields = [
            Field("role", _("Role"), "select", values.get("role", row.role), choices=_roles(), required=True),
            Field("email", _("E-mail"), value=values.get("email", row.email)),
            Field(
                "password",
                _("New password"),
                "password",
                help=_("Empty keeps the present one. A new one ends all sessions."),
            ),
            Field("is_active", _("May log in"), "check", active),
        ]
        body = {"role": row.role, "email": row.email, "is_active": row.is_active}
        hidden = (("version", str(row.version)),)
        call = rest.call("PUT", f"users/{username}/", body)
        return Dialog(
            _("Edit %(name)s") % {"name": username}, _("Save"), (), fields, call, hidden=hidden, back=reverse("users")
        )

    return ask(request, build, do)


@page(roles.ADMINISTRATOR)
def delete_user(request: HttpRequest, username: str) -> HttpResponse:
    """Removes a user with their tokens."""
    selectors.user(username)

    def do(_values: Values) -> HttpResponse:
        user_services.delete(actor=actor(request), username=username)
        return leave(request, reverse("users"), _("The user was removed."))

    number = selectors.tokens(user=username, usable_at=timezone.now()).count()
    dialog = Dialog(
        _("Remove user %(name)s") % {"name": username},
        _("Remove"),
        [_("Ends all sessions and %(n)d tokens. What they did stays in the journal.") % {"n": number}],
        rest=rest.call("DELETE", f"users/{username}/"),
        danger=True,
        back=reverse("users"),
    )
    return ask(request, lambda _values: dialog, do)


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
    return _page(request, "tokens", table, now=now)


@page(roles.ADMINISTRATOR)
def new_token(request: HttpRequest) -> HttpResponse:
    """Makes a REST token and shows it once."""

    def do(values: Values) -> HttpResponse:
        token, secret = token_services.create(
            actor=actor(request),
            username=values.get("user", ""),
            name=values.get("name", "").strip(),
            role=values.get("role") or None,
            expires_at=_expiry(values),
        )
        return _secret(request, _("Token %(name)s") % {"name": token.name}, secret, reverse("tokens"))

    def build(values: Values) -> Dialog:
        people = tuple((row.username, row.username) for row in selectors.users(is_active=True))
        fields = [
            Field("name", _("Name"), value=values.get("name", ""), required=True, help=_("Where it is used.")),
            Field(
                "user",
                _("Acts as"),
                "select",
                values.get("user", person(request).username),
                choices=people,
                required=True,
            ),
            Field(
                "role", _("At most"), "select", values.get("role", ""), choices=(("", _("The user's role")), *_roles())
            ),
            _validity(values),
        ]
        body = {"user": values.get("user") or person(request).username, "name": values.get("name") or "NAME"}
        return Dialog(
            _("New REST token"), _("Make token"), (), fields, rest.call("POST", "tokens/", body), back=reverse("tokens")
        )

    return ask(request, build, do)


@page(roles.ADMINISTRATOR)
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Ends a token for ever."""
    row = selectors.token(token_id)

    def do(_values: Values) -> HttpResponse:
        token_services.revoke(actor=actor(request), token_id=token_id)
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


def _page(request: HttpRequest, tab: str, table: Listing, **more: Any) -> HttpResponse:
    template = f"access/{tab}_table.html" if is_fragment(request) else "access/page.html"
    return render(request, template, {"table": table, "tab": tab, "table_template": f"access/{tab}_table.html", **more})


def _secret(request: HttpRequest, title: str, secret: str, back: str) -> HttpResponse:
    template = "parts/secret.html" if is_fragment(request) else "secret_page.html"
    response = render(request, template, {"title": title, "secret": secret, "back": back})
    response["Cache-Control"] = "no-store"
    return response


def _roles() -> tuple[tuple[str, str], ...]:
    return tuple((role, words.of(role)) for role in Role.values)


def _validity(values: Values) -> Field:
    labels = {"": _("No end"), "30": _("30 days"), "90": _("90 days"), "365": _("1 year")}
    choices = tuple((days, labels[days]) for days in _VALID)
    return Field("valid_days", _("Valid for"), "select", values.get("valid_days", ""), choices=choices)


def _expiry(values: Values) -> Any:
    days = values.get("valid_days", "")
    return timezone.now() + timedelta(days=int(days)) if days in _VALID and days else None
