"""What this gateway process tells of itself once a second: the state of each gate, and samples for its charts.

Guarantees
    A second that Valkey does not take is dropped: the next one tells more.
Does not do
    Decisions. It reads the gates and the book of quotas and changes nothing.
Concurrency
    `turn` and `run` on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import redis.asyncio

from controlplane.domain.admission.engine_caches import EngineCache
from controlplane.domain.admission.fair_queue import FairQueue, TierQueue
from controlplane.domain.admission.ticket import Ticket
from controlplane.domain.gateway_state import (
    MOST_WAITING,
    OTHER,
    REASONS,
    DeploymentState,
    GatewayState,
    LadderState,
    LeaseState,
    QuotaRefusedState,
    RefusedState,
    ReplicaState,
    TierLevel,
    TierState,
    WaitingState,
    reason,
)
from controlplane.domain.rollups import GaugeWindow, Rollup, slot_of
from controlplane.domain.samples import SamplePart
from controlplane.gateway.gate import Gate
from controlplane.gateway.gates import Gates
from controlplane.lib import gateway_state, valkey
from controlplane.version import VERSION

logger = logging.getLogger(__name__)

UNKNOWN = EngineCache()
RATE_S = 10  # rates are over so many seconds
MOST_LEASES = 200
LAST_WORD_S = 1.0

Counts = dict[tuple[str, str, str], int]  # (deployment, tier, why; "" = admitted) -> requests
Turned = tuple[GatewayState, list[SamplePart], list[Rollup], float]


class Elsewhere(Protocol):
    """Who owns what (`owners.Owners`)."""

    def elsewhere(self, deployment: str) -> object | None:
        """Returns the other process that owns a deployment; None when this one does."""
        ...


class StateReport:
    """Tells of one process. `owners` says which deployments are its own; without, it decides for all."""

    def __init__(self, gates: Gates, gateway_id: str, address: str = "") -> None:
        self.owners: Elsewhere | None = None
        self._gates = gates
        self._id = gateway_id
        self._address = address
        self._started_at = time.time()
        self._past: deque[tuple[float, Counts]] = deque(maxlen=RATE_S + 1)
        self._slot_start = 0
        self._slots: dict[str, GaugeWindow] = {}
        self._turned: Turned | None = None
        self._news = asyncio.Event()

    def turn(self, now: float, clock: float) -> None:
        """Looks at everything once a second; `now` is UTC seconds, `clock` of the monotonic clock."""
        counts = self._counts()
        self._past.append((clock, counts))
        owned = self._owned()
        states = tuple(self._deployment(gate, counts, clock) for gate in self._told(owned))
        parts = [self._part(state, now) for state in states]
        leases, left_out = self._leases()
        state = GatewayState(
            self._id, self._started_at, VERSION, self._address, os.getpid(), states, leases,
            self._cut_off_s(now), owned, self._quotas_refused(), left_out,
        )  # fmt: skip
        self._turned = (state, parts, self._rollups(parts, now), now)
        self._news.set()

    async def run(self, client: redis.asyncio.Redis) -> None:
        """Writes each second; takes the word back when it is cancelled."""
        try:
            while True:
                await self._news.wait()
                self._news.clear()
                turned, self._turned = self._turned, None
                if turned is not None:
                    await self._write(client, turned)
        finally:
            await self._leave(client)

    async def _write(self, client: redis.asyncio.Redis, turned: Turned) -> None:
        try:
            await gateway_state.write(client, *turned)
        except valkey.ERRORS as error:
            logger.debug("the state was not written: %s", error)  # the snapshot's follower tells when Valkey goes

    async def _leave(self, client: redis.asyncio.Redis) -> None:
        try:
            async with asyncio.timeout(LAST_WORD_S):
                await gateway_state.take_back(client, self._id)
        except valkey.ERRORS as error:  # TimeoutError is an OSError; the word ends by itself then
            logger.debug("the state was not taken back: %s", error)

    # -- gates -------------------------------------------------------------------------------------------------------

    def _owned(self) -> tuple[str, ...] | None:
        owners = self.owners
        if owners is None:
            return None
        return tuple(name for name in self._gates.by_name if owners.elsewhere(name) is None)

    def _told(self, owned: tuple[str, ...] | None) -> list[Gate]:
        """The gates that this process decides for; of others only those where something is still held."""
        gates = self._gates.by_name.values()
        if owned is None:
            return list(gates)
        return [one for one in gates if one.name in owned or one.admission.seated or one.admission.waiting]

    def _counts(self) -> Counts:
        counts: Counts = {}
        for gate in self._gates.by_name.values():
            for tier, requests in gate.admission.admitted.items():
                counts[gate.name, tier, ""] = requests
            for (tier, why), requests in gate.refused.items():
                counts[gate.name, tier, why] = requests
        for address, requests in self._gates.quotas.refused.items():
            counts[_counted(*address)] = requests
        return counts

    def _per_s(self, address: tuple[str, str, str], requests: int) -> float | None:
        """Over the last seconds; None in the very first one. What was never counted before began at 0."""
        (since, before), (until, _) = self._past[0], self._past[-1]
        if until <= since:
            return None
        return max(0, requests - before.get(address, 0)) / (until - since)

    def _deployment(self, gate: Gate, counts: Counts, clock: float) -> DeploymentState:
        admission = gate.admission
        oldest = {name: oldest_of(queue) for name, queue in admission.queue.tiers.items()}
        tiers = tuple(self._tier(gate, name, oldest.get(name), counts, clock) for name in admission.policy.tiers)
        refused = tuple(
            RefusedState(tier, why, requests, self._per_s((gate.name, tier, why), requests))
            for (tier, why), requests in sorted(gate.refused.items())
        )
        replicas = tuple(
            ReplicaState(
                place.id, place.running, place.seats, place.ledger.reserved_tokens, place.whole_tokens,
                place.leaving, clock < place.rests_until, cache.usage,
                None if cache.preempted is None else round(cache.preempted),
            )
            for place in admission.places.values()
            for cache in (gate.caches.by_replica.get(place.id, UNKNOWN),)
        )  # fmt: skip
        return DeploymentState(gate.name, tiers, waiting(admission.queue, clock), refused, replicas,
                               ladder_of(gate))  # fmt: skip

    def _tier(self, gate: Gate, name: str, oldest: Ticket | None, counts: Counts, clock: float) -> TierState:
        """Where somebody waits the limit is that of who waits longest: it may be less than the tier's."""
        tier, queue = gate.admission.policy.tiers[name], gate.admission.queue.tiers[name]
        admitted = counts.get((gate.name, name, ""), 0)
        return TierState(
            name,
            queue.count,
            queue.bytes,
            tier.queue_most,
            tier.queue_most_bytes,
            None if oldest is None else clock - oldest.arrived_at,
            tier.longest_wait_s if oldest is None else oldest.wait_until - oldest.arrived_at,
            admitted,
            self._per_s((gate.name, name, ""), admitted),
        )

    # -- quotas ------------------------------------------------------------------------------------------------------

    def _leases(self) -> tuple[tuple[LeaseState, ...], int]:
        """What is held; where least is left first."""
        meters = self._gates.quotas.book.meters.values()
        held = [meter for meter in meters if meter.stock or meter.reserved or meter.leased]
        held.sort(key=lambda meter: (meter.left / meter.limit if meter.limit else 0.0, meter.id))
        leases = tuple(
            LeaseState(
                meter.quota.name, meter.quota.tenant, meter.measure.name, meter.limit, meter.stock, meter.reserved,
                max(0, meter.left) if meter.left_at else None, meter.quota.deployment, meter.quota.key_id,
            )
            for meter in held[:MOST_LEASES]
        )  # fmt: skip
        return leases, max(0, len(held) - MOST_LEASES)

    def _quotas_refused(self) -> tuple[QuotaRefusedState, ...]:
        refused = sorted(self._gates.quotas.refused.items(), key=lambda one: -one[1])
        return tuple(
            QuotaRefusedState(*address, requests, self._per_s(_counted(*address), requests))
            for address, requests in refused[:MOST_LEASES]
        )

    def _cut_off_s(self, now: float) -> float | None:
        quotas = self._gates.quotas
        if quotas.book.cut_off_at is None or not quotas.is_cut_off:
            return None
        return max(0.0, (now if quotas.leases is None else quotas.leases.now()) - quotas.book.cut_off_at)

    # -- samples -----------------------------------------------------------------------------------------------------

    def _part(self, state: DeploymentState, now: float) -> SamplePart:
        return SamplePart(f"gateway:{state.name}", f"gateway:{self._id}", now, values_of(state))

    def _rollups(self, parts: Iterable[SamplePart], now: float) -> list[Rollup]:
        """Those of the slot that has just ended; and adds the second to the running one."""
        found: list[Rollup] = []
        start = slot_of(now)
        if start != self._slot_start:
            source = f"gateway:{self._id}"
            found = [Rollup(name, source, self._slot_start, gauges=one.gauges()) for name, one in self._slots.items()]
            self._slots, self._slot_start = {}, start
        for part in parts:
            self._slots.setdefault(part.subject, GaugeWindow()).add(part.values)
        return found


def _counted(tenant: str, quota: str, measure: str) -> tuple[str, str, str]:
    """Under which address refusals of a quota are counted: of no deployment."""
    return "", f"{tenant}/{quota}", measure


def oldest_of(queue: TierQueue) -> Ticket | None:
    """Returns who waits longest in a tier: one of the first of the tenants' lines."""
    firsts = (next(iter(line.values())) for line in queue.lines.values())
    return min(firsts, key=lambda ticket: ticket.arrived_at, default=None)


def waiting(queue: FairQueue, clock: float) -> tuple[WaitingState, ...]:
    """Returns who waits, by tenant and tier, the longest wait first."""
    found = [
        (next(iter(line.values())).arrived_at, tenant, name, line)
        for name, tier in queue.tiers.items()
        for tenant, line in tier.lines.items()
    ]
    found.sort(key=lambda one: one[0])
    return tuple(
        WaitingState(tenant, tier, len(line), sum(one.prompt_tokens + one.output_tokens for one in line.values()),
                     clock - arrived_at)
        for arrived_at, tenant, tier, line in found[:MOST_WAITING]
    )  # fmt: skip


def ladder_of(gate: Any) -> LadderState | None:
    """Returns where a gate stands on its ladder; None where it has no signal yet."""
    degrader = getattr(gate, "degrader", None)
    if degrader is None:
        return None
    tiers = tuple(TierLevel(name, one.level, one.value) for name, one in degrader.by_tier.items())
    return LadderState(degrader.level, degrader.value, degrader.ladder.steps, tiers)


def values_of(state: DeploymentState) -> Mapping[str, float | None]:
    """Returns the fields of a deployment's sample."""
    refused = dict.fromkeys((*REASONS, OTHER), 0.0)
    for one in state.refused:
        refused[reason(one.why)] += one.per_s or 0.0
    known = state.admitted_per_s is not None
    values: dict[str, float | None] = {
        f"refused_{name}_per_s": rate if known else None for name, rate in refused.items()
    }
    values |= {f"queued_{tier.name}": tier.waiting for tier in state.tiers}
    return values | {
        "admitted_per_s": state.admitted_per_s,
        "saturation": None if state.ladder is None else state.ladder.saturation,
    }
