"""An address of REST without its last slash is the same address: no redirect, which would lose a PUT's body."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve
from django.views.decorators.csrf import csrf_exempt

from controlplane.api import errors


@csrf_exempt  # the view behind it checks for itself
def without_slash(request: HttpRequest, rest: str) -> HttpResponseBase:
    """Answers as the same address with a slash does, or says that there is nothing."""
    if rest.endswith("/"):
        return errors.not_found(request)
    try:
        match = resolve(f"{request.path_info}/")
    except Resolver404:
        return errors.not_found(request)
    if match.func is without_slash:
        return errors.not_found(request)
    request.resolver_match = match
    response: HttpResponseBase = match.func(request, *match.args, **match.kwargs)
    return response
