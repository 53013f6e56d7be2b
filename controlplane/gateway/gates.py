"""All gates of one gateway process, and what is looked at once a second.

Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controlplane.domain.admission.estimates import next_step
from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.seats import Signals
from controlplane.domain.admission.tiers import total_limit_s
from controlplane.gateway.errors import timed_out
from controlplane.gateway.gate import Gate
from controlplane.gateway.ladders import Ladders
from controlplane.gateway.metering import Live, Meter
from controlplane.gateway.quotas import Quotas
from controlplane.gateway.routes import Routes
from controlplane.gateway.signals import NOTHING, EngineSample
from controlplane.gateway.sizes import SEQUENCES_MOST
from controlplane.lib.upstream_connection import UpstreamError

STALLED_REST_S = 5.0
LIMIT_TOKENS_LEAST = 4096  # so many tokens any request may take time for: its estimate may be far too low


@dataclass(slots=True)
class Second:
    """What one replica did in the last second. `streams` are those that do not wait for their own clients."""

    running: int = 0
    streams: int = 0
    plain: int = 0
    longest_prompt_tokens: int = 0  # of the streams without an event
    moved: bool = False  # whether any event came
    flowing: int = 0  # streams that gave events in the second before too, and wait for nobody
    events: int = 0  # of these


class Gates:
    """A gate for each deployment of the snapshot, and for those that requests still run in."""

    def __init__(
        self,
        meter: Meter,
        refused_status: int,
        policy: Policy | None = None,
        *,
        sequences_most: int = SEQUENCES_MOST,
    ) -> None:
        self.by_name: dict[str, Gate] = {}
        self.quotas = Quotas()
        self.ladders = Ladders(self.by_name, refused_status)
        self._meter = meter
        self._policy = policy or Policy()
        self._refused_status = refused_status
        self._sequences_most = sequences_most
        self._finished: dict[str, int] = {}  # replica id -> requests that had ended by the last look

    def update(self, routes: Routes) -> None:
        """Takes over a new snapshot."""
        now = time.monotonic()
        self.quotas.update(routes.snapshot)
        self._finished = {name: count for name, count in self._finished.items() if name in routes.pools}
        for name, deployment in routes.snapshot.deployments.items():
            gate = self.by_name.get(name)
            if gate is None:
                gate = self.by_name[name] = Gate(deployment, self._policy, self._refused_status, self._sequences_most)
            gate.update(routes.models[name], routes.pools, now)
        for name in [one for one in self.by_name if one not in routes.snapshot.deployments]:
            gate = self.by_name[name]
            gate.close(now)
            if not gate.admission.seated:
                del self.by_name[name]
                self.ladders.forget(name)

    def in_flight(self) -> dict[str, int]:
        """Returns replica id -> requests that have a seat there; replicas without any are left out."""
        return {
            place.id: place.running
            for gate in self.by_name.values()
            for place in gate.admission.places.values()
            if place.running
        }

    def second(self, engine: Mapping[str, EngineSample], now: float) -> None:
        """Looks at all that runs: grows what streams hold, ends what takes too long, moves seats, wakes who waits.

        `engine` maps replica id to what its engine said last; `now` is of the monotonic clock.
        """
        seconds = self._look_at_live(self._meter.live, now)
        for gate in self.by_name.values():
            self._look_at(gate, seconds, engine, now)
            self.ladders.look_at(gate, engine, now)
            gate.tick(now)

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong."""
        self.quotas.check_invariants()
        for gate in self.by_name.values():
            gate.check_invariants()

    def _look_at_live(self, lives: Iterable[Live], now: float) -> dict[str, Second]:
        seconds: dict[str, Second] = {}
        late: list[Live] = []
        for live in lives:
            second = seconds.get(live.replica_id)
            if second is None:
                second = seconds[live.replica_id] = Second()
            second.running += 1
            events = live.relay.events
            if events is None:
                if live.wants_stream:
                    second.streams += 1
                    second.longest_prompt_tokens = max(second.longest_prompt_tokens, live.ticket.prompt_tokens)
                else:
                    second.plain += 1
            else:
                came = events.events - live.events_looked_at
                if came and not live.events_looked_at:
                    live.gate.learn_prefill(live.ticket, live.relay.first_at)
                second.moved = second.moved or came > 0
                if not live.relay.waits_for_client:
                    second.streams += 1
                    if live.events_looked_at:  # a whole second of it, so that its pace is known
                        second.flowing += live.ticket.sequences  # each of them has events of its own
                        second.events += came
                live.events_looked_at = events.events
                self._grow(live, events.events)
            if now > live.ends_at and now > self._end_of(live):
                late.append(live)
        for live in late:
            live.relay.stop(timed_out(now - live.arrived_at))
        return seconds

    def _give_up(self, gate: Gate, replica_id: str) -> None:
        """Has another replica asked what one gets nowhere with."""
        failure = UpstreamError("stalled", "The replica makes no progress.")
        for live in self._meter.live:
            if live.gate is gate and live.replica_id == replica_id:
                live.relay.give_up(failure)

    @staticmethod
    def _grow(live: Live, reached: int) -> None:
        gate, ticket = live.gate, live.ticket
        held_output = ticket.covered_tokens - ticket.prompt_tokens
        if reached < held_output:
            return
        wanted = next_step(held_output, reached)
        if wanted <= held_output:
            return
        admission = gate.admission
        if admission.grew(ticket.id, ticket.prompt_tokens + wanted):
            gate.overbooked += 1
        if ticket.replica_id in admission.places:
            share = admission.policy.tiers[ticket.tier].kv_share
            gate.beyond_share += admission.serving.is_beyond_share(ticket, share)

    @staticmethod
    def _end_of(live: Live) -> float:
        """It grows with what the request has brought so far; a plain answer, which shows nothing of that, may take as
        long as the longest that there can be, unless its client or its engine limits it."""
        gate = live.gate
        tier = gate.admission.policy.tiers[live.ticket.tier]
        tokens = max(live.ticket.tokens, live.ticket.covered_tokens, LIMIT_TOKENS_LEAST)
        if not live.wants_stream and gate.sizes.may_go_on(live.ask):
            tokens = max(tokens, gate.sizes.context_tokens)
        live.ends_at = live.arrived_at + total_limit_s(tier, tokens)
        return live.ends_at

    def _is_stalled(self, gate: Gate, replica_id: str, second: Second, sample: EngineSample, now: float) -> bool:
        """Takes one second of a replica; returns whether it holds requests, makes no progress, and is to be left."""
        finished = gate.finished.get(replica_id, 0)
        moved = second.moved or finished != self._finished.get(replica_id, 0)
        self._finished[replica_id] = finished
        streams, plain = second.streams, second.plain
        if gate.is_external:  # what others run may think for minutes before its first word
            streams, plain = 0, streams + plain
        stalled = gate.progress[replica_id].look(
            streams=streams,
            plain=plain,
            moved=moved,
            now=now,
            longest_prompt_tokens=second.longest_prompt_tokens,
            kv_usage=sample.kv_usage,
            tokens_per_s=sample.tokens_per_s,
        )
        # a long plain answer looks like none at all; where there is no other replica it is better waited for
        return stalled and (streams > 0 or len(gate.targets) > 1)

    def _look_at(
        self, gate: Gate, seconds: Mapping[str, Second], engine: Mapping[str, EngineSample], now: float
    ) -> None:
        changed = False
        gate.set_limits(now)
        for replica_id, seats in gate.seats.items():
            place = gate.admission.places[replica_id]
            second = seconds.get(replica_id) or Second()
            sample = engine.get(replica_id, NOTHING)
            series = self._meter.series.get((gate.name, replica_id))
            if self._is_stalled(gate, replica_id, second, sample, now):
                gate.admission.rest(replica_id, now + STALLED_REST_S)
                self._give_up(gate, replica_id)
            cache = gate.caches.of(replica_id)
            reserved = place.ledger.reserved_tokens + place.elsewhere_tokens - cache.unseen_tokens
            changed |= cache.look(reserved, sample.kv_usage, place.whole_tokens)
            signals = Signals(
                running=place.running,
                engine_waiting=sample.waiting,
                kv_usage=sample.kv_usage,
                preemptions=cache.preempted_by_now(sample.preempted),
                flow=gate.flow(second.flowing, second.events),
                tpot_target_s=gate.tpot_target_s,
                tokens_per_s=series.last_output_tokens if series is not None and second.running else None,
            )
            change = seats.hold() if gate.is_frozen else seats.adjust(signals, now)
            if change.after != change.before:
                changed = True
                gate.seat_changes += 1
        if changed:
            gate.set_seats(now)
