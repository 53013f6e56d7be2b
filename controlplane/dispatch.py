"""How apps ask others to act, always after commit and without importing them: Celery tasks by name, the controller by
a NOTIFY of PostgreSQL. Both are hints; the truth is in the rows, and a lost hint only costs time."""

from __future__ import annotations

import logging
from typing import Any

from django.db import connection, transaction

logger = logging.getLogger(__name__)

CONTROL_QUEUE = "control"

ROLL_UP_MINUTES = "control.roll_up_minutes"
SWEEP_JOURNAL = "control.sweep_journal"
SWEEP_TELEMETRY = "control.sweep_telemetry"
DRAIN_USAGE = "control.drain_usage"
PROBE_EXTERNAL = "control.probe_external"
NODE_WAKE = "node.wake"
NODE_HINT_EXPIRES_S = 15.0  # by then the node has looked by itself

CONTROLLER_CHANNEL = "headworks_changed"  # PostgreSQL channel that the leading controller listens on


def node_queue(node: str) -> str:
    """Returns the queue that only the worker of this node reads."""
    return f"node.{node}"


def send_on_commit(task: str, *, queue: str = CONTROL_QUEUE, expires_s: float | None = None, **kwargs: Any) -> None:
    """Sends a task by name once the running transaction has committed; a lost message loses no truth."""

    def send() -> None:
        from controlplane.celery import app  # Celery is not needed by a process that sends nothing

        app.send_task(task, kwargs=kwargs, queue=queue, expires=expires_s, ignore_result=True)

    transaction.on_commit(send, robust=True)


def wake_node(node: str) -> None:
    """Has a node's worker look at its desired document now. It would find it within seconds: a message that can't be
    sent, or that nobody takes in time, is dropped."""
    from kombu.exceptions import OperationalError

    from controlplane.celery import app

    try:
        app.send_task(NODE_WAKE, queue=node_queue(node), expires=NODE_HINT_EXPIRES_S, ignore_result=True, retry=False)
    except OperationalError as error:
        logger.info("node %s was not woken: %s", node, error)


def wake_controller() -> None:
    """Makes the leading controller look at the rows at once when the running transaction has committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, '')", [CONTROLLER_CHANNEL])
