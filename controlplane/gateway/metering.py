"""What the gateway counts: latencies, rates and usage.

Guarantees
    A request costs a few additions here; sums over replicas and over time are made once a second by `sampling`. Latency
    is measured from the arrival of the request to the first event (TTFT, streams only: the first byte of a plain
    answer is not a first token) and to the last byte (E2E); TPOT is (E2E - TTFT) / (tokens - 1) of streams with more
    than one token. Only whole answers give a TPOT and an E2E.
Does not do
    I/O, clocks of its own.
Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from controlplane.domain.admission.ticket import Ticket
from controlplane.domain.routing import RoutedKey
from controlplane.gateway.asks import Ask
from controlplane.gateway.gate import Gate
from controlplane.gateway.relay import Relay
from controlplane.lib import histograms

WINDOW_S = 60
LATENCIES = ("ttft", "tpot", "e2e")
Counts = dict[int, int]


class Tally:
    """Counts of some span of time: requests, tokens and three latency histograms."""

    __slots__ = ("e2e", "errors", "output_tokens", "prompt_tokens", "requests", "seconds", "tpot", "ttft")

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.ttft: Counts = {}
        self.tpot: Counts = {}
        self.e2e: Counts = {}
        self.seconds = dict.fromkeys(LATENCIES, 0.0)  # sums of the observations

    def add(self, other: Tally) -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.prompt_tokens += other.prompt_tokens
        self.output_tokens += other.output_tokens
        for name in LATENCIES:
            histograms.add(getattr(self, name), getattr(other, name))
            self.seconds[name] += other.seconds[name]

    def take_away(self, other: Tally) -> None:
        """Undoes `add`; a bucket that is back at 0 is gone."""
        self.requests -= other.requests
        self.errors -= other.errors
        self.prompt_tokens -= other.prompt_tokens
        self.output_tokens -= other.output_tokens
        for name in LATENCIES:
            counts: Counts = getattr(self, name)
            for bucket, count in getattr(other, name).items():
                left = counts[bucket] - count
                if left:
                    counts[bucket] = left
                else:
                    del counts[bucket]
            self.seconds[name] -= other.seconds[name]

    def histograms(self) -> dict[str, Counts]:
        """Returns copies of the histograms that are not empty."""
        return {name: dict(counts) for name in LATENCIES if (counts := getattr(self, name))}

    @property
    def empty(self) -> bool:
        return not (self.requests or self.output_tokens or self.ttft)


class Series:
    """One replica of one deployment: the running second, and `window`, the sum of the 60 before it."""

    __slots__ = ("_seconds", "last_output_tokens", "now", "window")

    def __init__(self) -> None:
        self.now = Tally()
        self.window = Tally()
        self.last_output_tokens = 0  # of the second that has ended last
        self._seconds: deque[Tally | None] = deque()  # None = nothing happened

    def turn(self) -> Tally | None:
        """Ends the running second and returns it, None when nothing happened in it."""
        second = None if self.now.empty else self.now
        self._seconds.append(second)
        self.last_output_tokens = self.now.output_tokens
        if second is not None:
            self.window.add(second)
            self.now = Tally()
        if len(self._seconds) > WINDOW_S and (old := self._seconds.popleft()) is not None:
            self.window.take_away(old)
        return second

    @property
    def quiet(self) -> bool:
        """Whether nothing has happened for a whole window."""
        return self.now.empty and not any(self._seconds)


class Live:
    """A request that a replica works on, and what of it has been counted already."""

    __slots__ = (
        "arrived_at",
        "ask",
        "ends_at",
        "events_counted",
        "events_looked_at",
        "first_counted",
        "gate",
        "key",
        "output_tokens",
        "prompt_tokens",
        "relay",
        "replica_id",
        "series",
        "spent",
        "ticket",
        "wants_stream",
    )

    def __init__(self, key: RoutedKey, gate: Gate, series: Series, relay: Relay, ticket: Ticket, *, ask: Ask) -> None:
        self.key = key
        self.gate = gate
        self.series = series
        self.relay = relay
        self.ticket = ticket
        self.replica_id = ticket.replica_id
        self.ask = ask
        self.wants_stream = ask.stream
        self.arrived_at = ticket.arrived_at
        self.ends_at = 0.0  # worked out when it is looked at first
        self.events_counted = 0
        self.events_looked_at = 0
        self.first_counted = False
        self.prompt_tokens = 0  # by the engine's own count; 0 while it gave none
        self.output_tokens = 0
        # what it counts for once it is over, in usage and in quotas: (prompt, output) tokens; None = for nothing
        self.spent: tuple[int, int] | None = None

    @property
    def was_worked_on(self) -> bool:
        """Whether an engine did something for it, once it is over: not where it refused, or gave nothing before it
        broke. What it did not count is counted as it was estimated, here as in quotas."""
        relay = self.relay
        return relay.upstream_status < 400 and (relay.outcome != "broken" or bool(self.output_tokens))

    def counted(self, prompt_tokens: int, output_tokens: int) -> None:
        """Takes the engine's own counts, once it is over, and works out what it has `spent`.

        What failed counts for what the client got of it. One whose client left counts for its prompt and what had come:
        nobody shall have long answers for nothing by leaving just before their end.
        """
        self.prompt_tokens, self.output_tokens = prompt_tokens, output_tokens
        if not self.was_worked_on:
            return
        ticket = self.ticket
        if self.relay.outcome != "whole" or prompt_tokens or output_tokens:
            self.spent = prompt_tokens or ticket.prompt_tokens, output_tokens
        else:  # the engine counted nothing
            self.spent = ticket.prompt_tokens, ticket.output_tokens


@dataclass(slots=True)
class Used:
    """What one key used of one deployment in one minute."""

    requests: int = 0
    errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


# (start of the minute, tenant, key id, deployment)
UsageKey = tuple[int, str, str, str]


class Meter:
    """All counts of one gateway process."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, int], int] = {}  # (deployment, status; 499 = the client left) -> requests
        self.sent_elsewhere: dict[tuple[str, str, str], int] = {}  # (deployment, who failed, why) -> requests
        self.usage: dict[UsageKey, Used] = {}  # not yet handed on
        self.minute = 0  # the start of the running minute, set by the owner of the clock
        self.series: dict[tuple[str, str], Series] = {}  # (deployment, replica id; "" when none was reached)
        self.live: set[Live] = set()

    def began(self, key: RoutedKey, gate: Gate, relay: Relay, ticket: Ticket, ask: Ask) -> Live:
        """Notes that a replica works on a request."""
        series = self._series_of(gate.name, ticket.replica_id)
        live = Live(key, gate, series, relay, ticket, ask=ask)
        self.live.add(live)
        return live

    def dropped(self, live: Live, why: str = "") -> None:
        """Notes that an exchange came to nothing and is tried again; with `why`, on another replica."""
        self.live.discard(live)
        if why:
            address = (live.gate.name, live.replica_id, why)
            self.sent_elsewhere[address] = self.sent_elsewhere.get(address, 0) + 1

    def ended(self, live: Live) -> None:
        """Counts a request whose exchange is over."""
        self.live.discard(live)
        relay, now = live.relay, live.series.now
        status = relay.status or (499 if relay.outcome == "gone" else 502)
        failed = relay.outcome == "broken" or status >= 500
        usage = relay.usage()
        prompt_tokens = usage.prompt_tokens or 0 if usage is not None else 0
        if relay.events is not None:
            tokens = relay.events.output_tokens()
            self._stream_ended(live, tokens)
        else:
            tokens = usage.completion_tokens or 0 if usage is not None else 0
            now.output_tokens += tokens
        if relay.outcome == "whole" and status < 400:
            _observe(now.e2e, now.seconds, "e2e", relay.ended_at - live.arrived_at)
        live.counted(prompt_tokens, tokens)
        spent_prompt, spent_output = live.spent or (0, 0)
        now.requests += 1
        now.prompt_tokens += spent_prompt
        if failed:
            now.errors += 1
        used = self._count(live.key, live.gate.name, status)
        used.errors += failed
        used.prompt_tokens += spent_prompt
        used.completion_tokens += spent_output

    def refused(self, key: RoutedKey, deployment: str, status: int) -> None:
        """Counts a request that no replica worked on."""
        now = self._series_of(deployment, "").now
        now.requests += 1
        now.errors += 1
        self._count(key, deployment, status).errors += 1

    def look_at_live(self) -> None:
        """Counts what running streams have brought so far; called at the end of each second."""
        for live in self.live:
            events = live.relay.events
            if events is not None:
                self._first_event(live)
                live.series.now.output_tokens += events.events - live.events_counted
                live.events_counted = events.events

    def take_usage(self) -> dict[UsageKey, Used]:
        """Returns what was used since the last call, and begins anew."""
        usage, self.usage = self.usage, {}
        return usage

    def _series_of(self, deployment: str, replica_id: str) -> Series:
        series = self.series.get((deployment, replica_id))
        if series is None:
            series = self.series[deployment, replica_id] = Series()
        return series

    def _first_event(self, live: Live) -> None:
        if not live.first_counted and live.relay.first_at is not None:
            live.first_counted = True
            now = live.series.now
            _observe(now.ttft, now.seconds, "ttft", live.relay.first_at - live.arrived_at)

    def _stream_ended(self, live: Live, tokens: int) -> None:
        self._first_event(live)
        relay, now = live.relay, live.series.now
        # an engine may send several tokens in an event; a count below what was shown already is not taken back
        now.output_tokens += max(0, tokens - live.events_counted)
        each = tokens / live.ticket.sequences  # they come side by side
        if relay.outcome == "whole" and each > 1 and relay.first_at is not None:
            _observe(now.tpot, now.seconds, "tpot", (relay.ended_at - relay.first_at) / (each - 1))

    def _count(self, key: RoutedKey, deployment: str, status: int) -> Used:
        answer = (deployment, status)
        self.answers[answer] = self.answers.get(answer, 0) + 1
        address = (self.minute, key.tenant, key.id, deployment)
        used = self.usage.get(address)
        if used is None:
            used = self.usage[address] = Used()
        used.requests += 1
        return used


def _observe(counts: Counts, sums: dict[str, float], name: str, seconds: float) -> None:
    bucket = histograms.bucket_of(seconds)
    counts[bucket] = counts.get(bucket, 0) + 1
    sums[name] += seconds
