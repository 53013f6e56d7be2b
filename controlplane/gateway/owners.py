"""Which gateway process decides about a deployment, and passing a request on to it.

Guarantees
    `elsewhere` costs one dictionary lookup a request. A request is passed on at most once by the process that a client
    has reached; the owner, asked on its internal address, decides itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controlplane.gateway.client import Headers

if TYPE_CHECKING:
    from controlplane.gateway.forward import Call


@dataclass(frozen=True, slots=True)
class Peer:
    """Another gateway process."""

    id: str


class Owners:
    """The choice of the owner, and the way to it."""

    def elsewhere(self, deployment: str) -> Peer | None:
        """Returns the other process that owns a deployment; None when this one does."""
        return None

    async def pass_on(self, call: Call, peer: Peer, headers: Headers) -> bool:
        """Has another process answer a call. False when it was gone before anything was answered: ask `elsewhere`
        again. `headers` are added to those of the client's request."""
        raise NotImplementedError
