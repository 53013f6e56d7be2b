"""`manage.py backup FILE`: everything that people set up, in one file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.backup import dump
from controlplane.domain.errors import RefusedError


class Command(BaseCommand):
    help = "Writes people, tenants, models, nodes, deployments, usage and the journal to a new file (0600)."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--with-secrets", action="store_true", help="also passwords, tokens and keys")
        parser.add_argument("--with-telemetry", action="store_true", help="also one-minute roll-ups")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            counts = dump.dump(options["file"], secrets=options["with_secrets"], telemetry=options["with_telemetry"])
        except RefusedError as refused:
            raise CommandError(f"{refused.message} {refused.hint}".strip()) from refused
        if options["json"]:
            self.stdout.write(json.dumps({"file": str(options["file"]), "rows": counts}))
            return
        self.stdout.write(f"{sum(counts.values())} rows in {options['file']}.")
        if not options["with_secrets"]:
            self.stdout.write("Without secrets: after a restore, set passwords and make tokens and keys anew.")
