"""The newest lines of a replica's engine log, as its node's collector put them into Valkey."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import redis

from controlplane.lib import keys

KEPT_LINES = 1000


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line; `n` grows by one a line."""

    n: int
    line: str


def tail(client: redis.Redis, replica_id: str, lines: int) -> list[LogLine]:
    """Returns the newest `lines` lines, oldest first; none when nobody has written any within a day."""
    entries: Any = client.xrevrange(keys.engine_log(replica_id), count=lines)
    newest = [LogLine(int(fields[b"n"]), fields[b"line"].decode("utf-8", "replace")) for _, fields in entries]
    newest.reverse()
    return newest
