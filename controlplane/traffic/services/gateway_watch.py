"""Gateway processes that have gone silent, into the journal: whoever looks there at night sees why streams broke.

Guarantees
    Once for each process, a few seconds after its last word. One that ends as it was told to takes its word back and is
    not told of. A process that was silent only because Valkey was away is back before it counts.
"""

from __future__ import annotations

import redis

from controlplane.domain.gateway_state import Heard
from controlplane.journal.services import record
from controlplane.lib import gateway_state, keys

SILENT_S = 6.0
REMEMBERED_S = 3600


def look(client: redis.Redis) -> int:
    """Writes down who has gone silent; returns how many."""
    silent = [one for one in gateway_state.read(client) if one.age_s > SILENT_S]
    news = [one for one in silent if not client.exists(keys.gateway_missed(one.state.id))]
    for one in news:
        _write(one)
        client.set(keys.gateway_missed(one.state.id), b"1", ex=REMEMBERED_S)
    return len(news)


def _write(heard: Heard) -> None:
    state = heard.state
    record.event(
        actor=record.SYSTEM,
        verb="gateway.silent",
        object_kind="gateway",
        object_id=state.id,
        object_name=state.id,
        level="warning",
        message=f"The gateway process {state.id} at {state.address} has said nothing for some seconds: it has ended or"
        " hangs. What it worked on is lost; others go on, and it is started again. Its log tells why.",
        numbers={"pid": state.pid, "silent_s": round(heard.age_s, 1)},
    )
