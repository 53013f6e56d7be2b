"""`/readyz`: whether requests at this port can be served, the same whichever process behind it answers.

Guarantees
    200: every process that takes requests can serve them, so that a load balancer may send any. What does not work as
    it should nevertheless stands below, a line each: also that processes are missing, whose requests the others take.
    503: one of them can't, so some requests would be refused; with the reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from controlplane.gateway.errors import GatewayError, no_snapshot
from controlplane.gateway.passing import get_page
from controlplane.gateway.snapshot import Snapshots
from controlplane.gateway.watching import Peer
from controlplane.lib.upstream_connection import UpstreamError

ASK_LIMIT_S = 0.5


class View(msgspec.Struct, frozen=True):
    """What one process says of itself. `obstacle` is why it can't serve; `notes` are on what else is not as it should
    be."""

    obstacle: str = ""
    notes: tuple[str, ...] = ()


_decoder = msgspec.json.Decoder(View)


@dataclass(frozen=True, slots=True)
class Readiness:
    """What is asked for it. `siblings`: the other processes that live behind the port; `processes`: how many there
    should be."""

    snapshots: Snapshots
    notes: Callable[[], Iterable[str]]
    siblings: Callable[[], Mapping[str, Peer]] = dict
    processes: int = 1

    def own(self) -> View:
        """Returns what this process says of itself."""
        try:
            self.snapshots.current(time.time())
        except GatewayError as error:
            return View(error.message)
        return View(notes=tuple(self.notes()))

    async def told(self) -> bytes:
        """Returns the text for the port; raises GatewayError 503 when requests there would be refused."""
        asked = await asyncio.gather(*(_ask(peer) for peer in self.siblings().values()))
        views = [self.own(), *(view for view in asked if view is not None)]
        obstacles = [view.obstacle for view in views if view.obstacle]
        if obstacles:
            whose = f" ({len(obstacles)} of {self.processes} gateway processes)" if self.processes > 1 else ""
            raise no_snapshot(obstacles[0] + whose)
        notes = dict.fromkeys(note for view in views for note in view.notes)
        if len(views) < self.processes:
            notes[f"processes: {len(views)} of {self.processes} answer; see the log of the gateway"] = None
        return "".join(f"{line}\n" for line in ("ready", *notes)).encode()


async def _ask(peer: Peer) -> View | None:
    try:
        return _decoder.decode(await get_page(peer.pool, "/readyz", ASK_LIMIT_S))
    except (UpstreamError, TimeoutError, msgspec.MsgspecError):
        return None
