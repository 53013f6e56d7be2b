"""`manage.py restore FILE`: a backup into an empty database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.backup import load
from controlplane.domain.errors import RefusedError


class Command(BaseCommand):
    help = "Restores a backup into an empty, migrated database, all or nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            counts = load.load(options["file"])
        except RefusedError as refused:
            raise CommandError(f"{refused.message} {refused.hint}".strip()) from refused
        if options["json"]:
            self.stdout.write(json.dumps({"file": str(options["file"]), "rows": counts}))
            return
        self.stdout.write(f"{sum(counts.values())} rows restored. Start the controller; it starts the engines anew.")
