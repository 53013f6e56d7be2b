"""From the running counts to what others see: live samples once a second, roll-ups every 10 s, totals of the process.

Every deployment and replica of the snapshot has a sample, also without traffic: 0 requests is something the gateway
knows. What has left the snapshot stays until its last request is a window old.
Pure: `turn` gets the time and returns what to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.domain.admission.place import Place
from controlplane.domain.rollups import GaugeWindow, Rollup, slot_of
from controlplane.domain.routing import RoutingSnapshot
from controlplane.domain.samples import SamplePart
from controlplane.gateway.gates import Gates
from controlplane.gateway.metering import Meter, Series, Tally

NO_REPLICA = ""
GAUGES = ("gateway_in_flight", "kv_tokens_reserved")


@dataclass(slots=True)
class Slot:
    """The running 10 seconds of one subject."""

    tally: Tally = field(default_factory=Tally)
    gauges: GaugeWindow = field(default_factory=GaugeWindow)


@dataclass(frozen=True, slots=True)
class Turn:
    """What one second brought."""

    parts: tuple[SamplePart, ...]
    rollups: tuple[Rollup, ...] = ()


class Sampler:
    """Ends the seconds of a meter. One owner; changes in place."""

    def __init__(
        self, meter: Meter, gates: Gates, source: str, is_elsewhere: Callable[[str], bool] = lambda _: False
    ) -> None:
        self.lifetime: dict[str, Tally] = {}  # deployment -> since the start of the process
        self._meter = meter
        self._gates = gates
        self._source = source
        self._is_elsewhere = is_elsewhere  # whether another process owns a deployment
        self._slots: dict[str, Slot] = {}  # subject -> running slot
        self._slot_start = 0
        self._turned_at = 0.0
        self._seconds = 1.0  # how long the running second was

    def turn(self, now: float, snapshot: RoutingSnapshot | None) -> Turn:
        """Ends the running second at `now` (seconds since the epoch)."""
        meter = self._meter
        meter.look_at_live()
        rollups = self._turn_slot(now)
        self._seconds = max(0.001, now - self._turned_at) if self._turned_at else 1.0
        self._turned_at = now
        if snapshot is not None:
            self._know(snapshot)
        by_deployment: dict[str, list[tuple[str, Series, Tally]]] = {}
        for (deployment, replica_id), series in meter.series.items():
            second = series.turn() or Tally()
            by_deployment.setdefault(deployment, []).append((replica_id, series, second))
            self.lifetime.setdefault(deployment, Tally()).add(second)
        parts = []
        for deployment, rows in by_deployment.items():
            gate = self._gates.by_name.get(deployment)
            places = gate.admission.places if gate is not None else {}
            if self._is_elsewhere(deployment) and _is_idle(places.values(), rows):
                continue  # that there is nothing is for the owner to say
            whole, window = Tally(), Tally()
            for replica_id, series, second in rows:
                whole.add(second)
                window.add(series.window)
                if replica_id != NO_REPLICA:
                    place = places.get(replica_id)
                    held = (0, 0) if place is None else (place.running, place.ledger.reserved_tokens)
                    gauges = dict(zip(GAUGES, held, strict=True))
                    parts.append(self._part(f"replica:{replica_id}", second, series.window, gauges))
            running = sum(place.running for place in places.values())
            tokens = sum(place.ledger.reserved_tokens for place in places.values())
            queue = gate.admission.queue.count if gate is not None else 0
            gauges = {**dict(zip(GAUGES, (running, tokens), strict=True)), "gateway_queue": queue}
            parts.append(self._part(f"deployment:{deployment}", whole, window, gauges))
        self._forget(snapshot)
        return Turn(tuple(parts), rollups)

    def _part(self, subject: str, second: Tally, window: Tally, gauges: Mapping[str, int]) -> SamplePart:
        seconds = self._seconds
        values: dict[str, float | None] = {
            "requests_per_s": second.requests / seconds,
            "errors_per_s": second.errors / seconds,
            "tokens_per_s": second.output_tokens / seconds,
            "prompt_tokens_per_s": second.prompt_tokens / seconds,
            "gateway_queue": 0,
            **gauges,
        }
        slot = self._slots.get(subject)
        if slot is None:
            slot = self._slots[subject] = Slot()
        slot.tally.add(second)
        slot.gauges.add(values)
        return SamplePart(subject, self._source, self._turned_at, values, window.histograms())

    def _turn_slot(self, now: float) -> tuple[Rollup, ...]:
        start = slot_of(now)
        if start == self._slot_start:
            return ()
        ended, self._slots = self._slots, {}
        ended_start, self._slot_start = self._slot_start, start
        return tuple(
            Rollup(
                subject,
                self._source,
                ended_start,
                {
                    "requests": slot.tally.requests,
                    "errors": slot.tally.errors,
                    "prompt_tokens": slot.tally.prompt_tokens,
                    "output_tokens": slot.tally.output_tokens,
                },
                slot.gauges.gauges(),
                slot.tally.histograms(),
            )
            for subject, slot in ended.items()
        )

    def _know(self, snapshot: RoutingSnapshot) -> None:
        for name, deployment in snapshot.deployments.items():
            for replica_id in (NO_REPLICA, *(replica.id for replica in deployment.replicas)):
                if (name, replica_id) not in self._meter.series:
                    self._meter.series[name, replica_id] = Series()

    def _forget(self, snapshot: RoutingSnapshot | None) -> None:
        routed = set(_routed(snapshot))
        in_use = {live.series for live in self._meter.live}
        gone = [
            address
            for address, series in self._meter.series.items()
            if address not in routed and series.quiet and series not in in_use
        ]
        for address in gone:
            del self._meter.series[address]


def _is_idle(places: Iterable[Place], rows: Iterable[tuple[str, Series, Tally]]) -> bool:
    return not any(place.running for place in places) and all(series.quiet for _, series, _ in rows)


def _routed(snapshot: RoutingSnapshot | None) -> Iterable[tuple[str, str]]:
    if snapshot is not None:
        for name, deployment in snapshot.deployments.items():
            yield (name, NO_REPLICA)
            for replica in deployment.replicas:
                yield (name, replica.id)
