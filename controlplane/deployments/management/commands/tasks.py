"""`manage.py tasks`: whether Celery's beat and control worker are at work; for health checks."""

from __future__ import annotations

import socket
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from redbeat.schedulers import RedBeatConfig

from controlplane.celery import app
from controlplane.lib import valkey

ANSWER_WITHIN_S = 5.0


class Command(BaseCommand):
    help = "Tells whether beat (somewhere) and the control worker (of this machine) are at work."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check-beat", action="store_true", help="somebody holds beat's lock")
        parser.add_argument("--check-worker", action="store_true", help="this machine's control worker answers")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["check_beat"]:
                self._check_beat()
            if options["check_worker"]:
                self._check_worker()
        except valkey.ERRORS as error:
            raise CommandError(f"Valkey does not answer: {error}") from error

    def _check_beat(self) -> None:
        with valkey.connect() as client:
            if not client.exists(RedBeatConfig(app).lock_key):
                raise CommandError("No beat is at work: nobody holds its lock in Valkey.")
        self.stdout.write("Beat is at work.")

    def _check_worker(self) -> None:
        name = f"celery@{socket.gethostname()}"
        if not app.control.ping(destination=[name], timeout=ANSWER_WITHIN_S):
            raise CommandError(f"The control worker {name} does not answer.")
        self.stdout.write("The control worker answers.")
