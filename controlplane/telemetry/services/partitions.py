"""Daily partitions of the one-minute roll-ups: made ahead, dropped when their day is over the time to keep.

Dropping a partition is instant and gives the space back; deleting rows by the million does neither.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from django.db import connection, transaction
from psycopg import sql

from controlplane.lib import advisory_locks

TABLE = "telemetry_rollup_minute"
DAYS_AHEAD = 3
_NAME = re.compile(rf"{TABLE}_(\d{{4}})(\d{{2}})(\d{{2}})")


def ensure(*, first: date, last: date) -> int:
    """Makes the partitions of the days from `first` to `last` that are missing; returns how many."""
    known = set(existing())
    missing = [day for day in _days(first, last) if day not in known]
    if not missing:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [advisory_locks.ROLLUP_PARTITIONS])
        for day in missing:
            cursor.execute(
                sql.SQL("CREATE TABLE IF NOT EXISTS {} PARTITION OF {} FOR VALUES FROM ({}) TO ({})").format(
                    sql.Identifier(_name(day)),
                    sql.Identifier(TABLE),
                    sql.Literal(_midnight(day).isoformat()),
                    sql.Literal(_midnight(day + timedelta(days=1)).isoformat()),
                )
            )
    return len(missing)


def keep(*, now: datetime, keep_days: int) -> tuple[int, int]:
    """Makes partitions ahead and drops those older than `keep_days`; returns (made, dropped)."""
    today = now.astimezone(UTC).date()
    made = ensure(first=today - timedelta(days=1), last=today + timedelta(days=DAYS_AHEAD))
    old = [day for day in existing() if day < today - timedelta(days=keep_days)]
    with connection.cursor() as cursor:
        for day in old:
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(_name(day))))
    return made, len(old)


def existing() -> list[date]:
    """Returns the days that have a partition, in order."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid "
            "WHERE inhparent = %s::regclass",
            [TABLE],
        )
        names = [row[0] for row in cursor.fetchall()]
    matches = (_NAME.fullmatch(name) for name in names)
    return sorted(date(int(m[1]), int(m[2]), int(m[3])) for m in matches if m is not None)


def _days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=offset) for offset in range((last - first).days + 1)]


def _name(day: date) -> str:
    return f"{TABLE}_{day:%Y%m%d}"


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
