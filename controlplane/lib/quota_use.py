"""What gateways share of limits in Valkey, for pages: read only.

Does not do
    Decisions: what the fields mean says `controlplane.domain.quotas.use`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis

from controlplane.domain.quotas.measures import MEASURES
from controlplane.domain.quotas.windows import window_of
from controlplane.lib import keys

Meter = tuple[str, str]  # quota's id, measure


def read(client: redis.Redis, meters: Sequence[Meter]) -> tuple[float, bool, dict[Meter, dict[str, str]]]:
    """Returns Valkey's time, whether it knows what was used before, and the fields of each limit in its window of now;
    two round trips. Raises one of `valkey.ERRORS`."""
    pipeline = client.pipeline(transaction=False)
    pipeline.time()
    pipeline.exists(keys.quota_use_known())
    (seconds, micros), known = pipeline.execute()
    now = seconds + micros / 1e6
    for quota_id, measure in meters:
        window, _ = window_of(MEASURES[measure].kind, now)
        pipeline.hgetall(f"{keys.quota(f'{quota_id}:{measure}')}:{window}")
    answers: list[Any] = pipeline.execute() if meters else []
    found = {
        meter: {name.decode(): value.decode() for name, value in fields.items()}
        for meter, fields in zip(meters, answers, strict=True)
    }
    return now, bool(known), found
