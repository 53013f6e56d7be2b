"""Who may see a page or do something there, and how a refusal is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, cast

from django.contrib.auth.views import redirect_to_login
from django.core.validators import ProhibitNullCharactersValidator
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import render

from controlplane.accounts import roles
from controlplane.accounts.models import User
from controlplane.domain.errors import RefusedError
from controlplane.journal.services.record import Actor

STATUS = {"invalid": 422, "not_found": 404, "conflict": 409, "forbidden": 403, "unavailable": 503}

View = Callable[..., HttpResponseBase]


READS = ("GET", "HEAD")
ASKS = ("GET", "HEAD", "POST")  # a dialog or form: shown, then done
ACTS = ("POST",)


def page(role: str = roles.VIEWER, methods: Sequence[str] = READS) -> Callable[[View], View]:
    """Wraps a view: only people who are logged in and have the role; a RefusedError becomes a page that explains.

    Who may not be here learns nothing of the methods that there are.
    """

    def wrap(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_login(request)
            try:
                roles.require(person(request), role)
                if request.method not in methods:
                    return HttpResponseNotAllowed(methods)
                _check_text(request)
                response = view(request, *args, **kwargs)
            except RefusedError as error:
                return refused(request, error)
            response.headers.setdefault("Cache-Control", "private, no-cache")
            return response

        return guarded

    return wrap


def _check_text(request: HttpRequest) -> None:
    """Refuses the one character that PostgreSQL can't hold, wherever it stands."""
    sent = [text for values in (request.GET, request.POST) for name, texts in values.lists() for text in (name, *texts)]
    if any("\0" in text for text in (request.path, *sent)):
        raise RefusedError("invalid", str(ProhibitNullCharactersValidator.message))


def person(request: HttpRequest) -> User:
    """Returns who is logged in."""
    return cast(User, request.user)


def actor(request: HttpRequest) -> Actor:
    """Returns under which name the journal knows who is logged in."""
    return roles.actor_of(person(request))


def is_fragment(request: HttpRequest) -> bool:
    """Returns whether htmx asks for a part of a page."""
    return request.headers.get("HX-Request") == "true"


def refused(request: HttpRequest, error: RefusedError) -> HttpResponse:
    """Returns the sentence, what to do and the code: as a page, or as the content of the open dialog."""
    template = "parts/refused.html" if is_fragment(request) else "refused.html"
    return render(request, template, {"error": error}, status=STATUS[error.kind])


def _to_login(request: HttpRequest) -> HttpResponseBase:
    if is_fragment(request):
        response = HttpResponse(status=200)
        response["HX-Refresh"] = "true"
        return response
    return redirect_to_login(request.get_full_path())
