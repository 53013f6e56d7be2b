"""Replicas that ended long ago."""

from __future__ import annotations

from datetime import datetime, timedelta

from controlplane.deployments.models import Replica


def sweep(*, now: datetime, keep_days: int) -> int:
    """Removes replicas that ended more than `keep_days` ago, with their history; returns how many."""
    old = Replica.objects.filter(ended_at__lt=now - timedelta(days=keep_days))
    return old.delete()[1].get("deployments.Replica", 0)
