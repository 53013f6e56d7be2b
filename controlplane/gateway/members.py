"""The other gateway processes: who lives, how they are reached, what they still hold of deployments that moved.

Guarantees
    A process counts while a connection to it stands and it answers there (`watching`): its death is known as soon as
    the kernel closes that, and one that refuses connections is dead at once. Those of other machines must also have
    beaten in Valkey within its time to live.
    Without Valkey the list stays as it was, less the dead and the hung, and processes of the same parent still find
    each other by their sockets' folder.
    Each tells the others all that runs in it, so that whoever owns a deployment next knows what its replicas still
    work on; also what a process that hangs had said last. A new process is `joining` for `JOINING_S`, so that it hears
    that before it owns anything.
Concurrency
    One event loop. `run` is one task, in which Valkey is asked beside the processes, so that it may hang; a connection
    to each process is made by a task of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import redis.asyncio

from controlplane.gateway.passing import PeerPool
from controlplane.gateway.watching import Known, Peer
from controlplane.lib import gateway_members, tasks, valkey
from controlplane.lib.gateway_members import Member

logger = logging.getLogger(__name__)

BEAT_S = 0.4
VALKEY_LIMIT_S = 1.0
SILENT_IN_VALKEY_S = 5.0
FORGOTTEN_QUIET_S = 30
JOINING_S = 1.0
PATIENCE_S = 0.1
FIRST_PATIENCE_S = 1.5  # before a new process takes requests, so that it does not believe to be alone
SOCKET = ".sock"

Held = dict[str, tuple[int, int]]  # replica id -> (requests, KV tokens)


class Members:
    """What this process knows of the others. `me` is what it says of itself; `on_change` is called when the list
    changes, `on_held` with what others hold."""

    def __init__(
        self,
        me: Member,
        folder: Path | None,
        *,
        on_change: Callable[[], None],
        holds: Callable[[], Held],
        on_held: Callable[[Held], None],
    ) -> None:
        self.me = me
        self.valkey_up = False
        self.hung_count = 0  # times that another process was given up because it hung
        self.ids: tuple[str, ...] = (me.id,)  # of those that own deployments
        self._folder = folder
        self._on_change = on_change
        self._holds = holds
        self._on_held = on_held
        self._known: dict[str, Known] = {}
        self._held: Held = {}
        self._hung: list[PeerPool] = []  # of processes that have just been given up although they took connections
        self._forgotten: list[PeerPool] = []  # what runs there may end by itself
        self._joined_at = time.monotonic()
        self._watched_at = self._joined_at
        self._looked = False
        self._news = asyncio.Event()

    # -- what others ask ---------------------------------------------------------------------------------------------

    def peer(self, member_id: str) -> Peer:
        """Returns the way to one of `ids`."""
        return self._known[member_id].peer

    @property
    def siblings(self) -> Mapping[str, Peer]:
        """The living processes of the same parent: they stand behind the same port."""
        group = self.me.group
        return {
            one.peer.id: one.peer for one in self._known.values() if one.is_up and group and one.member.group == group
        }

    def refused(self, peer: Peer) -> None:
        """A connection to a process was refused: it counts no more, until it takes one."""
        known = self._known.get(peer.id)
        if known is not None:
            known.down()
            self._count()
            self._news.set()

    async def look_again(self) -> None:
        """Has the list read at once, and gives that a moment."""
        self._news.set()
        await asyncio.sleep(0.05)

    # -- the task ----------------------------------------------------------------------------------------------------

    async def run(self, client: redis.asyncio.Redis) -> None:
        """Beats and looks; ends only when cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            while True:
                await self.look(client)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_S):
                        await self._news.wait()
                self._news.clear()

    async def look(self, client: redis.asyncio.Redis, patience_s: float = PATIENCE_S) -> None:
        """Says once that we live, and takes over who else does; new ones have `patience_s` to answer."""
        now = time.monotonic()
        has_waited = now - self._joined_at > JOINING_S
        if self.me.state == "joining" and (has_waited or (self._looked and not self._others_are_active())):
            self.me = msgspec.structs.replace(self.me, state="active")
        self._looked = True
        beaten: gateway_members.Beaten | None = None
        try:
            async with asyncio.timeout(VALKEY_LIMIT_S):
                beaten = await gateway_members.beat(client, self.says())
        except valkey.ERRORS as error:
            if self.valkey_up:
                logger.warning("Valkey does not answer (%s); going on with the processes that are known", error)
        self.valkey_up = beaten is not None
        self._take(beaten, time.monotonic())
        self._count()
        self._give_up_hung()
        await self._connect_all(patience_s)
        self._count()

    def says(self) -> Member:
        """Returns what this process says of itself now."""
        self.me = msgspec.structs.replace(self.me, held=self._holds(), said=self.me.said + 1)
        return self.me

    async def _watch(self) -> None:
        """Asks all others again and again, and gives up those that hang."""
        while True:
            await asyncio.sleep(BEAT_S)
            self.watch(time.monotonic())

    def watch(self, now: float) -> None:
        """Asks all others once; what they have answered while we were late ourselves may not have been read yet."""
        late_s = max(0.0, now - self._watched_at - 2 * BEAT_S)
        self._watched_at = now
        hung = [known.peer.pool for known in self._known.values() if known.look(now, late_s)]
        self.hung_count += len(hung)
        self._hung += hung
        self._count()
        self._give_up_hung()

    def _give_up_hung(self) -> None:
        while self._hung:  # only when the owners of before are not asked again
            self._hung.pop().give_up()

    async def leave(self, client: redis.asyncio.Redis) -> None:
        """Says that we own nothing any more, before the others find our door closed."""
        self.me = msgspec.structs.replace(self.me, state="leaving")
        self._count()
        await self.look(client)

    async def close(self, client: redis.asyncio.Redis) -> None:
        """Takes us out of the list, and closes all connections."""
        with contextlib.suppress(*valkey.ERRORS):
            async with asyncio.timeout(VALKEY_LIMIT_S):
                await gateway_members.leave(client, self.me.id)
        known, self._known = self._known, {}
        for one in known.values():
            one.is_up = False  # nothing to be told about
        await tasks.end(*(one.forget() for one in known.values()))

    def sweep(self) -> None:
        """Keeps the time limits of connections; call it once a second."""
        for known in self._known.values():
            known.peer.pool.sweep()
        for pool in self._forgotten:
            pool.sweep()
            pool.give_up(FORGOTTEN_QUIET_S)
        self._forgotten = [pool for pool in self._forgotten if pool.busy]

    # -- inside ------------------------------------------------------------------------------------------------------

    def _take(self, beaten: gateway_members.Beaten | None, now: float) -> None:
        found = {} if beaten is None else {one.id: one for one in beaten.members if self._reaches(one)}
        for member in found.values():
            self._know(member, now)
        near = self._near()
        for member_id, path in near.items():
            if member_id not in self._known:
                self._know(Member(member_id, group=self.me.group, path=path), now)
        for known in list(self._known.values()):
            member_id = known.peer.id
            if beaten is None or member_id in found:
                known.beaten_at = now
            elif member_id not in near and (beaten.on_time or now - known.beaten_at > SILENT_IN_VALKEY_S):
                self._forget(known)

    def _reaches(self, member: Member) -> bool:
        """Both ways: who can't be asked by others may not own what they are asked for."""
        if member.group and member.group == self.me.group:
            return bool(member.path)
        return member.address is not None and self.me.address is not None

    def _near(self) -> dict[str, str]:
        """The sockets of processes that the same parent has started, which may be dead."""
        if self._folder is None:
            return {}
        found = {path.stem: str(path) for path in self._folder.glob(f"*{SOCKET}")}
        found.pop(self.me.id, None)
        return found

    def _know(self, member: Member, now: float) -> None:
        known = self._known.get(member.id)
        if known is not None:
            known.told(member)
            return
        path = member.path if member.group and member.group == self.me.group else ""
        self._known[member.id] = Known(member, path, now, self._count)

    async def _connect_all(self, patience_s: float) -> None:
        """Gives those that are not connected a moment to be, so that a list is not counted before it is known."""
        waiting = [task for known in self._known.values() if (task := known.connect()) is not None]
        if waiting:
            await asyncio.wait(waiting, timeout=patience_s)

    def _forget(self, known: Known) -> None:
        self._known.pop(known.peer.id, None)
        known.forget()
        self._hung.append(known.peer.pool)
        self._forgotten.append(known.peer.pool)

    def _others_are_active(self) -> bool:
        return any(one.is_up and one.member.state == "active" for one in self._known.values())

    def _count(self) -> None:
        living = [self.me, *(one.member for one in self._known.values() if one.is_up)]
        staying = [one for one in living if one.state != "leaving"]
        counted = [one for one in staying if one.state == "active"] or staying
        ids = tuple(sorted(one.id for one in counted)) or (self.me.id,)
        if ids != self.ids:
            logger.info("deployments are shared out among the gateway processes %s", ", ".join(ids))
            self.ids = ids
            self._on_change()
        self._tell_held()

    def _tell_held(self) -> None:
        held: Held = {}
        for known in self._known.values():
            if known.is_up or known.is_hung or known.member.state == "leaving":  # its door is closed then
                for replica_id, (requests, tokens) in known.member.held.items():
                    before = held.get(replica_id, (0, 0))
                    held[replica_id] = (before[0] + requests, before[1] + tokens)
        if held != self._held:
            self._held = held
            self._on_held(held)
