"""This process among other gateway processes: its doors for them, the list of them, and the figures of all."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable

import msgspec
import redis.asyncio

from controlplane.gateway.connection import State
from controlplane.gateway.gates import Gates
from controlplane.gateway.internal import Doors, Serve
from controlplane.gateway.members import FIRST_PATIENCE_S, SOCKET, Held, Members
from controlplane.gateway.owners import Owners
from controlplane.gateway.settings import GatewaySettings
from controlplane.gateway.summing import Figures
from controlplane.lib.gateway_members import Member


class Company:
    """Only where there are or may be others: one of several processes, or one with an address for other machines."""

    def __init__(
        self, settings: GatewaySettings, own_id: str, owners: Owners, gates: Gates, render: Callable[[], bytes]
    ) -> None:
        self._settings = settings
        self._gates = gates
        self._doors: Doors | None = None
        worker = settings.worker
        group = f"{os.uname().nodename}:{worker.folder.name}" if worker is not None else ""
        self.members = owners.members = Members(
            Member(own_id, "joining", group),
            None if worker is None else worker.folder,
            on_change=owners.changed,
            holds=owners.holds,
            on_held=self._held_elsewhere,
        )
        self.figures = None if worker is None else Figures(own_id, worker.folder, render, lambda: self.members.siblings)

    async def open(self, serve: Serve, state: State, client: redis.asyncio.Redis) -> None:
        """Opens the doors and looks who else is there; raises OSError when a door can't be opened."""
        settings, members = self._settings, self.members
        self._doors = Doors(serve, state)
        if settings.worker is not None:
            path = settings.worker.folder / f"{members.me.id}{SOCKET}"
            await self._doors.open_socket(path)
            members.me = msgspec.structs.replace(members.me, path=str(path))
        if settings.address:
            token = secrets.token_urlsafe(24)
            port = settings.peer_port + settings.slot if settings.peer_port else 0
            port = await self._doors.open_port(settings.address, port, token)
            members.me = msgspec.structs.replace(members.me, address=(settings.address, port), token=token)
        await members.look(client, FIRST_PATIENCE_S)

    def second(self) -> None:
        """What is done once a second."""
        self.members.sweep()
        if self.figures is not None:
            self.figures.own()

    async def leave(self, client: redis.asyncio.Redis) -> None:
        """Gives all deployments away, then takes nothing new; what runs goes on."""
        await self.members.leave(client)
        if self._doors is not None:
            self._doors.close()

    async def close(self, client: redis.asyncio.Redis) -> None:
        """Says goodbye, when nothing runs any more."""
        if self._doors is not None:
            self._doors.close()
        await self.members.close(client)

    def _held_elsewhere(self, held: Held) -> None:
        now = time.monotonic()
        for gate in self._gates.by_name.values():
            gate.set_elsewhere({one: held[one] for one in gate.targets if one in held}, now)
