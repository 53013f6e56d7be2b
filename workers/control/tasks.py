"""What the control workers do. Each task is one service call, safe to run twice; beat repeats what was missed."""

from __future__ import annotations

from django.conf import settings
from django.utils import timezone

from controlplane import dispatch
from controlplane.accounts.services import sessions
from controlplane.celery import app
from controlplane.deployments.services import endpoints, history
from controlplane.journal.services import retention
from controlplane.telemetry.services import partitions, rollups
from controlplane.traffic.services import usage


@app.task(name=dispatch.ROLL_UP_MINUTES)
def roll_up_minutes() -> None:
    rollups.roll_up(timezone.now())


@app.task(name=dispatch.SWEEP_TELEMETRY)
def sweep_telemetry() -> None:
    partitions.keep(now=timezone.now(), keep_days=settings.TELEMETRY_KEEP_DAYS)


@app.task(name=dispatch.SWEEP_JOURNAL)
def sweep_journal() -> None:
    now = timezone.now()
    retention.sweep(now=now, keep_days=settings.JOURNAL_KEEP_DAYS)
    history.sweep(now=now, keep_days=settings.JOURNAL_KEEP_DAYS)
    usage.sweep(now=now, keep_days=settings.USAGE_KEEP_DAYS)
    sessions.sweep(now=now)


@app.task(name=dispatch.DRAIN_USAGE)
def drain_usage() -> None:
    usage.drain()


@app.task(name=dispatch.PROBE_EXTERNAL)
def probe_external() -> None:
    endpoints.probe_all()
