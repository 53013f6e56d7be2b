"""`manage.py estimate`: predictions for set-ups on standard input, before anything starts.

Reads a JSON list, prints a JSON list. Needs no database, no other service and no setting. A case that can't be answered
becomes an object with `error`; the others are answered all the same.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from controlplane.domain import estimate
from controlplane.domain.errors import RefusedError

_LARGEST_INPUT_BYTES = 64 * 2**20
_RIGHT = "a JSON list of objects, one for each set-up"


class Command(BaseCommand):
    help = "Predicts memory (or, with --performance, latency and throughput) of the set-ups in a JSON list on stdin."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--performance", action="store_true", help="latency and throughput instead of memory")
        parser.add_argument(
            "--calibrate", action="store_true", help="with --performance: learn from rows that carry results"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        cases = read_cases(sys.stdin.buffer.read(_LARGEST_INPUT_BYTES + 1))
        if options["performance"]:
            from controlplane.domain import estimate_performance

            answers = estimate_performance.run(cases, calibrate=options["calibrate"])
        else:
            answers = [answer(case) for case in cases]
        self.stdout.write(json.dumps(answers, indent=1, allow_nan=False))


def read_cases(text: bytes) -> list[object]:
    """The list. Anything else is one sentence and exit status 2."""
    if len(text) > _LARGEST_INPUT_BYTES:
        raise CommandError(f"The input is larger than {_LARGEST_INPUT_BYTES // 2**20} MiB.", returncode=2)
    try:
        cases = json.loads(text)
    except RecursionError:
        raise CommandError(f"The input is nested too deeply; expected {_RIGHT}.", returncode=2) from None
    except ValueError as error:
        raise CommandError(f"The input is not JSON ({str(error)[:80]}); expected {_RIGHT}.", returncode=2) from None
    if not isinstance(cases, list):
        raise CommandError(f"The input is {type(cases).__name__}, not a list; expected {_RIGHT}.", returncode=2)
    return cases


def answer(
    case: object, ask: Callable[[Mapping[str, object]], dict[str, object]] = estimate.estimate
) -> dict[str, object]:
    """The prediction for one case, or why there is none."""
    try:
        if not isinstance(case, Mapping):
            raise RefusedError("estimate", f"A case is an object, not {type(case).__name__}.", fields={"": _RIGHT})
        return ask(case)
    except RefusedError as error:
        return estimate.refusal(case, error)
