"""Usage from the gateways' stream into rows.

Guarantees
    Every batch is counted once: the rows, the batch's id and the place in the stream are written in one transaction,
    and a batch that a gateway sent twice is known by its id. What can't be read is logged and passed over.
Concurrency
    The cursor's row is locked, so two workers at once wait for each other.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import redis
from django.db import DataError, connection, transaction
from django.utils import timezone

from controlplane.domain.usage import UsageRow
from controlplane.lib import keys, valkey, wire
from controlplane.traffic.models import UsageBatch, UsageCursor, UsageMinute

logger = logging.getLogger(__name__)

AT_ONCE = 500
SWEPT_AT_ONCE = 5000  # a statement that deletes millions of rows would hold locks for minutes
_NOT_HELD = (DataError, ValueError, OverflowError)
KEEP_BATCH_IDS = timedelta(days=7)  # a gateway that was off may send its backlog again so much later

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_ADD = """
INSERT INTO traffic_usageminute
    (minute, tenant, key_id, deployment, requests, errors, prompt_tokens, completion_tokens)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (minute, tenant, key_id, deployment) DO UPDATE SET
    requests = traffic_usageminute.requests + EXCLUDED.requests,
    errors = traffic_usageminute.errors + EXCLUDED.errors,
    prompt_tokens = traffic_usageminute.prompt_tokens + EXCLUDED.prompt_tokens,
    completion_tokens = traffic_usageminute.completion_tokens + EXCLUDED.completion_tokens
"""


def drain(client: redis.Redis | None = None) -> int:
    """Takes over everything that is in the stream; returns how many batches were counted."""
    own = client or valkey.connect()
    try:
        counted = 0
        while True:
            entries, fresh = _drain_some(own)
            counted += fresh
            if entries < AT_ONCE:
                return counted
    finally:
        if client is None:
            own.close()


def sweep(*, now: datetime, keep_days: int) -> int:
    """Forgets the ids of batches that no gateway can send again, and minutes older than `keep_days`; returns how many
    minutes."""
    UsageBatch.objects.filter(taken_at__lt=now - KEEP_BATCH_IDS).delete()
    old = UsageMinute.objects.filter(minute__lt=now - timedelta(days=keep_days)).order_by("minute")
    count = 0
    while some := list(old.values_list("pk", flat=True)[:SWEPT_AT_ONCE]):
        count += UsageMinute.objects.filter(pk__in=some).delete()[0]
    return count


def _drain_some(client: redis.Redis) -> tuple[int, int]:
    """Returns (entries read, batches counted)."""
    stream = keys.usage()
    with transaction.atomic():
        UsageCursor.objects.get_or_create(stream=stream)
        cursor = UsageCursor.objects.select_for_update().get(stream=stream)
        entries: Any = client.xrange(stream, min=f"({cursor.last_id}", count=AT_ONCE)
        if not entries and _was_made_anew(client, stream, cursor.last_id):
            entries = client.xrange(stream, count=AT_ONCE)  # what was counted before is known by its batch's id
        if not entries:
            return 0, 0
        batches = [rows for entry_id, fields in entries if (rows := _decode(entry_id, fields))]
        fresh = _count(batches)
        cursor.last_id = entries[-1][0].decode()
        cursor.save(update_fields=["last_id"])
    client.xtrim(stream, minid=cursor.last_id, approximate=True)  # what is committed need not stay
    return len(entries), fresh


def _count(batches: list[list[UsageRow]]) -> int:
    """Counts what is new; returns how many batches. One that the tables can't hold must not hold up the others for
    ever, so it is then passed over by itself."""
    try:
        with transaction.atomic():
            return _count_together(batches)
    except _NOT_HELD as error:
        logger.warning("usage can't be counted together, so each batch by itself: %s", str(error).strip())
    counted = 0
    for rows in batches:
        try:
            with transaction.atomic():
                counted += _count_together([rows])
        except _NOT_HELD as error:
            logger.error("usage batch %.40r is not counted: %s", rows[0].batch_id, str(error).strip())
    return counted


def _count_together(batches: list[list[UsageRow]]) -> int:
    fresh = _only_new(batches)
    _add([row for rows in fresh for row in rows])
    return len(fresh)


def _was_made_anew(client: redis.Redis, stream: str, last_id: str) -> bool:
    """Returns whether the stream ends before our place in it: Valkey lost its data and its clock is behind."""
    newest: Any = client.xrevrange(stream, count=1)
    return bool(newest) and _order(newest[0][0].decode()) < _order(last_id)


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number)


def _decode(entry_id: bytes, fields: dict[bytes, bytes]) -> list[UsageRow]:
    try:
        return list(wire.decode(fields[b"usage"], tuple[UsageRow, ...]))
    except (KeyError, wire.WireError) as error:
        logger.error("usage in entry %s can't be read and is not counted: %s", entry_id.decode(), error)
        return []


def _only_new(batches: list[list[UsageRow]]) -> list[list[UsageRow]]:
    """Leaves out batches that were counted before, and remembers the others."""
    ids = {rows[0].batch_id for rows in batches if rows[0].batch_id}
    seen = set(UsageBatch.objects.filter(pk__in=ids).values_list("pk", flat=True))
    new: list[list[UsageRow]] = []
    for rows in batches:
        if rows[0].batch_id not in seen:
            new.append(rows)
            seen |= {rows[0].batch_id} - {""}
    now = timezone.now()
    UsageBatch.objects.bulk_create(UsageBatch(pk=rows[0].batch_id, taken_at=now) for rows in new if rows[0].batch_id)
    return new


def _add(rows: list[UsageRow]) -> None:
    sums: dict[tuple[Any, ...], list[int]] = {}  # a gateway sends a batch a second: of most addresses there are many
    for row in rows:
        address = _address(row)
        counts = sums.setdefault(address, [0, 0, 0, 0])
        counts[:] = map(sum, zip(counts, _counts(row), strict=True))
    # in one order, so that two transactions never wait for each other crosswise
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, [(*address, *sums[address]) for address in sorted(sums)])


def _address(row: UsageRow) -> tuple[Any, ...]:
    minute = _EPOCH + timedelta(seconds=row.minute - row.minute % 60)
    return minute, row.tenant[:63], row.key_id[:32], row.deployment[:63]


def _counts(row: UsageRow) -> tuple[int, int, int, int]:
    return row.requests, row.errors, row.prompt_tokens, row.completion_tokens
