"""Hearing the reports of nodes from their stream in Valkey."""

from __future__ import annotations

import logging
from typing import Any

import redis

from controlplane.domain.observed import NodeReport
from controlplane.lib import keys, wire

logger = logging.getLogger(__name__)

BLOCK_MS = 500
AT_ONCE = 500


class Listener:
    """Reads reports as they come. Reports are whole and repeated, so it begins with what comes next and keeps no
    place over restarts; `since` is from when on it has heard everything."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._last_id: str | None = None
        self.since = 0.0

    def read(self, now: float) -> list[NodeReport]:
        """Waits up to `BLOCK_MS` for reports and returns the newest of each node. Raises one of valkey.ERRORS."""
        if self._last_id is None:
            self._last_id = self._newest_id()
            self.since = now
        # shape: [(stream, [(entry id, {field: value})])]
        answer: Any = self._client.xread({keys.observations(): self._last_id}, count=AT_ONCE, block=BLOCK_MS)
        newest: dict[str, NodeReport] = {}
        for _, entries in answer or []:
            for entry_id, fields in entries:
                self._last_id = entry_id.decode()
                report = _decode(fields)
                if report is not None:
                    newest[report.node] = report
        return list(newest.values())

    def interrupted(self) -> None:
        """Tells that the stream could not be read: what was said meanwhile may be lost."""
        self._last_id = None

    def _newest_id(self) -> str:
        entries: Any = self._client.xrevrange(keys.observations(), count=1)
        return str(entries[0][0].decode()) if entries else "0-0"


def _decode(fields: dict[bytes, bytes]) -> NodeReport | None:
    try:
        return wire.decode(fields[b"report"], NodeReport)
    except (KeyError, wire.WireError) as error:
        logger.error("a report of a node can't be read: %s", error)
        return None
