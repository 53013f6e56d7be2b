"""The Celery application of the control side. Tasks live in `workers.control`; the node worker has its own app."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

from controlplane import dispatch
from controlplane.lib import valkey

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("headworks")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = ("workers.control.tasks",)
# Every control task is safe to run twice, so a message is done with when its task is; if a worker dies it comes again.
app.conf.task_acks_late = True
app.conf.task_reject_on_worker_lost = True
# RedBeat looks for these two by their bare names, not through the namespace, and would otherwise take the broker's.
app.conf.redbeat_redis_url = valkey.url()
app.conf.redbeat_redis_options = {"socket_connect_timeout": 5, "socket_timeout": 30, "retry_period": 20}


def _every(task: str, seconds: float) -> dict[str, Any]:
    """A tick that nobody has taken until the next one is due is dropped: ticks never pile up behind an outage."""
    return {"task": task, "schedule": seconds, "options": {"queue": dispatch.CONTROL_QUEUE, "expires": seconds}}


app.conf.beat_schedule = {
    "roll-up-minutes": _every(dispatch.ROLL_UP_MINUTES, 60),
    "drain-usage": _every(dispatch.DRAIN_USAGE, 10),
    "probe-external": _every(dispatch.PROBE_EXTERNAL, 15),
    "sweep-journal": _every(dispatch.SWEEP_JOURNAL, 3600),
    "sweep-telemetry": _every(dispatch.SWEEP_TELEMETRY, 3600),
}
