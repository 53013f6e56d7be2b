"""Writing a backup: JSON lines, from one consistent view of the database.

Format, version 1
    Line 1: {"format", "version", "made_at", "migrations": [[app, name], …], "secrets", "telemetry",
    "snapshot_version"}.
    Then one line a row: {"model": "app.Model", "row": {column: value}}, models in the order of `tables.KEPT`.
    Last line: {"rows": {model: count}, "sha256": of all bytes before it}. A file without it is not whole.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from django.apps import apps
from django.db import connection, transaction
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from psycopg import sql

from controlplane.backup import tables
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor

ACTOR = Actor("system", "backup")


class _Digesting:
    """Writes lines and keeps the hash of all of them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()

    def line(self, value: object) -> None:
        data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        self._digest.update(data)
        self._file.write(data)

    def hash(self) -> str:
        return self._digest.hexdigest()


def dump(path: Path, *, secrets: bool, telemetry: bool) -> dict[str, int]:
    """Writes a backup to a new file (0600), tells the journal, and returns the number of rows of each model.

    Without `secrets` there are no passwords, tokens, keys of the gateway or keys of endpoints in it.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        message = f"{path} exists already."
        raise RefusedError("file_exists", message, kind="conflict", hint="Name another file, or remove it.") from None
    except OSError as error:
        raise RefusedError("file_not_writable", f"{path} can't be written: {error.strerror}.") from error
    whole = False
    try:
        with os.fdopen(descriptor, "wb") as file:
            counts = _write(_Digesting(file), file, secrets=secrets, telemetry=telemetry)
            file.flush()
            os.fsync(file.fileno())
        whole = True
    finally:
        if not whole:
            path.unlink()  # half a backup is worse than none
    told = "with" if secrets else "without"
    record.event(
        actor=ACTOR, verb="system.backed_up", object_kind="system", object_id="headworks",
        message=f"A backup {told} secrets was written.", numbers=counts,
    )  # fmt: skip
    return counts


def _write(out: _Digesting, file: BinaryIO, *, secrets: bool, telemetry: bool) -> dict[str, int]:
    counts: dict[str, int] = {}
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        out.line(_head(secrets=secrets, telemetry=telemetry))
        for model in tables.KEPT + (tables.TELEMETRY if telemetry else ()):
            if model in tables.SECRET_ROWS and not secrets:
                continue
            hidden = {} if secrets else tables.SECRET_COLUMNS.get(model, {})
            counts[model] = 0
            for row in _rows(model):
                out.line({"model": model, "row": row | hidden})
                counts[model] += 1
    end = json.dumps({"rows": counts, "sha256": out.hash()}, separators=(",", ":"))
    file.write(end.encode() + b"\n")
    return counts


def _head(*, secrets: bool, telemetry: bool) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT last_value FROM headworks_snapshot_version")
        version = cursor.fetchone()[0]
    return {
        "format": tables.FORMAT,
        "version": tables.VERSION,
        "made_at": timezone.now().isoformat(),
        "migrations": sorted(list(key) for key in MigrationRecorder(connection).applied_migrations()),
        "secrets": secrets,
        "telemetry": telemetry,
        "snapshot_version": version,
    }


def _rows(model: str) -> Iterator[dict[str, Any]]:
    table = sql.Identifier(apps.get_model(model)._meta.db_table)
    with connection.chunked_cursor() as cursor:
        cursor.execute(sql.SQL("SELECT to_jsonb(t)::text FROM {} t ORDER BY 1").format(table))
        while some := cursor.fetchmany(1000):
            for (text,) in some:
                yield json.loads(text)
