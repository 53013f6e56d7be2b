"""Reading a backup into an empty database, or in place of what is there.

Guarantees
    The file is checked as a whole before anything is written, and everything, emptying included, is one transaction:
    either all of it is there afterwards or all is as it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management.color import no_style
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DataError, IntegrityError, OperationalError, connection, models, transaction
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

from controlplane.backup import tables
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record
from controlplane.journal.services.record import Actor
from controlplane.telemetry.services import partitions

ACTOR = Actor("system", "restore")
AT_ONCE = 500
LOCK_TIMEOUT_MS = 30_000
# gateways and nodes know documents that were published after the backup was made; ours have to be newer
VERSIONS_AHEAD = 1_000_000
LAST_VERSION = 2**53  # what every reader of a document can hold


@dataclass(frozen=True, slots=True)
class Contents:
    """What the check of a file found."""

    head: dict[str, Any]
    rows: dict[str, int]
    first_day: datetime | None  # of the roll-ups in it
    last_day: datetime | None


def load(path: Path, *, replace: bool = False) -> dict[str, int]:
    """Restores a backup and returns the number of rows of each model; raises RefusedError with a sentence that says
    why it can't be restored here.

    With `replace` everything that is there is removed first, sessions of the console and running replicas included
    (their engines are ended by their nodes); roll-ups stay unless the backup brings its own.
    """
    contents = _check_file(path)
    try:
        with transaction.atomic():
            _load(path, contents, replace=replace)
    except (IntegrityError, DataError) as error:
        message = f"The rows of the backup do not fit together or into this database: {str(error).splitlines()[0]}."
        raise RefusedError("backup_does_not_fit", message, hint="Nothing was changed.") from error
    return contents.rows


def _load(path: Path, contents: Contents, *, replace: bool) -> None:
    _check_migrations(contents.head["migrations"])
    if replace:
        _empty(telemetry=bool(contents.head["telemetry"]))
    else:
        _check_empty()
    if contents.first_day and contents.last_day:
        partitions.ensure(first=contents.first_day.date(), last=contents.last_day.date())
    _insert(path)
    _go_on_from(int(contents.head["snapshot_version"]))
    record.event(
        actor=ACTOR, verb="system.restored", object_kind="system", object_id="headworks",
        message=f"Restored from a backup of {contents.head['made_at']}.", numbers=contents.rows, level="warning",
    )  # fmt: skip


def _check_file(path: Path) -> Contents:
    digest, counts, days = hashlib.sha256(), dict[str, int](), set[datetime]()
    head, end = dict[str, Any](), dict[str, Any]()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                value = _parse(line, number)
                if number == 0:
                    head = _check_head(value)
                elif "model" in value:
                    model, row = _check_row(value, number)
                    counts[model] = counts.get(model, 0) + 1
                    if model in tables.TELEMETRY:
                        days.add(_day_of(row, number))
                else:
                    end = value
                    break
                digest.update(line)
    except OSError as error:
        raise RefusedError("file_not_readable", f"{path} can't be read: {error.strerror}.") from error
    rows = end.get("rows")
    told = {model: count for model, count in rows.items() if count} if isinstance(rows, dict) else None
    if end.get("sha256") != digest.hexdigest() or told != counts:
        raise RefusedError("backup_damaged", f"{path} is not whole: its end does not fit its content.")
    first, last = (min(days), max(days)) if days else (None, None)
    return Contents(head, counts, first, last)


def _check_row(value: dict[str, Any], number: int) -> tuple[str, dict[str, Any]]:
    """Returns (model, row) of a line. Only what a backup holds is restored: sessions, for one, are not."""
    model, row = value["model"], value.get("row")
    if model not in tables.KEPT + tables.TELEMETRY or not isinstance(row, dict):
        raise _damaged(number)
    return model, row


def _day_of(row: dict[str, Any], number: int) -> datetime:
    try:
        return datetime.fromisoformat(row["minute"])
    except (KeyError, TypeError, ValueError):
        raise _damaged(number) from None


def _damaged(number: int) -> RefusedError:
    return RefusedError("backup_damaged", f"Line {number + 1} is no line of a backup; the file is not whole.")


def _parse(line: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _damaged(number)
    return value


def _check_head(head: dict[str, Any]) -> dict[str, Any]:
    if head.get("format") != tables.FORMAT:
        raise RefusedError("no_backup", "This file is no backup of Headworks.")
    if head.get("version") != tables.VERSION:
        message = f"The backup has format version {head.get('version')}; this Headworks reads {tables.VERSION}."
        raise RefusedError("backup_too_new", message, hint="Restore it with the version of Headworks that made it.")
    migrations, version = head.get("migrations"), head.get("snapshot_version")
    named = isinstance(migrations, list) and all(isinstance(one, list) and len(one) == 2 for one in migrations)
    if (
        not named
        or type(version) is not int
        or not 0 <= version < LAST_VERSION
        or "telemetry" not in head
        or "made_at" not in head
    ):
        raise _damaged(0)
    return head


def _check_migrations(needed: list[list[str]]) -> None:
    applied = {tuple(key) for key in MigrationRecorder(connection).applied_migrations()}
    missing = sorted(f"{app}.{name}" for app, name in needed if (app, name) not in applied)
    if missing:
        message = f"The database is older than the backup: it lacks {', '.join(missing[:5])}."
        hint = "Install the version that made the backup or a newer one, run `manage.py migrate`, and restore again."
        raise RefusedError("database_too_old", message, kind="conflict", hint=hint)


def _check_empty() -> None:
    for name in (*tables.KEPT, *tables.TELEMETRY, *tables.LEFT_OUT):
        count = apps.get_model(name)._default_manager.count()
        if count:
            message = f"The database is not empty: it has {count} rows of {name}."
            hint = "Restore into a new database right after `manage.py migrate`, or give --replace to remove it all."
            raise RefusedError("database_not_empty", message, kind="conflict", hint=hint)


def present() -> dict[str, int]:
    """Returns how many rows of each model a restore with `replace` would remove; models without rows are left out."""
    counts = {name: apps.get_model(name)._default_manager.count() for name in (*tables.KEPT, *tables.LEFT_OUT)}
    return {name: count for name, count in counts.items() if count}


def _empty(*, telemetry: bool) -> None:
    names = (*tables.KEPT, *tables.LEFT_OUT, *(tables.TELEMETRY if telemetry else ()), *tables.SESSIONS)
    kept = [apps.get_model(name) for name in names]
    joined = [many.remote_field.through for model in kept for many in model._meta.local_many_to_many]
    every = sql.SQL(", ").join(sql.Identifier(model._meta.db_table) for model in (*kept, *joined))
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(LOCK_TIMEOUT_MS)])
        try:
            cursor.execute(sql.SQL("TRUNCATE {}").format(every))
        except OperationalError:
            message = f"Somebody else is using the tables and did not let go within {LOCK_TIMEOUT_MS // 1000} s."
            raise RefusedError(
                "tables_in_use", message, kind="conflict", hint="Stop Headworks and try again."
            ) from None


def _insert(path: Path) -> None:
    model, rows = "", list[dict[str, Any]]()
    for name, row in _rows(path):
        if name != model or len(rows) >= AT_ONCE:
            _insert_some(model, rows)
            model, rows = name, []
        rows.append(row)
    _insert_some(model, rows)
    restored = [apps.get_model(name) for name in tables.KEPT]
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), restored):
            cursor.execute(statement)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        for line in file:
            value = json.loads(line)
            if "model" in value:
                yield value["model"], value["row"]


def _insert_some(name: str, rows: list[dict[str, Any]]) -> None:
    """PostgreSQL itself reads the columns' types from JSON, as it wrote them; what a newer schema added gets its
    default, what it dropped is left out."""
    if not rows:
        return
    model = apps.get_model(name)
    known = {field.column: field for field in model._meta.local_concrete_fields if field.column}
    added = {column: _default(field) for column, field in known.items() if column not in rows[0]}
    columns = sql.SQL(", ").join(sql.Identifier(column) for column in known)
    table = sql.Identifier(model._meta.db_table)
    statement = sql.SQL(
        "INSERT INTO {table} ({columns}) SELECT {columns} FROM jsonb_populate_recordset(NULL::{table}, %s::jsonb)"
    ).format(table=table, columns=columns)
    with connection.cursor() as cursor:
        cursor.execute(statement, [json.dumps([added | row for row in rows], cls=DjangoJSONEncoder)])


def _default(field: models.Field[Any, Any]) -> Any:
    return field.get_prep_value(field.get_default())


def _go_on_from(snapshot_version: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval('headworks_snapshot_version', %s)", [snapshot_version + VERSIONS_AHEAD])
    node = apps.get_model("fleet.Node")
    version = models.F("desired_version") + VERSIONS_AHEAD
    node._default_manager.update(desired_version=version, desired_hash="")
