"""People."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from controlplane.accounts import roles, selectors
from controlplane.accounts.models import Role, User
from controlplane.accounts.services import users as services
from controlplane.console import rest, words
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave, seen
from controlplane.console.guard import ASKS, actor, page
from controlplane.console.lists import Column, listing, params_of
from controlplane.console.views.access import role_choices, show


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
    return show(request, "users", table)


@page(roles.ADMINISTRATOR, ASKS)
def new(request: HttpRequest) -> HttpResponse:
    """Makes a user."""

    def do(values: Values) -> HttpResponse:
        services.create(
            actor=actor(request),
            username=values.get("username", "").strip(),
            password=values.get("password", ""),
            role=values.get("role", ""),
            email=values.get("email", "").strip(),
        )
        return leave(request, reverse("users"), _("The user was made."))

    return ask(request, _new_dialog, do)


def _new_dialog(values: Values) -> Dialog:
    role, email = values.get("role", Role.VIEWER.value), values.get("email", "")
    fields = [
        Field("username", _("Username"), value=values.get("username", ""), required=True),
        Field("role", _("Role"), "select", role, choices=role_choices(), required=True),
        Field("email", _("E-mail"), value=email),
        Field(
            "password",
            _("First password"),
            "password",
            required=True,
            help=_("At least 10 characters; they change it in their profile."),
        ),
    ]
    body = {"role": role, "email": email, "is_active": True, "password": "…"}
    call = rest.call("PUT", f"users/{values.get('username') or 'NAME'}/", body, version=0)
    says = [_("Viewers read. Operators also change deployments, nodes and models. Administrators also manage access.")]
    return Dialog(_("New user"), _("Make user"), says, fields, call, back=reverse("users"))


@page(roles.ADMINISTRATOR, ASKS)
def edit(request: HttpRequest, username: str) -> HttpResponse:
    """Changes role, e-mail, password or whether a user may log in."""
    row = selectors.user(username)

    def do(values: Values) -> HttpResponse:
        wish = services.UserWish(
            role=values.get("role", row.role),
            email=values.get("email", "").strip(),
            is_active=values.get("is_active") == "on",
            password=values.get("password") or None,
        )
        services.apply(actor=actor(request), username=username, wish=wish, expected_version=seen(values))
        return leave(request, reverse("users"), _("Saved."))

    def build(values: Values) -> Dialog:
        active = values.get("is_active", "") if request.method == "POST" else "on" if row.is_active else ""
        return _edit_dialog(values, row, active)

    return ask(request, build, do)


def _edit_dialog(values: Values, row: User, active: str) -> Dialog:
    role, email = values.get("role", row.role), values.get("email", row.email)
    fields = [
        Field("role", _("Role"), "select", role, choices=role_choices(), required=True),
        Field("email", _("E-mail"), value=email),
        Field(
            "password",
            _("New password"),
            "password",
            help=_("Empty keeps the present one. A new one ends all sessions."),
        ),
        Field("is_active", _("May log in"), "check", active),
    ]
    body: dict[str, object] = {"role": role, "email": email, "is_active": active == "on"}
    if values.get("password"):
        body["password"] = "…"  # noqa: S105
    title = _("Edit %(name)s") % {"name": row.username}
    call = rest.call("PUT", f"users/{row.username}/", body, version=row.version)
    return Dialog(title, _("Save"), (), fields, call, version=row.version, back=reverse("users"))


@page(roles.ADMINISTRATOR, ASKS)
def delete(request: HttpRequest, username: str) -> HttpResponse:
    """Removes a user with their tokens."""
    row = selectors.user(username)

    def do(values: Values) -> HttpResponse:
        services.delete(actor=actor(request), username=username, expected_version=seen(values))
        return leave(request, reverse("users"), _("The user was removed."))

    number = selectors.tokens(user=username, usable_at=timezone.now()).count()
    dialog = Dialog(
        _("Remove user %(name)s") % {"name": username},
        _("Remove"),
        [
            ngettext(
                "Ends all sessions and %(n)d token. What they did stays in the journal.",
                "Ends all sessions and %(n)d tokens. What they did stays in the journal.",
                number,
            )
            % {"n": number}
        ],
        rest=rest.call("DELETE", f"users/{username}/", version=row.version),
        danger=True,
        back=reverse("users"),
        version=row.version,
    )
    return ask(request, lambda _values: dialog, do)
