"""Every address of the console's server: REST under /api/, pages everywhere else."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path
from django.views import defaults

from controlplane.api import errors


def healthz(request: HttpRequest) -> HttpResponse:
    """Answers that this process serves; asks nothing of database or Valkey, so that their outage restarts nothing."""
    return HttpResponse("ok", content_type="text/plain")


urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz, name="healthz"),
    path("api/", include("controlplane.api.urls")),
    path("", include("controlplane.console.urls")),
]


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answers an unknown address in the shape of its part of the tree."""
    if request.path.startswith("/api/"):
        return errors.not_found(request)
    return defaults.page_not_found(request, exception)


def handler500(request: HttpRequest) -> HttpResponse:
    """Answers a failure in the shape of its part of the tree."""
    if request.path.startswith("/api/"):
        return errors.server_error(request)
    return defaults.server_error(request)
