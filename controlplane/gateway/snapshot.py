"""The routing snapshot: where it comes from and how the gateway keeps serving without its source.

Guarantees
    Versions only grow (see `routing.is_newer`), schemas are checked before anything else, and the last good snapshot
    lies on disk (0600, replaced at once), so a gateway serves on, and even starts, while Valkey is down. A snapshot
    older than 24 h is not served from.
Concurrency
    One task listens and polls; `routes` is replaced as a whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import redis.asyncio

from controlplane.domain.routing import RoutingSnapshot, is_accepted_schema, is_far_away, is_newer, is_too_old
from controlplane.gateway.errors import no_snapshot
from controlplane.gateway.routes import Routes, compile_routes
from controlplane.lib import keys, valkey, wire
from controlplane.lib.upstream import Pools

logger = logging.getLogger(__name__)

POLL_S = 1.0


class _Head(msgspec.Struct):
    schema: int
    version: int


class Snapshots:
    """Holds the newest good snapshot. `source` is none, disk or valkey."""

    def __init__(self, folder: Path, pools: Pools, on_change: Callable[[Routes], None], *, keep: bool = True) -> None:
        self._path = folder / "snapshot.json"
        self._pools = pools
        self._on_change = on_change
        self._keeps = keep  # one of several processes does
        self._raw = b""
        self._refusal = ""  # why the newest document in Valkey was not taken
        self.routes: Routes | None = None
        self.source = "none"
        self.valkey_up = False
        self.refused_count = 0

    def current(self, now: float) -> Routes:
        """Returns what to serve from at `now`; raises GatewayError 503 without a usable snapshot."""
        routes = self.routes
        if routes is None:
            raise no_snapshot(
                "The gateway has no routing snapshot yet. It comes from the controller through Valkey"
                + (f", but the newest was refused: {self._refusal}." if self._refusal else ".")
            )
        if is_too_old(routes.snapshot, now):
            raise no_snapshot("The gateway's routing snapshot is older than 24 hours. Is the controller running?")
        return routes

    def load_from_disk(self) -> None:
        """Takes the snapshot that an earlier run left, if there is a good one."""
        try:
            raw = self._path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            logger.error("the kept snapshot %s can't be read: %s", self._path, error.strerror)
            return
        self._take(raw, "disk")

    async def follow(self, client: redis.asyncio.Redis) -> None:
        """Reads the snapshot at once, at every notice and every second; ends only when cancelled."""
        while True:
            try:
                async with client.pubsub() as notices:
                    await notices.subscribe(keys.snapshot_changed())
                    while True:
                        await self.read(client)
                        # returns early when a notice comes
                        await notices.get_message(ignore_subscribe_messages=True, timeout=POLL_S)
            except valkey.ERRORS as error:
                if self.valkey_up:
                    logger.warning("Valkey does not answer (%s); serving on from snapshot %s", error, self.version)
                self.valkey_up = False
                await asyncio.sleep(POLL_S)

    async def read(self, client: redis.asyncio.Redis) -> None:
        """Reads the snapshot once; raises one of valkey.ERRORS."""
        raw: Any = await client.get(keys.snapshot())
        self.valkey_up = True
        if raw is not None and raw != self._raw:
            self._take(raw, "valkey")

    @property
    def version(self) -> int | None:
        return None if self.routes is None else self.routes.snapshot.version

    def _take(self, raw: bytes, source: str) -> None:
        self._raw = raw
        try:
            head = wire.decode(raw, _Head)
            if not is_accepted_schema(head.schema):
                raise wire.WireError(f"schema {head.schema} is not one that this version reads; upgrade the gateway")
            snapshot = wire.decode(raw, RoutingSnapshot)
        except wire.WireError as error:
            self._refuse(str(error), source)
            return
        current = None if self.routes is None else self.routes.snapshot
        if not is_newer(snapshot, current):
            self._refuse(f"version {snapshot.version} is not newer than {self.version}", source)
            return
        if source == "disk" and is_far_away(snapshot, time.time()):
            logger.warning("the kept snapshot was published more than 24 h away from now and is not used")
            return
        self._refusal = ""
        self.source = source
        self.routes = compile_routes(snapshot, self._pools)
        self._on_change(self.routes)
        if source == "valkey" and self._keeps:
            self._keep(raw)

    def _refuse(self, why: str, source: str) -> None:
        self._refusal = why
        self.refused_count += 1
        logger.error("a snapshot from %s was refused: %s", source, why)

    def _keep(self, raw: bytes) -> None:
        """It holds keys of replicas, hence 0600 from its first byte."""
        fresh = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(raw)
            fresh.replace(self._path)
        except OSError as error:
            logger.error("the snapshot can't be kept at %s: %s", self._path, error.strerror)
