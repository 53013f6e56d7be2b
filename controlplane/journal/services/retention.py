"""How long the journal is kept."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db.models import Model, QuerySet

from controlplane.journal.models import Decision, Event

AT_ONCE = 5000  # a statement that deletes millions of rows would hold locks for minutes


def sweep(*, now: datetime, keep_days: int) -> int:
    """Removes events and decisions that are older than `keep_days`; returns how many."""
    before = now - timedelta(days=keep_days)
    return _delete(Event.objects.filter(at__lt=before)) + _delete(Decision.objects.filter(last_at__lt=before))


def _delete(rows: QuerySet[Any, Model]) -> int:
    count = 0
    while some := list(rows.order_by("pk").values_list("pk", flat=True)[:AT_ONCE]):
        count += rows.model._default_manager.filter(pk__in=some).delete()[0]
    return count
