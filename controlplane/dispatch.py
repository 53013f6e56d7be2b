"""Names and queues of Celery tasks, and how apps ask for them: by name, after commit, without importing a worker."""

from __future__ import annotations

from typing import Any

from django.db import transaction

CONTROL_QUEUE = "control"

ROLL_UP_MINUTES = "control.roll_up_minutes"
SWEEP_JOURNAL = "control.sweep_journal"
SWEEP_TELEMETRY = "control.sweep_telemetry"
DRAIN_USAGE = "control.drain_usage"
NODE_WAKE = "node.wake"
NODE_PROBE = "node.probe"


def node_queue(node: str) -> str:
    """Returns the queue that only the worker of this node reads."""
    return f"node.{node}"


def send_on_commit(task: str, *, queue: str = CONTROL_QUEUE, expires_s: float | None = None, **kwargs: Any) -> None:
    """Sends a task by name once the running transaction has committed; a lost message loses no truth."""

    def send() -> None:
        from controlplane.celery import app  # Celery is not needed by a process that sends nothing

        app.send_task(task, kwargs=kwargs, queue=queue, expires=expires_s, ignore_result=True)

    transaction.on_commit(send, robust=True)
