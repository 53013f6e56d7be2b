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
from django.db import connection, transaction
from django.utils import timezone

from controlplane.domain.usage import UsageRow
from controlplane.lib import keys, valkey, wire
from controlplane.traffic.models import UsageBatch, UsageCursor

logger = logging.getLogger(__name__)

AT_ONCE = 500
KEEP_BATCH_IDS = timedelta(days=7)  # a gateway that was off may send its backlog again so much later

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


def sweep(*, now: datetime) -> int:
    """Forgets the ids of batches that no gateway can send again; returns how many."""
    return UsageBatch.objects.filter(taken_at__lt=now - KEEP_BATCH_IDS).delete()[0]


def _drain_some(client: redis.Redis) -> tuple[int, int]:
    """Returns (entries read, batches counted)."""
    stream = keys.usage()
    with transaction.atomic():
        UsageCursor.objects.get_or_create(stream=stream)
        cursor = UsageCursor.objects.select_for_update().get(stream=stream)
        entries: Any = client.xrange(stream, min=f"({cursor.last_id}", count=AT_ONCE)
        if not entries:
            return 0, 0
        batches = [rows for entry_id, fields in entries if (rows := _decode(entry_id, fields))]
        fresh = _only_new(batches)
        _add([row for rows in fresh for row in rows])
        cursor.last_id = entries[-1][0].decode()
        cursor.save(update_fields=["last_id"])
    client.xtrim(stream, minid=cursor.last_id, approximate=True)  # what is committed need not stay
    return len(entries), len(fresh)


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
    # in one order, so that two transactions never wait for each other crosswise
    ordered = sorted(rows, key=lambda row: (row.minute, row.tenant, row.key_id, row.deployment))
    with connection.cursor() as cursor:
        cursor.executemany(_ADD, [_values(row) for row in ordered])


def _values(row: UsageRow) -> tuple[Any, ...]:
    minute = datetime.fromtimestamp(row.minute - row.minute % 60, UTC)
    address = (minute, row.tenant[:63], row.key_id[:32], row.deployment[:63])
    return (*address, row.requests, row.errors, row.prompt_tokens, row.completion_tokens)
