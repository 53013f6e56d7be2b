"""What one engine's scrapes say over time: gauges as they are, counters as rates, the last minute's percentiles.

Guarantees
    A counter that goes back (the engine was started again) gives no rate for that second, never a negative one. What
    the engine does not say is None, and a series that it must have is named in `problems`.
Does not do
    I/O or clocks; `now` is a monotonic time in seconds.
Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from controlplane.lib.metrics_text import Reader, Reading, Wanted, labels_of, percentile_of_buckets
from engine_adapters.base import MetricNames

WINDOW_S = 60.0
WINDOW_STEP_S = 5.0  # the window's past is kept in steps: 12 readings, not 60
REQUIRED = ("running", "waiting", "kv_usage", "generation_tokens")

# counter role -> field
RATES: Mapping[str, str] = {
    "preemptions": "preemptions",
    "generation_tokens": "tokens_per_s",
    "prompt_tokens": "prompt_tokens_per_s",
}
ENGINE_PERCENTILES: Mapping[str, str] = {"ttft": "engine_ttft", "inter_token": "engine_itl"}
SHARES: tuple[tuple[str, float], ...] = (("p50", 0.5), ("p95", 0.95))

Buckets = tuple[tuple[float, float], ...]


@lru_cache(maxsize=32)
def make_reader(names: MetricNames) -> Reader:
    """Returns the reader for an engine version's names; engines of one version share it."""
    return Reader(
        (
            Wanted("running", names.running),
            Wanted("waiting", names.waiting),
            Wanted("kv_usage", names.kv_usage, "mean"),
            Wanted("preemptions", names.preemptions),
            Wanted("generation_tokens", names.generation_tokens),
            Wanted("prompt_tokens", names.prompt_tokens),
            Wanted("prefix_hits", names.prefix_hits),
            Wanted("prefix_queries", names.prefix_queries),
        ),
        (Wanted("ttft", names.ttft), Wanted("inter_token", names.inter_token)),
    )


def cache_tokens(text: bytes, names: MetricNames) -> float | None:
    """Returns how many tokens the engine's KV cache holds, from its info series; None when it does not say."""
    labels = labels_of(text, names.cache_config)
    for product in (("kv_cache_size_tokens",), ("num_gpu_blocks", "block_size")):
        try:
            tokens = 1.0
            for label in product:
                tokens *= float(labels[label])
        except (KeyError, ValueError):
            continue
        return tokens
    return None


@dataclass(frozen=True, slots=True)
class Observation:
    """One second of one engine."""

    values: Mapping[str, float | None]
    problems: tuple[str, ...] = ()


class EngineWatch:
    """The scrapes of one engine process; make a new one for a new process."""

    def __init__(self, names: MetricNames, cache_tokens_known: float | None = None) -> None:
        self._names = names
        self._reader = make_reader(names)
        self._required = [role for role in REQUIRED if getattr(names, role)]
        self._cache_tokens = cache_tokens_known
        self._cache_asked = cache_tokens_known is not None
        self._last: tuple[float, Reading] | None = None
        self._past: deque[tuple[float, Reading]] = deque()

    def observe(self, text: bytes, now: float) -> Observation:
        """Returns what a scrape says, together with those before it."""
        reading = self._reader.read(text)
        if not self._cache_asked:
            self._cache_tokens, self._cache_asked = cache_tokens(text, self._names), True
        values: dict[str, float | None] = {name: reading.values[name] for name in ("running", "waiting")}
        values["batch_size"] = values["running"]
        values["kv_usage"] = _share(reading.values["kv_usage"])
        if values["kv_usage"] is not None and self._cache_tokens is not None:
            values["kv_tokens_reserved"] = values["kv_usage"] * self._cache_tokens
        values.update(self._rates(reading, now))
        self._remember(reading, now)
        values.update(self._last_minute(reading))
        return Observation(values, tuple(f"missing_series:{role}" for role in reading.missing(self._required)))

    def _rates(self, reading: Reading, now: float) -> dict[str, float | None]:
        if self._last is None:
            return {}
        then, before = self._last
        return {
            field: rate(before.values.get(role), reading.values.get(role), now - then) for role, field in RATES.items()
        }

    def _remember(self, reading: Reading, now: float) -> None:
        if self._last is not None and _went_back(self._last[1], reading):
            self._past.clear()
        self._last = (now, reading)
        if not self._past or now - self._past[-1][0] >= WINDOW_STEP_S:
            self._past.append((now, reading))
        while len(self._past) > 1 and now - self._past[1][0] >= WINDOW_S:
            self._past.popleft()

    def _last_minute(self, reading: Reading) -> dict[str, float | None]:
        begin = self._past[0][1]
        values: dict[str, float | None] = {}
        for role, prefix in ENGINE_PERCENTILES.items():
            buckets = _difference(begin.histograms.get(role, ()), reading.histograms.get(role, ()))
            for suffix, share in SHARES:
                values[f"{prefix}_{suffix}"] = percentile_of_buckets(buckets, share)
        hits = _growth(begin.values.get("prefix_hits"), reading.values.get("prefix_hits"))
        queries = _growth(begin.values.get("prefix_queries"), reading.values.get("prefix_queries"))
        values["prefix_hit_rate"] = hits / queries if hits is not None and queries else None
        return values


def rate(before: float | None, after: float | None, elapsed_s: float) -> float | None:
    """Returns a counter's growth a second; None when unknown or when the counter began anew."""
    growth = _growth(before, after)
    return None if growth is None or elapsed_s <= 0 else growth / elapsed_s


def _growth(before: float | None, after: float | None) -> float | None:
    if before is None or after is None or after < before:
        return None
    return after - before


def _went_back(before: Reading, after: Reading) -> bool:
    for role in ("generation_tokens", "prompt_tokens"):
        old, new = before.values.get(role), after.values.get(role)
        if old is not None and new is not None and new < old:
            return True
    return False


def _difference(before: Buckets, after: Buckets) -> Buckets:
    if len(before) != len(after):
        return ()
    return tuple((bound, count - old) for (bound, count), (_, old) in zip(after, before, strict=True))


def _share(value: float | None) -> float | None:
    """A share outside 0 to 1 is no share (-1 was seen for "switched off")."""
    return value if value is not None and 0.0 <= value <= 1.0 else None
