"""Which gateway process decides about a deployment, and passing a request on to it.

Guarantees
    `elsewhere` costs one dictionary lookup a request. The owner, asked on its internal address, decides itself, once it
    has had the chance to say that the deployment has moved. A request that nothing has been answered to is given to the
    next owner; what waited here when a deployment moves goes on waiting there.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from controlplane.domain.ownership import owner
from controlplane.gateway.asks import for_model
from controlplane.gateway.client import Headers
from controlplane.gateway.errors import GatewayError, failed, stopping
from controlplane.gateway.gate import MovedError
from controlplane.gateway.gates import Gates
from controlplane.gateway.members import Held, Members
from controlplane.gateway.passing import CAME_BACK, DIVERTED, FINAL, MOVED, PASSED, Passing, elapsed_ms
from controlplane.gateway.watching import Peer
from controlplane.lib.eager import as_task
from controlplane.lib.upstream_connection import Connection, UpstreamError

if TYPE_CHECKING:
    from controlplane.gateway.forward import Call

logger = logging.getLogger(__name__)

OWNERS_ASKED_AT_ONCE = 3  # the dead one, the next, and the one that this says owns it by now
AGAIN_S = 0.05
TAKE_OVER_S = 2.0  # for so long after the first failure the owner of then is looked for
ADDRESS = "/v1"

__all__ = ["Owners", "Peer"]


class Owners:
    """The choice of the owner, and the way to it. Without `members` this process owns everything."""

    def __init__(self, gates: Gates) -> None:
        self.members: Members | None = None
        self.passed_on: dict[str, int] = {}  # deployment -> requests
        self._gates = gates
        self._elsewhere: dict[str, Peer | None] = {}

    def elsewhere(self, deployment: str) -> Peer | None:
        """Returns the other process that owns a deployment; None when this one does."""
        try:
            return self._elsewhere[deployment]
        except KeyError:
            return self._find(deployment)

    def is_elsewhere(self, deployment: str) -> bool:
        """Returns whether another process owns a deployment."""
        return self.elsewhere(deployment) is not None

    def _find(self, deployment: str) -> Peer | None:
        members = self.members
        peer = None
        if members is not None:
            chosen = owner(deployment, members.ids)
            peer = None if chosen is None or chosen == members.me.id else members.peer(chosen)
        self._elsewhere[deployment] = peer
        return peer

    def changed(self) -> None:
        """The processes have changed: what waits here for a deployment of another is sent there."""
        self._elsewhere.clear()
        for name, gate in self._gates.by_name.items():
            if gate.admission.queue.count and self.is_elsewhere(name):
                gate.let_go()

    def holds(self) -> Held:
        """Returns what runs here."""
        return {
            place.id: (place.running, place.ledger.reserved_tokens)
            for gate in self._gates.by_name.values()
            for place in gate.admission.places.values()
            if place.running
        }

    async def answer(self, call: Call, serve: Callable[[Call], Awaitable[None]]) -> None:
        """Has a call answered, here or elsewhere, whichever process owns its deployment by now; raises GatewayError."""
        asked, until = 0, 0.0
        while not asked or time.monotonic() < until:
            peer = self.elsewhere(call.deployment.name)
            if peer is None:
                try:
                    await serve(call)
                except MovedError:
                    continue
                return
            if await self.pass_on(call, peer, []):
                return
            asked += 1
            until = until or time.monotonic() + TAKE_OVER_S
            if asked >= OWNERS_ASKED_AT_ONCE:
                await asyncio.sleep(AGAIN_S)
        raise no_owner(call.ask.model)

    async def pass_on(self, call: Call, peer: Peer, headers: Headers) -> bool:
        """Has another process answer a call. False when it was gone before anything was answered: ask `elsewhere`
        again. `headers` are added to those of the client's request."""
        name = call.deployment.name
        own = [(b"x-request-id", call.request_id.encode()), (PASSED, elapsed_ms(call.arrived_at)), *headers]
        if call.passed_on:
            own.append((FINAL, b"1"))
        body = call.body
        if call.came_back:
            own.append((CAME_BACK, call.capped.encode()))
        elif call.diverted_from:
            own.append((DIVERTED, f"{call.diverted_from},{call.capped}".encode()))
            body = for_model(body, name)
        request = peer.pool.message(b"POST", ADDRESS + call.path, call.headers, own, body)
        connection = peer.pool.take()
        is_reused = connection is not None
        while True:
            try:
                connection = connection or await peer.pool.connect()
            except UpstreamError as error:
                logger.debug("%s: the gateway process %s: %s", call.request_id, peer.id, error.message)
                self._refused(peer)
                return False
            if call.client.gone:
                connection.abort()
                return True
            passing = await _exchange(call, connection, request)
            if passing.failure is None:
                return await self._is_over(call, passing)
            if passing.started:
                return True
            if passing.failure.code != "closed":
                failed(passing.failure).send(call.client, call.request_id)
                return True
            if not is_reused or self.elsewhere(name) is not peer:
                return False
            connection, is_reused = None, False

    async def _is_over(self, call: Call, passing: Passing) -> bool:
        if not passing.moved:
            name = call.deployment.name
            self.passed_on[name] = self.passed_on.get(name, 0) + 1
            return True
        call.passed_on = True
        if self.members is not None:
            await as_task()
            await self.members.look_again()
        return False

    def _refused(self, peer: Peer) -> None:
        if self.members is not None:
            self.members.refused(peer)


async def _exchange(call: Call, connection: Connection, request: bytes) -> Passing:
    passing = Passing(call.client)
    try:
        await passing.run(connection, request)
    except asyncio.CancelledError:
        passing.stop(stopping())
        raise
    return passing


def no_owner(name: str) -> GatewayError:
    text = f"The gateway process that decides about `{name}` has just ended, and no other has taken over. Try again."
    return GatewayError(503, "no_owner", text, retry_after_s=2)


def moved() -> GatewayError:
    """What another gateway process is told that has asked the wrong one; no client sees it."""
    text = "Another gateway process decides about this deployment by now."
    return GatewayError(421, "moved", text, headers=[(MOVED, b"1")])
