"""Level changes of ladders from the gateways' stream into the journal.

Guarantees
    An entry leaves the stream only when it stands in the journal; said twice, the decision counts up. What can't be
    read is logged and passed over.
"""

from __future__ import annotations

import logging
from typing import Any

import redis
from django.db import transaction

from controlplane.domain.degradation import LevelChange
from controlplane.journal.services import record
from controlplane.lib import keys, wire

logger = logging.getLogger(__name__)

AT_ONCE = 500
RULE = "degrade"


def take_over(client: redis.Redis) -> int:
    """Writes everything that is in the stream; returns how many changes."""
    entries: Any = client.xrange(keys.ladder_changes(), count=AT_ONCE)
    if not entries:
        return 0
    changes = [change for entry_id, fields in entries if (change := _decode(entry_id, fields)) is not None]
    with transaction.atomic():
        for change in changes:
            _write(change)
    client.xdel(keys.ladder_changes(), *[entry_id for entry_id, _ in entries])
    return len(changes)


def _write(change: LevelChange) -> None:
    record.decision(
        rule=RULE,
        object_kind="deployment",
        object_id=change.deployment,
        object_name=change.deployment,
        before=f"level {change.before}",
        after=f"level {change.after}",
        why=change.why,
        numbers={
            "saturation": change.saturation,
            "step": change.kind,
            "tiers": ", ".join(change.tiers),
        },
    )


def _decode(entry_id: bytes, fields: dict[bytes, bytes]) -> LevelChange | None:
    try:
        return wire.decode(fields[b"change"], LevelChange)
    except (KeyError, wire.WireError) as error:
        logger.error("a level change in entry %s can't be read: %s", entry_id.decode(), error)
        return None
