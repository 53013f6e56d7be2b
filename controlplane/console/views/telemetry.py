"""Samples as JSON for the charts' longer windows, and while the websocket is down."""

from __future__ import annotations

import time

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.translation import gettext as _

from controlplane.console import samples
from controlplane.console.guard import page
from controlplane.domain.samples import is_subject
from controlplane.lib import sample_store, valkey
from controlplane.telemetry import selectors

KEPT_10S_S = sample_store.ROLLUPS_S - selectors.ROLLUPS_UP_TO_S  # a whole hour of 10-second roll-ups is left there
_FAR_S = 10_000_000_000  # the year 2286: whoever asks for more did not mean a time
WINDOWS = ("300", "900", "3600", "86400")
_MOST_SUBJECTS = 200


@page()
def history(request: HttpRequest) -> HttpResponse:
    """Samples of one subject: `window` seconds up to `end` (by default now), finer the shorter and newer they are.

    The second-by-second ring holds the last 15 minutes; whoever scrolls back further reads 10-second roll-ups, which
    are kept for a day, and minutes after that.
    """
    subject, window = request.GET.get("subject", ""), request.GET.get("window", "")
    end = _end(request.GET.get("end", ""))
    if not is_subject(subject) or window not in WINDOWS or end is None:
        return _problem("invalid", _("Give a subject and a window."), 400)
    now = time.time()
    seconds = int(window)
    if end and end < now - KEPT_10S_S:
        seconds = max(seconds, selectors.ROLLUPS_UP_TO_S + 1)  # only minutes are left of that time
    elif end and seconds <= sample_store.RING_S:
        seconds = selectors.ROLLUPS_UP_TO_S
    try:
        found = selectors.history(subject, seconds, now=min(end or now, now))
    except valkey.ERRORS:
        return _problem("unavailable", _("Valkey can't be reached."), 503)
    return JsonResponse({"subject": subject, "step_s": selectors.step_s(seconds), "samples": found})


def _end(text: str) -> float | None:
    """Returns the moment that was asked for; 0 when none was, None when it is none."""
    try:
        end = float(text or 0)
    except ValueError:
        return None
    return end if 0 <= end < _FAR_S else None


@page()
def newest(request: HttpRequest) -> HttpResponse:
    """The newest sample of each subject that has one."""
    subjects = [subject for subject in request.GET.getlist("subject")[:_MOST_SUBJECTS] if is_subject(subject)]
    return JsonResponse({"samples": samples.newest(subjects)})


def _problem(code: str, message: str, status: int) -> HttpResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)
