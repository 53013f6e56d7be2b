"""Samples as JSON for the charts' longer windows, and while the websocket is down."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from controlplane.console import samples
from controlplane.console.guard import page
from controlplane.domain.samples import is_subject
from controlplane.lib import valkey
from controlplane.telemetry import selectors

WINDOWS = ("300", "900", "3600", "86400")
_MOST_SUBJECTS = 200


@page()
def history(request: HttpRequest) -> HttpResponse:
    """Samples of one subject's last seconds; up to 15 minutes one a second, longer windows from roll-ups."""
    subject, window = request.GET.get("subject", ""), request.GET.get("window", "")
    if not is_subject(subject) or window not in WINDOWS:
        return _problem("invalid", _("Give a subject and a window."), 400)
    try:
        found = selectors.history(subject, int(window))
    except valkey.ERRORS:
        return _problem("unavailable", _("Valkey can't be reached."), 503)
    return JsonResponse({"subject": subject, "samples": found})


@page()
def newest(request: HttpRequest) -> HttpResponse:
    """The newest sample of each subject that has one."""
    subjects = [subject for subject in request.GET.getlist("subject")[:_MOST_SUBJECTS] if is_subject(subject)]
    return JsonResponse({"samples": samples.newest(subjects)})


def _problem(code: str, message: str, status: int) -> HttpResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)
