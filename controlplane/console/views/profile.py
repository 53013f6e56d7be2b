"""What a person sets for themselves, and help."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import update_session_auth_hash
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import check_for_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from controlplane.accounts import selectors
from controlplane.accounts.services import users
from controlplane.console.dialogs import Dialog, Field, Values, ask, leave
from controlplane.console.guard import ASKS, actor, is_fragment, page, person
from controlplane.domain.errors import RefusedError


@page()
def profile(request: HttpRequest) -> HttpResponse:
    """The person's own page: look, language, password, their tokens."""
    tokens = selectors.tokens(user=person(request).username)
    return render(request, "profile.html", {"tokens": tokens})


@page(methods=ASKS)
def password(request: HttpRequest) -> HttpResponse:
    """Changes one's own password and keeps this session."""
    user = person(request)

    def do(values: Values) -> HttpResponse:
        if values.get("new") != values.get("again"):
            text = _("The two are not the same.")
            raise RefusedError("invalid", text, fields={"again": text})
        changed = users.change_own_password(
            actor=actor(request), username=user.username, current=values.get("current", ""), new=values.get("new", "")
        )
        update_session_auth_hash(request, changed or selectors.user(user.username))
        return leave(request, reverse("profile"), _("The password was changed. Other sessions have ended."))

    fields = [
        Field("current", _("Current password"), "password", required=True, full=True),
        Field("new", _("New password"), "password", required=True, help=_("At least 10 characters.")),
        Field("again", _("New password again"), "password", required=True),
    ]
    return ask(
        request, lambda _values: Dialog(_("Change password"), _("Change"), fields=fields, back=reverse("profile")), do
    )


@require_POST
def language(request: HttpRequest) -> HttpResponse:
    """Sets this browser's language, also before logging in."""
    code = request.POST.get("language", "")
    target = request.POST.get("next", "/")
    if not url_has_allowed_host_and_scheme(target, allowed_hosts={request.get_host()}) or not urlsplit(target).path:
        target = "/"
    response = HttpResponseRedirect(target)
    if check_for_language(code) and code in dict(settings.LANGUAGES):
        response.set_cookie(
            settings.LANGUAGE_COOKIE_NAME,
            code,
            max_age=31_536_000,
            samesite="Lax",
            secure=settings.SESSION_COOKIE_SECURE,
        )
    return response


@page()
def help_page(request: HttpRequest) -> HttpResponse:
    """Keys, states and where to read on."""
    return render(request, "parts/help.html" if is_fragment(request) else "help_page.html")
