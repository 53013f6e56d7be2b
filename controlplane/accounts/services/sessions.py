"""Sessions of the console that nobody can use any more."""

from __future__ import annotations

from datetime import datetime

from django.contrib.sessions.models import Session


def sweep(*, now: datetime) -> int:
    """Removes sessions that have expired; returns how many."""
    return Session.objects.filter(expire_date__lt=now).delete()[0]
