"""The Celery application of the control side. Tasks live in `workers.control`; the node worker has its own app."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("headworks")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.imports = ("workers.control.tasks",)
