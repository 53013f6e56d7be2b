"""`manage.py restore FILE`: a backup into an empty database, or in place of what is there."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.backup import load
from controlplane.domain.errors import RefusedError

WORD = "replace"


class Command(BaseCommand):
    help = (
        "Restores a backup into an empty, migrated database, all or nothing. With --replace, everything that is there "
        "is removed first, in the same transaction."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--replace", action="store_true", help="remove everything that is there first")
        parser.add_argument("--yes", action="store_true", help="do not ask before removing")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["replace"] and not options["yes"]:
            self._confirm()
        try:
            counts = load.load(options["file"], replace=options["replace"])
        except RefusedError as refused:
            raise CommandError(f"{refused.message} {refused.hint}".strip()) from refused
        if options["json"]:
            self.stdout.write(json.dumps({"file": str(options["file"]), "rows": counts}))
            return
        self.stdout.write(f"{sum(counts.values())} rows restored. The controller starts the engines anew.")
        if options["replace"]:
            self.stdout.write("Passwords, tokens and keys are those of the backup from now on.")

    def _confirm(self) -> None:
        present = load.present()
        if not present:
            return
        if not sys.stdin.isatty():
            raise CommandError("Nobody can be asked here, and --replace removes everything; give --yes as well.")
        told = ", ".join(f"{count} of {name}" for name, count in present.items())
        self.stderr.write(f"This removes everything in the database: {told}. Running engines are ended.")
        if input(f'Type "{WORD}" to go on: ').strip() != WORD:
            raise CommandError("Nothing was changed.")
