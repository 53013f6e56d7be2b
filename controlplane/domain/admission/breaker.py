"""Which replicas are left alone for a while because they fail, or do not get on.

Counted are connections that are refused and answers that break or are the replica's own fault; never a client's error,
and never back-pressure. These are no success either: a broken engine still refuses wrong requests well.

Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

FAILURES_IN_A_ROW = 5
REST_FIRST_S = 5.0
REST_MOST_S = 60.0
STREAM_STALL_S = 20.0
PLAIN_STALL_S = 180.0  # a plain answer shows nothing before it is whole
SLOW_PREFILL_TOKENS_PER_S = 500.0  # of a long prompt that is one step: while it is worked on no stream has a token


@dataclass(slots=True)
class _Row:
    failures: int = 0
    rests: int = 0


class Breaker:
    """Failures of replicas in a row. One success forgets them."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def failed(self, replica_id: str) -> float | None:
        """Notes a failure and returns for how many seconds the replica rests, None when it goes on."""
        row = self._rows.setdefault(replica_id, _Row())
        row.failures += 1
        if row.failures < FAILURES_IN_A_ROW:
            return None
        row.failures = FAILURES_IN_A_ROW - 1  # after its rest one more failure is enough
        row.rests += 1
        return float(min(REST_MOST_S, REST_FIRST_S * 2.0 ** min(row.rests - 1, 10)))

    def succeeded(self, replica_id: str) -> None:
        """Notes an answer that was whole."""
        if self._rows:
            self._rows.pop(replica_id, None)

    def keep_only(self, replica_ids: Collection[str]) -> None:
        """Forgets every replica that is not in `replica_ids`."""
        for replica_id in [one for one in self._rows if one not in replica_ids]:
            del self._rows[replica_id]


BACK_PRESSURE = frozenset({429, 503})
ELSEWHERE = BACK_PRESSURE | {500, 502}
NOT_ITS_FAULT = BACK_PRESSURE | {501}  # it can't do this


def is_failure(status: int) -> bool:
    """Returns whether an answer's status is the replica's own fault."""
    return status >= 500 and status not in NOT_ITS_FAULT


def is_success(status: int) -> bool:
    """Returns whether an answer's status shows that the replica works."""
    return status < 400


def goes_elsewhere(status: int) -> bool:
    """Returns whether another replica may do better at a request that one answered so: it failed, or has too much to
    do. Not a client's error, nor what says that the work took too long or can't be done (501, 504): that would only
    double it."""
    return status in ELSEWHERE


@dataclass(slots=True)
class Progress:
    """Whether a replica that holds requests gets on with them. `moved_at` is when a token or an answer came last, or
    the engine's own figures moved: they show the prefill of a long prompt, and plain answers, of which nothing comes
    here for long. Those of an engine that hangs are still told, and stand still."""

    moved_at: float
    is_stalled: bool = False
    kv_usage: float | None = None

    def look(
        self,
        *,
        streams: int,
        plain: int,
        moved: bool,
        now: float,
        longest_prompt_tokens: int = 0,
        kv_usage: float | None = None,
        tokens_per_s: float | None = None,
    ) -> bool:
        """Takes what one second brought (streams that nobody holds up, plain requests; of streams without a token the
        longest prompt; what the engine says of its cache and its pace) and returns whether the replica holds requests
        and has brought nothing for too long."""
        figures_move = bool(tokens_per_s) or (kv_usage is not None and kv_usage != self.kv_usage)
        self.kv_usage = kv_usage
        if moved or figures_move or not (streams or plain):
            self.moved_at = now
        limit_s = PLAIN_STALL_S
        if streams:
            limit_s = STREAM_STALL_S + longest_prompt_tokens / SLOW_PREFILL_TOKENS_PER_S
        self.is_stalled = now - self.moved_at >= limit_s
        return self.is_stalled
