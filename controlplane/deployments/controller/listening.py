"""Hearing the reports of nodes from their stream in Valkey."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Any

import redis

from controlplane.domain.observed import NODE_LOST_AFTER_S, NodeReport
from controlplane.lib import keys, wire

logger = logging.getLogger(__name__)

BLOCK_MS = 500
AT_ONCE = 500
MOST_READS = 20  # one after another, when much has come meanwhile; the stream keeps less than that
LONGEST_GAP_S = NODE_LOST_AFTER_S / 2  # who did not listen for so long may have missed somebody
UNREADABLE_TOLD_EVERY_S = 60.0
_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


@dataclass(frozen=True, slots=True)
class Heard:
    """A report, and when it came into the stream by the clock of Valkey (seconds since the epoch)."""

    report: NodeReport
    at: float

    @property
    def clock_ahead_s(self) -> float | None:
        """By how much the node's clock is ahead of Valkey's; negative = behind, None = the node does not say."""
        return round(self.report.reported_at - self.at, 1) if self.report.reported_at > 0 else None


class Listener:
    """Reads reports as they come. Reports are whole and repeated, so it begins with what comes next and keeps no
    place over restarts; `since` is from when on it has heard everything."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._last_id: str | None = None
        self._listened_at = 0.0
        self._unreadable_told_at: float | None = None
        self.since = 0.0

    def read(self, now: float) -> list[Heard]:
        """Waits up to `BLOCK_MS` for reports, takes everything that has come, and returns the newest of each worker of
        a node in the order in which they came. Raises one of valkey.ERRORS."""
        if self._last_id is None:
            self._last_id = self._newest_id()
            self.since = now
        elif not 0 <= now - self._listened_at < LONGEST_GAP_S:
            self.since = now  # this process stood still, or the clock was set
        self._listened_at = now
        newest: dict[tuple[str, str], Heard] = {}
        for number in range(MOST_READS):
            entries = self._entries(BLOCK_MS if number == 0 else None)
            for entry_id, fields in entries:
                self._last_id = entry_id.decode()
                report = self._decode(fields, now)
                if report is not None:
                    address = (report.node, report.incarnation)
                    newest.pop(address, None)
                    newest[address] = Heard(report, _milliseconds(self._last_id) / 1000)
            if len(entries) < AT_ONCE:
                break
        if not newest:
            self._look_for_a_new_stream()
        return list(newest.values())

    def interrupted(self) -> None:
        """Tells that the stream could not be read: what was said meanwhile may be lost."""
        self._last_id = None

    def _entries(self, block_ms: int | None) -> list[tuple[bytes, dict[bytes, bytes]]]:
        # shape: [(stream, [(entry id, {field: value})])]
        answer: Any = self._client.xread({keys.observations(): self._last_id or "0-0"}, count=AT_ONCE, block=block_ms)
        return [entry for _, entries in answer or [] for entry in entries]

    def _look_for_a_new_stream(self) -> None:
        """A stream that was made anew by a server whose clock is behind has lower ids than the one we know."""
        newest = self._newest_id()
        if _order(newest) < _order(self._last_id or "0-0"):
            logger.warning("the stream of reports was made anew")
            self._last_id = "0-0"

    def _newest_id(self) -> str:
        entries: Any = self._client.xrevrange(keys.observations(), count=1)
        return str(entries[0][0].decode()) if entries else "0-0"

    def _decode(self, fields: dict[bytes, bytes], now: float) -> NodeReport | None:
        try:
            return wire.decode(without_nul(fields[b"report"]), NodeReport)
        except (KeyError, wire.WireError) as error:
            told_at = self._unreadable_told_at
            if told_at is None or not 0 <= now - told_at < UNREADABLE_TOLD_EVERY_S:
                self._unreadable_told_at = now
                logger.error("a report of a node can't be read: %s", error)
            return None


def without_nul(data: bytes) -> bytes:
    """Returns JSON without the character NUL in its texts, which PostgreSQL can't keep and engines sometimes log."""
    return _NUL.sub(rb"\1", data) if b"\\u0000" in data else data


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number)


def _milliseconds(entry_id: str) -> int:
    return _order(entry_id)[0]
