"""From a call that may go on to its answer: a seat, the exchange, and what may be tried again.

Guarantees
    A request is sent only while it holds a seat and KV tokens, and gives both back however it ends: whole answer,
    client gone, failure, time limit, cancelled.
    Tried again, while the client has got nothing: once on a fresh connection what a pooled one that turns out to be
    closed can't have brought to the engine; once on another replica what the first refused, dropped, made no progress
    with (`Gates`), failed at (500, 502, an engine that died, what is no answer at all) or had too much to do for (429,
    503). Never what is the client's own error, nor what took too long: that would only double the work. A request that
    kills engines kills two.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial

from controlplane.domain import steering
from controlplane.domain.admission.breaker import ELSEWHERE
from controlplane.domain.routing import CoolDowns, RoutedReplica
from controlplane.gateway.calls import Call, TurnedAwayError
from controlplane.gateway.client import Headers
from controlplane.gateway.errors import GatewayError, failed, stopping, unreachable
from controlplane.gateway.gate import Target
from controlplane.gateway.metering import Live, Meter
from controlplane.gateway.quotas import Quotas
from controlplane.gateway.relay import Relay
from controlplane.gateway.seating import EXTERNAL
from controlplane.lib.upstream import Pool
from controlplane.lib.upstream_connection import Connection, UpstreamError

logger = logging.getLogger(__name__)

TURNED_AWAY = ELSEWHERE | {400}  # another model may take what this one can't: pictures, a longer context


class Sender:
    """Sends calls to replicas."""

    def __init__(self, meter: Meter, cool_downs: CoolDowns, quotas: Quotas) -> None:
        self._meter = meter
        self._cool_downs = cool_downs
        self._quotas = quotas

    async def run(self, call: Call) -> None:
        """Seats a call and has it answered; on a second replica when the first fails before the client got anything."""
        gate, client, ticket = call.gate, call.client, call.ticket
        while True:
            call.used_tokens = None
            try:
                now = time.monotonic() if call.is_late else call.arrived_at
                target = gate.seat_at_once(ticket, now) if not call.tried else None
                if target is None:
                    target = await self._seat(call)
                    if target is None or client.gone:
                        return
                is_over = await self._attempt(call, target)
            finally:
                gate.leave(ticket, call.used_tokens)
            if is_over or client.gone:
                return
            if call.diverted_from:
                raise TurnedAwayError
            call.tried = target.replica.id
            ticket.go_elsewhere(time.monotonic())

    async def _seat(self, call: Call) -> Target | None:
        """Returns where to send a call; raises GatewayError when it gets no seat."""
        gate, ticket = call.gate, call.ticket
        now = time.monotonic() if call.tried or call.is_late else ticket.arrived_at
        try:
            target = await gate.seat(ticket, now)
        except GatewayError as error:
            self._meter.refused(call.key, call.deployment.name, error.status)
            raise
        if ticket.waited:
            since = now if call.tried else ticket.arrived_at
            call.queued_s += time.monotonic() - since
        return target

    def _was_refused(self, call: Call, replica: RoutedReplica, error: UpstreamError) -> float:
        """Returns for how many seconds the replica is left alone."""
        now = time.monotonic()
        wait_s = self._cool_downs.refused(replica.id, now)
        call.gate.rest(replica.id, wait_s, now)
        logger.warning(
            "%s: replica %s of %s refused (%s); left alone for %.0f s",
            call.request_id,
            replica.id,
            call.deployment.name,
            error.message,
            wait_s,
        )
        return wait_s

    async def _attempt(self, call: Call, target: Target) -> bool:
        """Has one replica answer; returns whether that is all, False = another replica is to be asked."""
        replica, pool = target.replica, target.pool
        external = call.deployment.engine == EXTERNAL
        priority = steering.priority(call.ticket.tier) if replica.takes_priority else b""
        body = call.ask.body_for(replica.model, exact=external, priority=priority)
        request = pool.request(call.path, call.request_id, body, call.hops + 1 if external else 0)
        connection = pool.take()
        reused = connection is not None
        while True:
            try:
                connection = connection or await self._connect(pool, replica)
            except UpstreamError as error:
                call.used_tokens = 0
                wait_s = self._was_refused(call, replica, error)
                if not (call.client.gone or self._may_go_elsewhere(call, replica.id)):
                    self._meter.refused(call.key, call.gate.name, 503)
                    raise unreachable(call.ask.model, wait_s) from error
                return False
            if call.client.gone:
                connection.abort()
                return True
            relay = await self._exchange(call, replica, connection, request, reused)
            failure = relay.failure
            if reused and failure is not None and _is_stale(failure):
                connection, reused = None, False
                continue
            if failure is not None:
                logger.warning("%s: replica %s: %s", call.request_id, replica.id, failure.message)
            if relay.outcome == "elsewhere":
                if failure is not None and failure.code == "closed":
                    self._was_refused(call, replica, failure)
                return False
            if failure is not None and not relay.status:
                relay.tell(failed(failure))
            return True

    async def _connect(self, pool: Pool, replica: RoutedReplica) -> Connection:
        connection = await pool.connect()
        self._cool_downs.accepted(replica.id)
        return connection

    async def _exchange(
        self, call: Call, replica: RoutedReplica, connection: Connection, request: bytes, reused: bool
    ) -> Relay:
        request_id = call.request_id.encode()
        own: Headers = [
            (b"x-request-id", request_id),
            (b"x-headworks-request-id", request_id),
            (b"x-headworks-replica", replica.id.encode()),
            (b"x-headworks-queue-ms", b"%d" % (call.queued_s * 1000) if call.queued_s else b"0"),
        ]
        if call.degraded:
            own.append((b"x-headworks-degraded", call.degraded.encode()))
        if call.limits is not None:
            own += self._quotas.headers(call.limits, call.arrived_at)
        if call.ignored:
            own.append((b"x-headworks-ignored", ",".join(call.ignored).encode()))
        ask, meter = call.ask, self._meter
        elsewhere = None
        if call.diverted_from or (not call.tried and len(call.gate.targets) > 1):
            elsewhere = partial(self._may_go_elsewhere, call, replica.id)
        full = None if call.gate.is_external else partial(call.gate.engine_is_full, call.ticket)
        strip_usage = ask.stream and not ask.usage_wanted
        relay = call.relay = Relay(call.client, own, elsewhere, full, stream=ask.stream, strip_usage=strip_usage)
        if call.diverted_from:
            relay.elsewhere_at = TURNED_AWAY
        live = meter.began(call.key, call.gate, relay, call.ticket, ask)
        try:
            await relay.run(connection, request)
        except asyncio.CancelledError:
            relay.stop(stopping())
            raise
        finally:
            if reused and relay.failure is not None and _is_stale(relay.failure):
                meter.dropped(live)
            elif relay.outcome == "elsewhere":
                broken = relay.failure is not None or relay.at_fault
                meter.dropped(live, _why_elsewhere(relay, broken))
                call.gate.answered(live.replica_id, relay.upstream_status, broken, relay.ended_at)
                call.relay, call.used_tokens = None, 0
            else:
                meter.ended(live)
                self._learn(call, live)
        return relay

    @staticmethod
    def _may_go_elsewhere(call: Call, failed_id: str) -> bool:
        """Whether another replica serves that has not failed at this call, and somebody waits for the answer."""
        gone = call.tried or call.client.gone
        if call.diverted_from:  # where it came from is elsewhere too
            return not gone
        return not gone and call.gate.admission.serving.has_other(failed_id, time.monotonic())

    @staticmethod
    def _learn(call: Call, live: Live) -> None:
        relay, gate = live.relay, call.gate
        if call.limits is not None:
            call.spent = live.spent
        broken = relay.failure is not None or relay.at_fault
        whole = relay.outcome == "whole" or broken  # else it was cut short by us or its client, which tells nothing
        gate.answered(live.replica_id, relay.upstream_status if whole else None, broken, relay.ended_at)
        if live.prompt_tokens or live.output_tokens:
            call.used_tokens = (live.prompt_tokens or call.ticket.prompt_tokens) + live.output_tokens
            if relay.outcome == "whole":
                gate.sizes.learn(call.ticket, call.ask, live.prompt_tokens, live.output_tokens)
                if not live.events_looked_at:
                    gate.learn_prefill(call.ticket, relay.first_at)
        elif relay.upstream_status >= 400:
            call.used_tokens = 0


def _why_elsewhere(relay: Relay, broken: bool) -> str:
    if relay.failure is not None and relay.failure.code == "stalled":
        return "stalled"
    return "broken" if broken else str(relay.upstream_status)


def _is_stale(failure: UpstreamError) -> bool:
    """The replica had closed an idle connection while the request was on its way."""
    return failure.code == "closed" and not failure.received
