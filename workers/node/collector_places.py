"""Where a replica's log was left off, as the newest entry of its stream in Valkey tells.

A collector that starts goes on from there: the lines keep their numbers, and none comes twice.

Guarantees
    Asking never blocks. A replica whose place could not be read yet has none: its log waits until Valkey answers,
    without which nobody could show it anyway.
Concurrency
    One asking task a process; `known` and `ask` from the same loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import redis.asyncio

from controlplane.lib import keys, valkey
from workers.node.collector_logs import LogLine, LogPlace

AGAIN_AFTER_S = 1.0


class LogPlaces:
    """The places of the replicas that were asked for."""

    def __init__(self) -> None:
        self.known: dict[str, LogPlace | None] = {}  # replica id -> place; None = there is no log in Valkey
        self._wanted: set[str] = set()
        self._wake = asyncio.Event()

    def ask(self, replica_ids: Iterable[str]) -> None:
        """Wants these to be known, and no others any more."""
        wanted = set(replica_ids)
        self.known = {replica_id: place for replica_id, place in self.known.items() if replica_id in wanted}
        self._wanted = wanted - self.known.keys()
        if self._wanted:
            self._wake.set()

    async def ask_forever(self, client: redis.asyncio.Redis) -> None:
        """Reads what is wanted, as soon as it is wanted; after a failure once a second."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._read(client, sorted(self._wanted))
            except valkey.ERRORS:
                await asyncio.sleep(AGAIN_AFTER_S)

    async def _read(self, client: redis.asyncio.Redis, replica_ids: list[str]) -> None:
        pipeline = client.pipeline(transaction=False)
        for replica_id in replica_ids:
            pipeline.xrevrange(keys.engine_log(replica_id), count=1)
        for replica_id, entries in zip(replica_ids, await pipeline.execute(), strict=True):
            self.known[replica_id] = decode(entries[0][1]) if entries else None


def encode(line: LogLine) -> dict[str, Any]:
    """Returns the fields of a line's entry in the stream."""
    entry: dict[str, Any] = {"n": line.n, "line": line.line}
    if line.place is not None:
        entry["place"] = f"{line.place.inode}:{line.place.offset}"
    return entry


def decode(entry: Mapping[bytes, bytes]) -> LogPlace:
    """Returns the place behind an entry; one without (its poll was cut short) still tells the number."""
    n = int(entry.get(b"n", b"0"))
    inode, _, offset = entry.get(b"place", b"").decode().partition(":")
    return LogPlace(n, int(inode), int(offset)) if inode.isdigit() and offset.isdigit() else LogPlace(n)
