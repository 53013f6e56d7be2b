"""What the engines say of themselves, read from Valkey once a second while it matters.

Guarantees
    Valkey being away costs nothing but these figures: what is older than a few seconds counts for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import redis.asyncio

from controlplane.domain.samples import PART_STALE_AFTER_S
from controlplane.gateway.gates import Gates
from controlplane.gateway.signals import EngineSample
from controlplane.lib import sample_store, valkey

EVERY_S = 1.0
BUSY_SHARE = 0.5  # a replica with fewer of its seats taken has nothing to decide


class EngineSamples:
    """Holds the newest sample of each busy replica. One task follows; `newest` is read from the same loop."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._samples: dict[str, EngineSample] = {}
        self._read_at = 0.0

    def newest(self) -> Mapping[str, EngineSample]:
        """Returns replica id -> sample; empty when they are old."""
        return self._samples if time.monotonic() - self._read_at <= PART_STALE_AFTER_S else {}

    async def follow(self, client: redis.asyncio.Redis) -> None:
        """Reads once a second; ends only when cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            busy = self._busy()
            if not busy:
                continue
            try:
                found = await sample_store.newest_async(client, [f"replica:{one}" for one in busy])
            except valkey.ERRORS:
                continue
            self._samples = {name.partition(":")[2]: _of(sample) for name, sample in found.items()}
            self._read_at = time.monotonic()

    def _busy(self) -> list[str]:
        return [
            place.id
            for gate in self._gates.by_name.values()
            for place in gate.admission.places.values()
            if place.running > BUSY_SHARE * place.seats
        ]


def _of(sample: sample_store.Sample) -> EngineSample:
    return EngineSample(sample.get("waiting"), sample.get("kv_usage"), sample.get("preemptions") or 0.0)
