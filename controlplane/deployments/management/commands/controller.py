"""`manage.py controller`: reconciles and publishes; one leads, others wait."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.deployments.controller import health
from controlplane.deployments.controller.loop import Controller

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Runs the controller. Several may run; one leads, the others wait for its lock."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="only tell whether a controller leads and publishes")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            problem = health.problem()
            if problem:
                raise CommandError(problem)
            self.stdout.write("A controller leads and publishes.")
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        Controller().run(stop)
