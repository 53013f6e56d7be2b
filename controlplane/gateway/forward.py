"""What becomes of an authorized call, in this order: its media, its deployment's ladder, quotas; then it is sent.

Guarantees
    What is reserved of quotas is settled or given back exactly once, however the call ends. One whose deployment, or
    the one that the ladder names instead, another gateway process owns is left to that by MovedError.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from controlplane.domain.routing import CoolDowns
from controlplane.gateway.asks import check_media
from controlplane.gateway.calls import Call, TurnedAwayError
from controlplane.gateway.errors import GatewayError, no_replica, stopped
from controlplane.gateway.gate import Gate, MovedError
from controlplane.gateway.gates import Gates
from controlplane.gateway.ladders import count
from controlplane.gateway.metering import Meter
from controlplane.gateway.quotas import Limits
from controlplane.gateway.sending import Sender

__all__ = ["Call", "Forwarder"]

DEGRADED = b"x-headworks-degraded"


class Forwarder:
    """Decides what becomes of calls."""

    def __init__(self, meter: Meter, gates: Gates, cool_downs: CoolDowns, media_domains: Sequence[str] = ()) -> None:
        self._meter = meter
        self._gates = gates
        self._quotas = gates.quotas
        self._sender = Sender(meter, cool_downs, gates.quotas)
        self._media_domains = media_domains
        self.is_elsewhere: Callable[[str], bool] = lambda _: False  # whether another process owns a deployment

    async def serve(self, call: Call) -> None:
        """Answers a call; raises GatewayError when nothing has been sent and nothing can be."""
        if call.deployment.stopped and not call.deployment.replicas:
            self._meter.refused(call.key, call.deployment.name, 503)
            raise stopped(call.ask.model)
        gate, client, key = self._gates.by_name.get(call.deployment.name), call.client, call.key
        if gate is None:  # the deployment was removed while the body came
            self._meter.refused(key, call.deployment.name, 503)
            raise no_replica(call.ask.model, call.deployment.ready_in_s(time.time()))
        if call.ask.may_hold_media:
            self._check_media(call)
        if gate.degrader.level and not call.came_back:
            gate = self._degrade(call, gate)
        if call.diverted_from or call.capped:
            model = f"model={gate.name}" if call.diverted_from else ""
            call.degraded = ", ".join(filter(None, (model, call.capped)))
        ticket = gate.ticket(call.ask, key.tenant, key.tier, call.arrived_at)
        call.gate, call.ticket = gate, ticket
        ignored = gate.prepare(call.ask, call.path, key.tenant_id)
        call.ignored = [*call.ignored, *ignored] if call.ignored else ignored
        client.when_gone(call.client_gone)
        call.limits = self._quotas.limits_of(key, gate.name)
        try:
            await self._run(call)
            return
        except TurnedAwayError:
            pass
        except GatewayError as error:
            if not self._may_go_back(call, error):
                self._say(call, error)
                raise
        await self._go_back(call)

    async def _run(self, call: Call) -> None:
        """Has a call answered that its quotas allow."""
        limits, ticket, client = call.limits, call.ticket, call.client
        if limits is None:
            await self._sender.run(call)
            return
        try:
            is_guess = call.ask.output_limit() is None
            if not self._quotas.reserve_at_once(limits, ticket, is_guess=is_guess):
                await self._reserve(call, limits, is_guess=is_guess)
            if not client.gone:
                await self._sender.run(call)
        finally:
            if call.spent is None:
                self._quotas.refund(ticket)
            else:
                self._quotas.settle(limits, ticket, *call.spent)

    def _may_go_back(self, call: Call, error: GatewayError) -> bool:
        """Whether who sent a call here answers it rather than this error: its client has not asked for this model."""
        nothing_told = not (call.client.started or call.client.gone)
        return bool(call.diverted_from) and nothing_told and error.status in (400, 429, 503)

    async def _go_back(self, call: Call) -> None:
        """Has a call answered by the deployment that it was meant for."""
        origin = self._gates.by_name.get(call.diverted_from)
        if origin is None or call.client.gone:
            raise no_replica(call.ask.model, None)
        count(call.gate, "turned_away")
        call.go_back(origin.deployment)
        if self.is_elsewhere(origin.name):
            raise MovedError
        await self.serve(call)

    def _say(self, call: Call, error: GatewayError) -> None:
        """Tells with an error what stands with every answer: how far quotas are used, what was done to the request."""
        told = {name for name, _ in error.headers}
        if call.limits is not None and error.code != "quota_exceeded":  # which tells them already
            error.headers += self._quotas.headers(call.limits, time.monotonic())
        if call.degraded and DEGRADED not in told:
            error.headers.append((DEGRADED, call.degraded.encode()))

    def _check_media(self, call: Call) -> None:
        try:
            call.ignored = check_media(call.ask, self._media_domains)
        except GatewayError as error:
            self._meter.refused(call.key, call.deployment.name, error.status)
            raise

    def _degrade(self, call: Call, gate: Gate) -> Gate:
        """Does to a call what its deployment's ladder says, and then what that of the deployment says which it is sent
        to; returns the gate that it goes through then."""
        ladders, key = self._gates.ladders, call.key
        outcome = ladders.outcome(gate, call.ask, key, call.headers, call.diverted_from)
        try:
            call.capped = ladders.apply(gate, call.ask, call.path, outcome, key.tier) or call.capped
        except GatewayError as error:
            self._meter.refused(key, gate.name, error.status)
            raise
        if not outcome.divert_to:
            return gate
        call.capped_first = call.capped
        call.diverted_from, call.deployment = gate.name, ladders.deployment(outcome.divert_to)
        call.body = call.ask.whole()  # what was capped stays so, wherever it is decided
        if self.is_elsewhere(outcome.divert_to):
            raise MovedError
        target = self._gates.by_name[outcome.divert_to]
        return self._degrade(call, target) if target.degrader.level else target

    async def _reserve(self, call: Call, limits: Limits, *, is_guess: bool) -> None:
        call.is_late = True
        try:
            await self._quotas.reserve(limits, call.ticket, is_guess=is_guess)
        except GatewayError as error:
            call.gate.count_refused(call.ticket.tier, "quota")
            self._meter.refused(call.key, call.deployment.name, error.status)
            raise
