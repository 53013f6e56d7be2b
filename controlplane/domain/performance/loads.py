"""From a load as it is described to the state of one copy: fixed concurrency, arrivals at a rate, all at once, as much
as it carries.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.performance.closed_loop import Limits, State, solve
from controlplane.domain.performance.setup import LoadMode, Workload
from controlplane.domain.performance.step_time import Rates

MOST_CONCURRENCY = 1_000_000.0
HALVINGS = 30


def state_of(
    speed: Rates,
    load: Workload,
    limits: Limits,
    mode: LoadMode,
    *,
    concurrency: float | None,
    requests_per_s: float | None,
    usual_max_seqs: float,
) -> State:
    """State of one copy; `concurrency` and `requests_per_s` are of this copy.

    `usual_max_seqs` bounds what runs at once where the load itself does not.
    """
    bounded = replace(limits, requests=min(limits.requests, usual_max_seqs))
    if mode == "open_loop" and requests_per_s is not None:
        return _at_rate(speed, load, bounded, requests_per_s)
    if mode == "closed_loop" or (concurrency is not None and mode != "burst"):
        return solve(speed, load, limits, concurrency or 1.0)
    if mode == "burst":
        sent = concurrency or load.requests or limits.running(load)
        return _all_at_once(solve(speed, load, bounded, max(1.0, sent)), max(1.0, sent))
    return solve(speed, load, bounded, bounded.running(load))


def _at_rate(speed: Rates, load: Workload, limits: Limits, rate: float) -> State:
    """The smallest concurrency that completes `rate` requests a second; saturation where none does.

    A run of so many requests has half of them in flight at most, on average, however fast they come.
    """
    low, high = 1.0, limits.running(load)
    if load.requests is not None:
        high = max(low, min(high, load.requests / 2))
    full = solve(speed, load, limits, high)
    if full.requests_per_s <= rate:
        return full
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if solve(speed, load, limits, middle).requests_per_s < rate:
            low = middle
        else:
            high = middle
    return solve(speed, load, limits, high)


def _all_at_once(state: State, sent: float) -> State:
    """A burst drains: on average a request waits for half of those before it."""
    first_s = max(state.ttft_s - state.wait_s / 2, sent / state.requests_per_s / 2)
    return replace(state, ttft_s=first_s, concurrency=sent)
