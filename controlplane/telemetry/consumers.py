"""The telemetry socket `/ws/telemetry/`: samples, histories, changes and log lines, at the client's own pace.

Guarantees
    One task sends; nothing that arrives is queued for a slow client beyond the newest (a sample a subject, a change
    an object, the log's last lines). Each subscription is checked: shape, existence, permission, number. Who is at the
    other end is asked again every `ASK_AGAIN_S`, and before each log. A client that asks without end is closed.
Protocol
    client → {"type": "subscribe", "subjects": […], "history_s": 900} | {"type": "unsubscribe", "subjects": […]}
    server → subscribed, history, sample (once a second and subject), event, log, error; see `frames`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DatabaseError

from controlplane.domain.access import ACCOUNT_EVENTS, ACCOUNT_KINDS, LOGS
from controlplane.lib import tasks, valkey
from controlplane.telemetry import frames, hub, socket_auth
from controlplane.telemetry.frames import Split

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 20.0
MOST_REQUESTS = 200  # in REQUESTS_S; each costs a look into the database
REQUESTS_S = 20.0
MOST_ANSWERS = 50  # frames that answer requests and wait to be sent; a client that makes more does not read
MOST_EVENTS = 500
CLOSE_LOGIN = 4401
CLOSE_TOO_MUCH = 1008
CLOSE_FAILED = 1011

# which of the split subjects exist (sample subjects as they are, logs by replica id)
KnownSubjects = Callable[[Split], Awaitable[set[str]]]


class TelemetryConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One socket."""

    channel_layer_alias = ""  # none: the hub listens for all sockets of the process

    def __init__(self, known: KnownSubjects) -> None:
        super().__init__()
        self._known = known
        self._identity: socket_auth.Identity | None = None
        self._asked_at = 0.0
        self._requests = 0
        self._requests_since = 0.0
        self._hub: hub.Hub | None = None
        self._sender: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._answers: deque[str] = deque()
        self._events: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._histories: dict[str, float] = {}  # subject -> seconds, to be sent before its samples
        self._live: dict[str, int] = {}  # subject -> t of the newest sample sent
        self._logs: dict[str, bytes] = {}  # replica id -> id of the newest line sent
        self._said_unavailable = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._leave()

    async def connect(self) -> None:
        """Lets in who may be here."""
        found = await socket_auth.identify(self.scope)
        if isinstance(found, socket_auth.Refused):
            logger.info("telemetry socket refused: %s", found.reason)
            await self.close()
            return
        self._identity, self._asked_at = found, time.monotonic()
        await self.accept()
        self._hub = hub.current()
        self._hub.join(self)
        self._sender = asyncio.create_task(self._send_forever())
        self._sender.add_done_callback(self._sender_ended)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Takes a client's frame."""
        if self._asks_without_end():
            await self.close(CLOSE_TOO_MUCH)
            return
        request = frames.read_request(text_data if text_data is not None else "")
        if isinstance(request, frames.BadRequest):
            self._answer(frames.error("bad_request", request.message))
        elif request.type == "subscribe":
            await self._subscribe(frames.split(request.subjects), request.history_s)
        else:
            self._unsubscribe(frames.split(request.subjects))
        if len(self._answers) > MOST_ANSWERS:
            self._answers.clear()
            await self.close(CLOSE_TOO_MUCH)

    def tick(self) -> None:
        """The hub has something newer."""
        self._wake.set()

    def changed(self, message: Mapping[str, Any]) -> None:
        """An object changed; of one object only the last change is kept."""
        kind = str(message["object_kind"])
        if self._identity is None or (kind in ACCOUNT_KINDS and not self._identity.has_role(ACCOUNT_EVENTS)):
            return
        key = (kind, str(message["object_id"]))
        self._events.pop(key, None)
        self._events[key] = message
        if len(self._events) > MOST_EVENTS:
            del self._events[next(iter(self._events))]
        self._wake.set()

    async def _subscribe(self, asked: Split, history_s: float) -> None:
        assert self._identity is not None and self._hub is not None
        if asked.malformed:
            self._answer(
                frames.error(
                    "bad_subject",
                    "A subject is deployment:NAME, replica:ID, node:NAME, gateway:DEPLOYMENT or log:REPLICA.",
                    subjects=asked.malformed,
                )
            )
        if asked.logs and not await self._may_stay():
            await self.close(CLOSE_LOGIN)
            return
        if asked.logs and not self._identity.has_role(LOGS):
            self._answer(
                frames.error("forbidden", f"Logs need the role {LOGS}.", subjects=[f"log:{i}" for i in asked.logs])
            )
            asked.logs = []
        try:
            known = await self._known(asked)
        except DatabaseError:
            self._answer(frames.error("unavailable", "The database can't be reached; subscribe again in a moment."))
            return
        samples = self._room(self._existing(asked.samples, known))
        logs = self._room(self._existing(asked.logs, known, "log:"))
        self._add(samples, logs, min(history_s, frames.MOST_HISTORY_S))
        accepted = [*samples, *(f"log:{replica_id}" for replica_id in logs)]
        self._answer(frames.plain(type="subscribed", subjects=accepted))

    def _asks_without_end(self) -> bool:
        now = time.monotonic()
        if now - self._requests_since > REQUESTS_S:
            self._requests, self._requests_since = 0, now
        self._requests += 1
        return self._requests > MOST_REQUESTS

    def _add(self, samples: Iterable[str], logs: Iterable[str], history_s: float) -> None:
        assert self._hub is not None
        new = [subject for subject in samples if subject not in self._live and subject not in self._histories]
        new_logs = [replica_id for replica_id in logs if replica_id not in self._logs]
        self._hub.watch(new, new_logs)
        for subject in new:
            self._live[subject] = 0
        if history_s > 0:
            for subject in samples:
                self._live.pop(subject, None)
                self._histories[subject] = history_s
        self._logs.update(dict.fromkeys(new_logs, b""))
        self._hub.tick()

    def _unsubscribe(self, asked: Split) -> None:
        assert self._hub is not None
        gone = [subject for subject in asked.samples if subject in self._live or subject in self._histories]
        logs = [replica_id for replica_id in asked.logs if replica_id in self._logs]
        for subject in gone:
            self._live.pop(subject, None)
            self._histories.pop(subject, None)
        for replica_id in logs:
            del self._logs[replica_id]
        self._hub.unwatch(gone, logs)

    def _existing(self, names: list[str], known: set[str], prefix: str = "") -> list[str]:
        unknown = [prefix + name for name in names if name not in known]
        if unknown:
            self._answer(frames.error("not_found", "There is no such object.", subjects=unknown))
        return [name for name in names if name in known]

    def _room(self, names: list[str]) -> list[str]:
        have = self._live.keys() | self._histories.keys() | self._logs.keys()
        room = max(0, frames.MOST_SUBJECTS - len(have))
        known, new = [n for n in names if n in have], [n for n in names if n not in have]
        if len(new) > room:
            message = f"A socket takes {frames.MOST_SUBJECTS} subjects; open another for more."
            self._answer(frames.error("too_many", message, subjects=new[room:]))
        return known + new[:room]

    def _answer(self, frame: str) -> None:
        self._answers.append(frame)
        self._wake.set()

    async def _send_forever(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._send_waiting()
                if time.monotonic() - self._asked_at > ASK_AGAIN_S and not await self._may_stay():
                    await self.close(CLOSE_LOGIN)
                    return
        except OSError:
            return  # the client is gone; the server's disconnect ends the rest

    def _sender_ended(self, sender: asyncio.Task[None]) -> None:
        """A sender that failed must not leave a socket open on which nothing comes any more."""
        error = None if sender.cancelled() else sender.exception()
        if error is not None:
            logger.error("telemetry socket of %s failed", self._identity and self._identity.name, exc_info=error)
            self._closing = asyncio.create_task(self.close(CLOSE_FAILED))

    async def _send_waiting(self) -> None:
        assert self._hub is not None
        while self._answers:
            await self.send(self._answers.popleft())
        while self._events:
            await self.send(frames.event(self._events.pop(next(iter(self._events)))))
        await self._send_logs(self._hub)
        await self._send_histories(self._hub)
        for subject, sent in list(self._live.items()):
            t, frame = self._hub.frames.get(subject, (0, ""))
            if t > sent and subject in self._live:
                self._live[subject] = t
                await self.send(frame)
        if self._hub.is_available:
            self._said_unavailable = False
        elif not self._said_unavailable:
            self._said_unavailable = True
            await self.send(frames.error("unavailable", "Live data is away: Valkey can't be reached. Trying again."))

    async def _send_histories(self, live: hub.Hub) -> None:
        for subject, history_s in list(self._histories.items()):
            now = time.time()
            try:
                samples = await live.history(subject, now - history_s, now)
            except valkey.ERRORS:
                return  # tried again with the next tick
            if self._histories.pop(subject, None) is not None:
                self._live[subject] = samples[-1]["t"] if samples else 0
                await self.send(frames.history(subject, samples))

    async def _send_logs(self, live: hub.Hub) -> None:
        for replica_id, sent in list(self._logs.items()):
            newer = []
            for line in reversed(live.logs.get(replica_id, ())):
                if line.id == sent:
                    break
                newer.append(line)
            if newer and replica_id in self._logs:
                self._logs[replica_id] = newer[0].id
                await self.send(frames.log(replica_id, reversed(newer)))

    async def _may_stay(self) -> bool:
        assert self._identity is not None
        self._asked_at = time.monotonic()
        try:
            self._identity = await socket_auth.ask_again(self._identity)
        except DatabaseError:
            return True  # nobody can be asked; the question comes again
        if self._identity is not None and self._logs and not self._identity.has_role(LOGS):
            self._unsubscribe(Split(logs=list(self._logs)))
        return self._identity is not None

    async def _leave(self) -> None:
        live, self._hub = self._hub, None
        sender, self._sender = self._sender, None
        await tasks.end(sender, self._closing)
        if live is not None:
            live.unwatch({*self._live, *self._histories}, self._logs)
            await live.leave(self)


class NoSuchSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """Answers every other address: refused."""

    channel_layer_alias = ""

    async def connect(self) -> None:
        """Refuses."""
        await self.close()
