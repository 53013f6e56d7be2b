"""The knees that this process has found in its replicas, kept in Valkey for whoever owns them next.

Guarantees
    A process that begins, or takes a deployment over, goes on from the knee of the one before, within a second or two.
    Valkey being away costs nothing but that: the knee is searched anew.
Concurrency
    One task; reads and changes the gates from their own loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator

import redis.asyncio

from controlplane.domain.admission.seats import Seats
from controlplane.gateway.gate import Gate
from controlplane.gateway.gates import Gates
from controlplane.lib import keys, valkey

logger = logging.getLogger(__name__)

EVERY_S = 1.0
KEPT_S = 7 * 24 * 3600
WRITTEN_AGAIN_S = 24 * 3600.0
MOST_SEATS = 1_000_000  # a text in Valkey is not to be believed in everything


class Knees:
    """Follows the seats of the deployments that this process owns."""

    def __init__(self, gates: Gates, is_elsewhere: Callable[[str], bool]) -> None:
        self._gates = gates
        self._is_elsewhere = is_elsewhere
        self._asked: set[str] = set()  # replicas of which Valkey has told what it knows
        self._written: dict[str, tuple[int, float]] = {}  # replica id -> its knee, and when it was written

    async def run(self, client: redis.asyncio.Redis) -> None:
        """Looks once a second; ends only when cancelled."""
        while True:
            try:
                await self.look(client, time.monotonic())
            except valkey.ERRORS as error:
                logger.debug("knees are neither read nor written: %s", error)
            await asyncio.sleep(EVERY_S)

    async def look(self, client: redis.asyncio.Redis, now: float) -> None:
        """Reads the knees of replicas that are new here, and writes those that were found."""
        own = {replica_id: gate for gate, replica_id, _ in self._own()}
        self._asked &= own.keys()
        self._written = {one: told for one, told in self._written.items() if one in own}
        if new := [one for one in own if one not in self._asked]:
            for replica_id, raw in zip(new, await client.mget([keys.knee(one) for one in new]), strict=True):
                self._take(own[replica_id], replica_id, raw, now)
            self._asked.update(new)
        for replica_id, knee in self._news(now):
            await client.set(keys.knee(replica_id), knee, ex=KEPT_S)
            self._written[replica_id] = knee, now

    def _own(self) -> Iterator[tuple[Gate, str, Seats]]:
        for gate in self._gates.by_name.values():
            if not gate.is_external and not self._is_elsewhere(gate.name):
                for replica_id, seats in gate.seats.items():
                    yield gate, replica_id, seats

    def _take(self, gate: Gate, replica_id: str, raw: bytes | str | None, now: float) -> None:
        seats = gate.seats.get(replica_id)
        knee = int(raw) if raw is not None and raw.isdigit() and len(raw) < 10 else 0
        if seats is not None and 0 < knee <= MOST_SEATS:
            seats.inherit(knee, now)
            self._written[replica_id] = knee, now

    def _news(self, now: float) -> list[tuple[str, int]]:
        found = []
        for _, replica_id, seats in self._own():
            knee = seats.proven
            if knee is None or replica_id not in self._asked:
                continue
            written, at = self._written.get(replica_id, (0, 0.0))
            if knee != written or now - at > WRITTEN_AGAIN_S:
                found.append((replica_id, knee))
        return found
