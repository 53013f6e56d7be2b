"""What gateways tell of themselves, in Valkey: written once a second, gone when nobody writes it any more.

Guarantees
    Ages are by Valkey's clock, so those of the machines do not matter. A gateway that ends takes its word back.
Does not do
    Retry: one of `valkey.ERRORS` is for the caller.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio

from controlplane.domain.gateway_state import GatewayState, Heard
from controlplane.domain.rollups import Rollup
from controlplane.domain.samples import SamplePart
from controlplane.lib import keys, sample_store, wire

logger = logging.getLogger(__name__)

KEPT_S = 15
FRESH_S = 3.5  # one that was not heard of for longer is silent


async def write(
    client: redis.asyncio.Redis,
    state: GatewayState,
    parts: Sequence[SamplePart],
    rollups: Sequence[Rollup],
    now: float,
) -> None:
    """Writes a gateway's word, and the samples that its charts are made of, in one pipeline."""
    pipeline = client.pipeline(transaction=False)
    pipeline.set(keys.gateway_state(state.id), wire.encode(state), px=KEPT_S * 1000)
    pipeline.zadd(keys.gateways(), {state.id: now})
    if parts:
        sample_store.queue_parts(pipeline, parts, now)
    if rollups:
        sample_store.queue_rollups(pipeline, rollups)
    await pipeline.execute()


async def take_back(client: redis.asyncio.Redis, gateway_id: str) -> None:
    """A gateway ends."""
    await client.delete(keys.gateway_state(gateway_id))


def read(client: redis.Redis) -> list[Heard]:
    """Returns the last word of each gateway that spoke within `KEPT_S`, the oldest process first."""
    members: Any = client.zrange(keys.gateways(), 0, -1)
    ids = [one.decode() for one in members]
    if not ids:
        return []
    pipeline = client.pipeline(transaction=False)
    for one in ids:
        pipeline.get(keys.gateway_state(one))
        pipeline.pttl(keys.gateway_state(one))
    found: list[Any] = pipeline.execute()
    heard = []
    for place in range(len(ids)):
        data, left_ms = found[2 * place : 2 * place + 2]
        if data is None or left_ms < 0:
            continue
        try:
            state = wire.decode(data, GatewayState)
        except wire.WireError as error:  # of a newer version
            logger.warning("what gateway %s tells can't be read: %s", ids[place], error)
            continue
        age_s = max(0.0, KEPT_S - left_ms / 1000)
        heard.append(Heard(state, age_s, age_s <= FRESH_S))
    return sorted(heard, key=lambda one: (one.state.started_at, one.state.id))
