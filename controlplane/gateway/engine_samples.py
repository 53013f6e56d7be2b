"""What the engines say of themselves, read from Valkey once a second as long as anything runs in them.

Guarantees
    Valkey being away costs nothing but these figures: what is older than a few seconds counts for nothing. One field of
    one hash is read for each replica at work: what its node's collector wrote, a few numbers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import redis.asyncio

from controlplane.domain.samples import COLLECTOR, PART_STALE_AFTER_S, SamplePart
from controlplane.gateway.gates import Gates
from controlplane.gateway.signals import EngineSample
from controlplane.lib import sample_store, valkey

EVERY_S = 1.0
PACE = ("tokens_per_s", "prompt_tokens_per_s")
LATE_S = 2.0  # a rate says nothing of more than that: before, nobody looked


class EngineSamples:
    """Holds the newest sample of each replica at work. One task follows; `newest` is read from the same loop."""

    def __init__(self, gates: Gates) -> None:
        self._gates = gates
        self._samples: dict[str, EngineSample] = {}
        self._read_at = 0.0
        self._preempted: dict[str, tuple[float, float]] = {}  # replica id -> (when it was said, requests so far)

    def newest(self) -> Mapping[str, EngineSample]:
        """Returns replica id -> sample; empty when they are old."""
        return self._samples if time.monotonic() - self._read_at <= PART_STALE_AFTER_S else {}

    async def follow(self, client: redis.asyncio.Redis) -> None:
        """Reads once a second; ends only when cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.read(client)

    async def read(self, client: redis.asyncio.Redis) -> None:
        """Reads what is said of the replicas at work now."""
        at_work = self._at_work()
        if not at_work:
            self._samples = {}  # what was said of requests that have ended since says nothing of now
            return
        wanted = [(f"replica:{one}", f"{COLLECTOR}:{node}") for one, node in at_work.items()]
        try:
            found = await sample_store.newest_parts_async(client, wanted)
        except valkey.ERRORS:
            return
        parts = {subject.partition(":")[2]: part for subject, part in found.items()}
        self._samples = {replica_id: self._sample(replica_id, part) for replica_id, part in parts.items()}
        self._read_at = time.monotonic()

    def _at_work(self) -> dict[str, str]:
        """Replica id -> its node. Also of those in whose cache something shows that nobody here asked for."""
        found = {}
        for gate in self._gates.by_name.values():
            for place in gate.admission.places.values():
                target = gate.targets.get(place.id)
                if target is not None and target.replica.node and (place.running or place.elsewhere_tokens):
                    found[place.id] = target.replica.node
        if len(self._preempted) > len(found):
            known = {one for gate in self._gates.by_name.values() for one in gate.targets}
            self._preempted = {one: told for one, told in self._preempted.items() if one in known}
        return found

    def _sample(self, replica_id: str, part: SamplePart) -> EngineSample:
        """A rate counts for as long as nothing newer was said, and once."""
        values = part.values
        said_at, so_far = self._preempted.get(replica_id, (part.at - EVERY_S, 0.0))
        rate = values.get("preemptions")
        if part.at > said_at:
            so_far += (rate or 0.0) * min(part.at - said_at, LATE_S)
            self._preempted[replica_id] = part.at, so_far
        preempted = None if rate is None else so_far
        pace = [one for name in PACE if (one := values.get(name)) is not None]
        return EngineSample(values.get("waiting"), values.get("kv_usage"), preempted, sum(pace) if pace else None)
