from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from controlplane import dispatch
from controlplane.celery import app
from controlplane.deployments.models import Replica, ReplicaTransition
from controlplane.deployments.services import history
from controlplane.domain.usage import UsageRow
from controlplane.journal.models import Event
from controlplane.journal.services import record
from controlplane.journal.services.record import SYSTEM
from controlplane.lib import keys, valkey, wire
from controlplane.traffic.models import UsageMinute
from controlplane.traffic.services import usage
from tests.deployments.controller.running import eventually
from tests.deployments.making import make_deployment, make_replica
from workers.control import tasks

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

ROOT = Path(__file__).resolve().parents[3]


@contextmanager
def celery(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A real Celery process on the test's database and Valkey."""
    base = os.environ["DATABASE_URL"]
    database = str(connection.settings_dict["NAME"])
    environment = {**os.environ, "DATABASE_URL": base.replace("///postgres?", f"///{database}?")}
    command = [sys.executable, "-m", "celery", "-A", "controlplane.celery", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def send_usage(url: str) -> None:
    rows = [UsageRow(60, "shop", "1", "chat", requests=1, batch_id="a")]
    with valkey.connect(url) as client:
        client.xadd(keys.usage(), {"usage": wire.encode(rows)})


def test_every_scheduled_task_exists_and_expires() -> None:
    for entry in app.conf.beat_schedule.values():
        assert entry["task"] in app.tasks
        assert entry["options"]["expires"] <= entry["schedule"]
        assert entry["options"]["queue"] == dispatch.CONTROL_QUEUE


def test_a_task_whose_worker_dies_comes_again() -> None:
    for name in {entry["task"] for entry in app.conf.beat_schedule.values()} | {dispatch.PROBE_EXTERNAL}:
        assert app.tasks[name].acks_late and app.tasks[name].reject_on_worker_lost, name


def test_each_task_runs_on_empty_tables(valkey_server: str) -> None:
    for task in (
        tasks.roll_up_minutes,
        tasks.sweep_telemetry,
        tasks.sweep_journal,
        tasks.drain_usage,
        tasks.probe_external,
    ):
        task()


def test_the_sweep_removes_what_is_old(settings) -> None:  # type: ignore[no-untyped-def]
    settings.JOURNAL_KEEP_DAYS = 1
    deployment = make_deployment()
    old = timezone.now() - timedelta(days=2)
    make_replica(deployment, state="stopped", ended_at=old)
    living = make_replica(deployment)
    record.event(actor=SYSTEM, verb="x", object_kind="system", object_id="x", message="x")
    Event.objects.update(at=old)
    tasks.sweep_journal()
    assert list(Replica.objects.all()) == [living]
    assert not Event.objects.exists()


def test_old_usage_and_expired_sessions_are_swept(settings, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    settings.USAGE_KEEP_DAYS = 2
    monkeypatch.setattr(usage, "SWEPT_AT_ONCE", 1)
    now = timezone.now()
    for days in (1, 3, 4):
        UsageMinute.objects.create(minute=now - timedelta(days=days), tenant="shop", key_id="1", deployment="chat")
        Session.objects.create(session_key=f"s{days}", session_data="", expire_date=now + timedelta(days=2 - days))
    tasks.sweep_journal()
    assert UsageMinute.objects.count() == 1
    assert list(Session.objects.values_list("session_key", flat=True)) == ["s1"]


def test_the_history_of_a_living_replica_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_STEPS", 5)
    monkeypatch.setattr(history, "AT_ONCE", 2)
    now, deployment = timezone.now(), make_deployment()
    loops, calm = make_replica(deployment), make_replica(deployment)
    for row, count in ((loops, 20), (calm, 3)):
        for seq in range(count):
            at = now - timedelta(days=100 if seq == 0 else 0)
            ReplicaTransition.objects.create(
                replica=row, seq=seq, at=at, from_state="placed", to_state="failed", code="x", message="x"
            )
    history.sweep(now=now, keep_days=90)
    assert list(loops.transitions.order_by("seq").values_list("seq", flat=True)) == [15, 16, 17, 18, 19]
    assert list(calm.transitions.order_by("seq").values_list("seq", flat=True)) == [1, 2]


def test_a_real_worker_takes_a_task_sent_by_name(valkey_server: str) -> None:
    send_usage(valkey_server)
    with celery("worker", "-Q", "control", "-P", "threads", "-c", "2", "--without-gossip", "--without-mingle"):
        dispatch.send_on_commit(dispatch.DRAIN_USAGE, expires_s=30)
        eventually(UsageMinute.objects.exists, 40)
        call_command("tasks", "--check-worker")


def test_beat_holds_its_lock_and_ticks(valkey_server: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No beat"):
        call_command("tasks", "--check-beat")
    with celery("beat", f"--pidfile={tmp_path / 'pid'}"), valkey.connect(valkey_server) as client:
        eventually(lambda: client.llen(f"{keys.NAMESPACE}:celery:control"), 40)
        call_command("tasks", "--check-beat")


def test_without_a_worker_the_check_says_so(valkey_server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.deployments.management.commands.tasks.ANSWER_WITHIN_S", 0.2)
    with pytest.raises(CommandError, match="does not answer"):
        call_command("tasks", "--check-worker")
