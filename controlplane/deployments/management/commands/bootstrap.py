"""`manage.py bootstrap`: what a new installation needs, made once."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane import env
from controlplane.deployments.services import bootstrap


class Command(BaseCommand):
    help = (
        "Makes the first administrator, tenant, token and key, and a deployment of the model in HEADWORKS_MODEL_PATH. "
        "Shows their secrets once. HEADWORKS_ADMIN_PASSWORD (or _FILE) sets the password."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        made = bootstrap.bootstrap(
            model_path=env.read_str("HEADWORKS_MODEL_PATH", ""),
            password=env.read_secret("HEADWORKS_ADMIN_PASSWORD", "") or None,
        )
        shown = asdict(made)
        if options["json"]:
            self.stdout.write(json.dumps(shown))
            return
        for name, value in shown.items():
            self.stdout.write(f"{name}: {value if value is not None else '(nothing new)'}")
