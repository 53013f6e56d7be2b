"""What a supervised replica does in helper threads: probes and the warm-up generation, whose answers are events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from controlplane.domain import lifecycle_events as events
from controlplane.domain.lifecycle import Reason
from engine_adapters.base import MetricNames, WarmUpRequest
from workers.node import probes, processes

DYING_S = 5.0  # an engine whose generation failed often ends by itself, and its exit tells more than the answer


class Helpers:
    """Daemon threads of one replica, at most one of a kind and launch at a time.

    `run` belongs to the supervisor's thread. A thread that hangs on an engine delays nothing but its own kind, and
    not even that for the next process of the replica.
    """

    def __init__(self, replica_id: str, deliver: Callable[[events.Event], None]) -> None:
        self._replica_id = replica_id
        self._deliver = deliver
        self._busy: set[str] = set()
        self._due: dict[str, float] = {}  # kind and launch -> when it may run again

    def run(self, kind: str, launch: int, every_s: float, work: Callable[[], events.Event | None]) -> None:
        """Runs `work` unless it still runs or is not due again; its event is delivered."""
        key, now = f"{kind} {launch}", time.monotonic()
        if key in self._busy or now < self._due.get(key, 0.0):
            return
        self._due = {key: now + every_s, **{k: due for k, due in self._due.items() if k != key and due > now}}
        self._busy.add(key)

        def run() -> None:
            try:
                event = work()
            finally:
                self._busy.discard(key)
            if event is not None:
                self._deliver(event)

        threading.Thread(target=run, name=f"{kind} {self._replica_id}", daemon=True).start()


def probe_health(launch: int, url: str, path: str) -> events.Event:
    """Asks the engine's health path."""
    return events.Healthy(launch) if probes.is_healthy(url, path) else events.Unhealthy(launch)


def count_in_flight(launch: int, url: str, names: MetricNames) -> events.Event:
    """Asks how many requests are in the engine."""
    return events.InFlight(launch, probes.count_in_flight(url, names))


def count_progress(launch: int, url: str, names: MetricNames) -> events.Event:
    """Asks how far the engine's counters have got."""
    return events.Progressed(launch, probes.count_progress(url, names))


def try_generation(launch: int, generate: Callable[[], probes.Generation]) -> events.Event:
    """Tries a small generation on an engine in which nothing moves."""
    try:
        generate()
    except probes.ProbeError as error:
        return events.NotGenerated(launch, str(error))
    return events.Generated(launch)


def warm_up(
    launch: int,
    identity: processes.Identity,
    generate: Callable[[], probes.Generation],
    log_tail: Callable[[], tuple[str, ...]],
    cache_config: Callable[[], Mapping[str, str]],
) -> events.Event | None:
    """Tries one generation; None when the engine ended over it: then its end is the event, with a reason from its
    log."""
    try:
        done = generate()
    except probes.ProbeError as error:
        if _ends_soon(identity):
            return None
        hint = "The engine answers its health probe and can't generate; read its log."
        return events.WarmUpFailed(launch, Reason("warm_up_failed", str(error), hint, log_tail()))
    return events.WarmedUp(launch, done.output_tokens, done.took_s, cache_config())


def generation(url: str, request: WarmUpRequest, key: str, timeout_s: float) -> Callable[[], probes.Generation]:
    """Returns the generation that `warm_up` shall try."""
    return lambda: probes.generate(url, request, key, timeout_s)


def _ends_soon(identity: processes.Identity) -> bool:
    deadline = time.monotonic() + DYING_S
    while processes.is_alive(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
