"""From an authorized ask to an answer: choice of a replica, the exchange, and what may be tried again.

Guarantees
    A request counts as in flight on exactly the replica that works on it, and the counts return to 0 however it ends.
    Tried again is only what can't have reached an engine: a refused connection (on another ready replica, once), and
    a pooled connection that turns out to be closed before any byte came (on a fresh one, once).
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field

from controlplane.domain.routing import CoolDowns, RoutedDeployment, RoutedKey, RoutedReplica, choose_replica
from controlplane.gateway.asks import Ask
from controlplane.gateway.client import Client, Headers
from controlplane.gateway.errors import GatewayError, failed, no_replica, stopped, stopping, unreachable
from controlplane.gateway.metering import Meter
from controlplane.gateway.relay import Relay
from controlplane.lib.upstream import Pool
from controlplane.lib.upstream_connection import Connection, UpstreamError

logger = logging.getLogger(__name__)

MOST_REPLICAS_TRIED = 2
EXTERNAL = "external"


@dataclass(slots=True)
class Call:
    """One authorized request on its way. `arrived_at` is of the monotonic clock."""

    path: str
    ask: Ask
    key: RoutedKey
    deployment: RoutedDeployment
    pools: dict[str, Pool]  # of the snapshot that the request was accepted with
    client: Client
    request_id: str
    arrived_at: float
    hops: int = 0  # gateways that it has come through before
    relay: Relay | None = None
    tried: list[str] = field(default_factory=list)

    def client_gone(self) -> None:
        if self.relay is not None:
            self.relay.client_gone()


class Forwarder:
    """Forwards calls. `in_flight` maps replica id -> requests that it works on for this gateway."""

    def __init__(self, meter: Meter, cool_downs: CoolDowns) -> None:
        self.in_flight: dict[str, int] = meter.in_flight
        self._meter = meter
        self._cool_downs = cool_downs
        self._turn = 0

    async def serve(self, call: Call) -> None:
        """Answers the call; raises GatewayError when nothing has been sent and nothing can be."""
        call.client.when_gone(call.client_gone)
        while True:
            try:
                replica = self._choose(call)
            except GatewayError as error:
                self._meter.refused(call.key, call.deployment.name, error.status)
                raise
            self.in_flight[replica.id] = self.in_flight.get(replica.id, 0) + 1
            try:
                refused = await self._attempt(call, replica)
            finally:
                left = self.in_flight[replica.id] - 1
                if left:
                    self.in_flight[replica.id] = left
                else:
                    del self.in_flight[replica.id]
            if refused is None or call.client.gone:
                return
            call.tried.append(replica.id)
            wait_s = self._cool_downs.refused(replica.id, call.arrived_at)
            logger.warning(
                "%s: replica %s of %s refused (%s); left alone for %.0f s",
                call.request_id,
                replica.id,
                call.deployment.name,
                refused.message,
                wait_s,
            )

    def _choose(self, call: Call) -> RoutedReplica:
        """A replica that cools down is chosen only when there is no other."""
        replicas = call.deployment.replicas
        if call.deployment.stopped and not replicas:
            raise stopped(call.ask.model)
        self._turn += 1
        tried = call.tried
        if len(tried) >= MOST_REPLICAS_TRIED or len(tried) >= len(replicas) > 0:
            raise unreachable(call.ask.model)
        cooling = self._cool_downs.cooling(time.monotonic()) if len(replicas) > 1 else ()
        chosen = choose_replica(replicas, self.in_flight, (*cooling, *tried) if cooling else tried, self._turn)
        if chosen is None and cooling:
            chosen = choose_replica(replicas, self.in_flight, tried, self._turn)
        if chosen is None:
            raise no_replica(call.ask.model)
        return chosen

    async def _attempt(self, call: Call, replica: RoutedReplica) -> UpstreamError | None:
        """Returns the error when the replica took no connection (it may be tried elsewhere), else None."""
        pool = call.pools[replica.id]
        external = call.deployment.engine == EXTERNAL
        body = call.ask.body_for(replica.model, exact=external)
        request = pool.request(call.path, call.request_id, body, call.hops + 1 if external else 0)
        connection = pool.take()
        reused = connection is not None
        while True:
            try:
                connection = connection or await self._connect(pool, replica)
            except UpstreamError as error:
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
            (b"x-headworks-queue-ms", b"0"),
        ]
        ask, meter = call.ask, self._meter
        relay = call.relay = Relay(call.client, own, stream=ask.stream, strip_usage=ask.stream and not ask.usage_wanted)
        live = meter.began(call.key, call.deployment.name, replica.id, relay, call.arrived_at)
        try:
            await relay.run(connection, request)
        except asyncio.CancelledError:
            relay.stop(stopping())
            raise
        finally:
            if reused and relay.failure is not None and _is_stale(relay.failure):
                meter.dropped(live)
            else:
                meter.ended(live)
        return relay


def _is_stale(failure: UpstreamError) -> bool:
    """The replica had closed an idle connection while the request was on its way."""
    return failure.code == "closed" and not failure.received
