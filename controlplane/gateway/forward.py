"""From an authorized ask to an answer: a seat, the exchange, and what may be tried again.

Guarantees
    A request is sent only while it holds a seat and KV tokens, and gives both back however it ends: whole answer,
    client gone, failure, time limit, cancelled.
    Tried again, while the client has got nothing: what no engine can have seen (a refused connection, on another
    replica; a pooled connection that turns out to be closed, on a fresh one), and what a replica dropped on the way,
    on another replica. Each at most once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from controlplane.domain import steering
from controlplane.domain.admission.ticket import Ticket
from controlplane.domain.routing import CoolDowns, RoutedDeployment, RoutedKey, RoutedReplica
from controlplane.gateway.asks import Ask, check_media
from controlplane.gateway.client import Client, Headers
from controlplane.gateway.errors import GatewayError, failed, no_replica, stopped, stopping, unreachable
from controlplane.gateway.gate import Gate, MovedError, Target
from controlplane.gateway.gates import Gates
from controlplane.gateway.metering import Live, Meter
from controlplane.gateway.quotas import Limits
from controlplane.gateway.relay import Relay
from controlplane.lib.upstream import Pool
from controlplane.lib.upstream_connection import Connection, UpstreamError

logger = logging.getLogger(__name__)

MOST_REPLICAS_TRIED = 2
EXTERNAL = "external"


@dataclass(slots=True)
class Call:
    """One authorized request on its way."""

    path: str
    ask: Ask
    key: RoutedKey
    deployment: RoutedDeployment
    client: Client
    request_id: str
    arrived_at: float  # of the monotonic clock
    hops: int = 0  # gateways that it has come through before
    body: bytes = b""  # as it came, and `headers` too: another process may have to decide
    headers: Headers = field(default_factory=list)
    passed_on: bool = False  # another process has been asked, and did not own the deployment any more
    degraded: str = ""  # what was done to it because its deployment is saturated
    diverted_from: str = ""  # the deployment it was meant for, when another process has sent it here instead
    gate: Gate = field(init=False)
    ticket: Ticket = field(init=False)
    queued_s: float = 0.0  # how long it waited for its seat
    tried: str = ""  # the replica that failed before the client got anything
    relay: Relay | None = None
    ignored: Sequence[str] = ()  # fields that are not a client's to set
    used_tokens: int | None = None  # by the engine's own count
    limits: Limits | None = None  # what is reserved of quotas, until it is settled
    spent: tuple[int, int] | None = None  # prompt and output tokens that count; None = nothing came of it

    def client_gone(self) -> None:
        if self.relay is not None:
            self.relay.client_gone()
        else:
            self.gate.leave(self.ticket)


class Forwarder:
    """Forwards calls."""

    def __init__(self, meter: Meter, gates: Gates, cool_downs: CoolDowns, media_domains: Sequence[str] = ()) -> None:
        self._meter = meter
        self._gates = gates
        self._quotas = gates.quotas
        self._cool_downs = cool_downs
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
            raise no_replica(call.ask.model)
        if call.ask.may_hold_urls:
            self._check_media(call)
        if gate.degrader.level:
            gate = self._degrade(call, gate)
        elif call.diverted_from and not call.degraded:
            call.degraded = f"model={gate.name}"
        ticket = gate.ticket(call.ask, call.path, key.tenant, key.tier, call.arrived_at)
        call.gate, call.ticket = gate, ticket
        call.ignored = gate.prepare(call.ask, call.path, key.tenant_id)
        client.when_gone(call.client_gone)
        limits = self._quotas.limits_of(key, gate.name)
        if limits is None:
            await self._run(call)
            return
        call.limits = limits
        try:
            is_guess = call.ask.output_limit() is None
            if not self._quotas.reserve_at_once(limits, ticket, is_guess=is_guess):
                await self._reserve(call, limits, is_guess=is_guess)
            if not client.gone:
                await self._run(call)
        finally:
            if call.spent is None:
                self._quotas.refund(ticket)
            else:
                self._quotas.settle(limits, ticket, *call.spent)

    def _check_media(self, call: Call) -> None:
        try:
            check_media(call.ask, self._media_domains)
        except GatewayError as error:
            self._meter.refused(call.key, call.deployment.name, error.status)
            raise

    def _degrade(self, call: Call, gate: Gate) -> Gate:
        """Does to a call what its deployment's ladder says; returns the gate that it goes through then."""
        ladders, key = self._gates.ladders, call.key
        outcome = ladders.outcome(gate, call.ask, key, call.headers, call.diverted_from)
        try:
            call.degraded = ladders.apply(gate, call.ask, call.path, outcome, key.tier)
        except GatewayError as error:
            self._meter.refused(key, gate.name, error.status)
            raise
        if call.diverted_from:
            call.degraded = ", ".join(filter(None, (f"model={gate.name}", call.degraded)))
        elif outcome.divert_to:
            call.diverted_from, call.deployment = gate.name, ladders.deployment(outcome.divert_to)
            if self.is_elsewhere(outcome.divert_to):
                call.body = call.ask.whole()  # what was capped stays so
                raise MovedError
            return self._gates.by_name[outcome.divert_to]
        return gate

    async def _reserve(self, call: Call, limits: Limits, *, is_guess: bool) -> None:
        try:
            await self._quotas.reserve(limits, call.ticket, is_guess=is_guess)
        except GatewayError as error:
            self._meter.refused(call.key, call.deployment.name, error.status)
            raise

    async def _run(self, call: Call) -> None:
        """Seats a call and has it answered; on a second replica when the first did not do anything for it."""
        gate, client, key, ticket = call.gate, call.client, call.key, call.ticket
        while True:
            call.used_tokens = None
            try:
                target = gate.seat_at_once(ticket, call.arrived_at) if not call.tried else None
                if target is None:
                    target = await self._seat(call)
                    if target is None or client.gone:
                        return
                refused = await self._attempt(call, target)
            finally:
                gate.leave(ticket, call.used_tokens)
            if refused is None or client.gone:
                return
            self._was_refused(call, target.replica, refused)
            if call.tried or len(gate.targets) < 2:
                self._meter.refused(key, gate.name, 503)
                raise unreachable(call.ask.model)
            call.tried = target.replica.id

    async def _seat(self, call: Call) -> Target | None:
        """Returns where to send a call; raises GatewayError when it gets no seat."""
        gate, ticket = call.gate, call.ticket
        now = ticket.arrived_at if not call.tried else time.monotonic()
        try:
            target = await gate.seat(ticket, now)
            if target is not None and target.replica.id == call.tried:
                raise unreachable(call.ask.model)
        except GatewayError as error:
            self._meter.refused(call.key, call.deployment.name, error.status)
            raise
        if ticket.waited:
            call.queued_s = time.monotonic() - ticket.arrived_at
        return target

    def _was_refused(self, call: Call, replica: RoutedReplica, error: UpstreamError) -> None:
        now = time.monotonic()
        wait_s = self._cool_downs.refused(replica.id, call.ticket.arrived_at)
        call.gate.rest(replica.id, wait_s, now)
        logger.warning(
            "%s: replica %s of %s refused (%s); left alone for %.0f s",
            call.request_id,
            replica.id,
            call.deployment.name,
            error.message,
            wait_s,
        )

    async def _attempt(self, call: Call, target: Target) -> UpstreamError | None:
        """Returns the error when the replica took no connection (it may be tried elsewhere), else None."""
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
                return error
            if call.client.gone:
                connection.abort()
                return None
            relay = await self._exchange(call, replica, connection, request, reused)
            failure = relay.failure
            if failure is None:
                return None
            if reused and _is_stale(failure):
                connection, reused = None, False
                continue
            if _goes_elsewhere(call, relay):
                return failure
            logger.warning("%s: replica %s: %s", call.request_id, replica.id, failure.message)
            if not relay.status:
                failed(failure).send(call.client, call.request_id)
            return None

    async def _connect(self, pool: Pool, replica: RoutedReplica) -> Connection:
        connection = await pool.connect()
        self._cool_downs.accepted(replica.id)
        return connection

    async def _exchange(
        self, call: Call, replica: RoutedReplica, connection: Connection, request: bytes, reused: bool
    ) -> Relay:
        own: Headers = [
            (b"x-headworks-request-id", call.request_id.encode()),
            (b"x-headworks-replica", replica.id.encode()),
            (b"x-headworks-queue-ms", b"%d" % (call.queued_s * 1000) if call.queued_s else b"0"),
        ]
        if call.degraded:
            own.append((b"x-headworks-degraded", call.degraded.encode()))
        if call.limits is not None:
            own += self._quotas.headers(call.limits)
        if call.ignored:
            own.append((b"x-headworks-ignored", ",".join(call.ignored).encode()))
        ask, meter = call.ask, self._meter
        relay = call.relay = Relay(call.client, own, stream=ask.stream, strip_usage=ask.stream and not ask.usage_wanted)
        live = meter.began(call.key, call.gate, relay, call.ticket, wants_stream=ask.stream)
        try:
            await relay.run(connection, request)
        except asyncio.CancelledError:
            relay.stop(stopping())
            raise
        finally:
            if reused and relay.failure is not None and _is_stale(relay.failure):
                meter.dropped(live)
            elif _goes_elsewhere(call, relay):
                meter.dropped(live)
                call.gate.answered(live.replica_id, 0, True, relay.ended_at)
                call.relay, call.used_tokens = None, 0
            else:
                meter.ended(live)
                self._learn(call, live)
        return relay

    @staticmethod
    def _learn(call: Call, live: Live) -> None:
        relay, gate = live.relay, call.gate
        if call.limits is not None:
            call.spent = _spent(live)
        gate.answered(live.replica_id, relay.upstream_status, relay.failure is not None, relay.ended_at)
        if live.prompt_tokens or live.output_tokens:
            call.used_tokens = live.prompt_tokens + live.output_tokens
            if relay.outcome == "whole":
                gate.learn(call.ticket, call.path, live.prompt_tokens, live.output_tokens)
                if relay.first_at is not None:
                    gate.prefill_s += 0.05 * (relay.first_at - call.ticket.arrived_at - call.queued_s - gate.prefill_s)
        elif relay.upstream_status >= 400:
            call.used_tokens = 0


def _spent(live: Live) -> tuple[int, int] | None:
    """What a request that a replica worked on counts for in quotas, (prompt, output) tokens; None = for nothing.

    What failed counts for what the client got of it. One whose client left counts for its prompt and what had come:
    nobody shall have long answers for nothing by leaving just before their end.
    """
    relay, ticket = live.relay, live.ticket
    if relay.upstream_status >= 400 or (relay.outcome == "broken" and not live.output_tokens):
        return None
    if relay.outcome != "whole" or live.prompt_tokens or live.output_tokens:
        return live.prompt_tokens or ticket.prompt_tokens, live.output_tokens
    return ticket.prompt_tokens, ticket.output_tokens  # the engine counted nothing


def _is_stale(failure: UpstreamError) -> bool:
    """The replica had closed an idle connection while the request was on its way."""
    return failure.code == "closed" and not failure.received


def _goes_elsewhere(call: Call, relay: Relay) -> bool:
    """Whether a replica that closed the connection before the client got anything is followed by another."""
    failure = relay.failure
    return (
        failure is not None
        and failure.code == "closed"
        and not relay.status
        and not call.tried
        and len(call.gate.targets) > 1
    )
