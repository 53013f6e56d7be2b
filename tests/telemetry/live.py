"""What the socket tests share: people, tokens, subjects, a communicator, data in Valkey."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.utils import timezone

from controlplane.accounts.models import ApiToken, User
from controlplane.deployments.models import Deployment, Replica, Revision
from controlplane.domain.samples import SamplePart
from controlplane.fleet.models import Node, Pool
from controlplane.lib import ids, sample_store, valkey

Headers = list[tuple[bytes, bytes]]
ORIGIN = "http://localhost:8000"
REPLICA = "replica000001"


def make_user(role: str, name: str = "") -> User:
    return User.objects.create_user(username=name or f"{role}-{ids.new_id(4)}", password="long-enough-1", role=role)


def make_session(user: User) -> str:
    """Logs in without the form and returns the cookie header."""
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.save()
    return f"{settings.SESSION_COOKIE_NAME}={session.session_key}"


def make_token(user: User, role: str) -> str:
    secret = ids.new_secret("hwt")
    ApiToken.objects.create(user=user, name="test", prefix=secret[:10], token_hash=ids.secret_hash(secret), role=role)
    return secret


def make_objects() -> None:
    """A node n1 and a deployment chat with one replica."""
    pool = Pool.objects.create(name="default")
    node = Node.objects.create(name="n1", pool=pool)
    deployment = Deployment.objects.create(name="chat", engine="simulated", pool=pool)
    revision = Revision.objects.create(deployment=deployment, number=1, hash="x")
    Replica.objects.create(
        id=REPLICA, deployment=deployment, revision=revision, node=node, state_since=timezone.now(), key="k"
    )


def browser(cookie: str, origin: str = ORIGIN) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"localhost:8000"), (b"origin", origin.encode()), (b"cookie", cookie.encode())]


def program(secret: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"localhost:8000"), (b"authorization", f"Bearer {secret}".encode())]


class Socket:
    """A client of the application without a network (the one of channels.testing needs daphne)."""

    def __init__(self, headers: list[tuple[bytes, bytes]], path: str = "/ws/telemetry/") -> None:
        from controlplane.asgi import application

        scope = {"type": "websocket", "path": path, "query_string": b"", "headers": headers, "subprotocols": []}
        self._application: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]

    async def connect(self) -> bool:
        await self.put(type="websocket.connect")
        return bool((await self.take())["type"] == "websocket.accept")

    async def leave(self) -> None:
        await self.put(type="websocket.disconnect", code=1000)
        await self._application.wait(timeout=10)

    async def put(self, **message: Any) -> None:
        await self._application.send_input(message)

    async def take(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._application.receive_output(timeout=10)
        return message

    async def send_text(self, text: str) -> None:
        await self.put(type="websocket.receive", text=text)

    async def send_json(self, **members: Any) -> None:
        await self.send_text(json.dumps(members))

    async def subscribe(self, *subjects: str, **members: Any) -> None:
        await self.send_json(type="subscribe", subjects=subjects, **members)

    async def frame(self, kind: str, **members: Any) -> dict[str, Any]:
        """The next frame of a kind with these members; others before it are passed over."""
        for _ in range(200):
            message = await self.take()
            assert message["type"] == "websocket.send", message
            frame: dict[str, Any] = json.loads(message["text"])
            if frame["type"] == kind and all(frame.get(name) == value for name, value in members.items()):
                return frame
        raise AssertionError(f"no frame {kind} {members}")

    async def close_code(self) -> int:
        """Passes over frames until the server closes."""
        while True:
            message = await self.take()
            if message["type"] == "websocket.close":
                return int(message.get("code", 1000))


@asynccontextmanager
async def connected(headers: list[tuple[bytes, bytes]]) -> AsyncIterator[Socket]:
    socket = Socket(headers)
    assert await socket.connect()
    try:
        yield socket
    finally:
        await socket.leave()


async def refused(headers: list[tuple[bytes, bytes]], path: str = "/ws/telemetry/") -> bool:
    socket = Socket(headers, path)
    accepted = await socket.connect()
    await socket.leave()
    return not accepted


async def write(url: str, subject: str, at: float | None = None, **values: float) -> None:
    now = time.time() if at is None else at
    client = valkey.connect_async(url)
    await sample_store.write(client, [SamplePart(subject, "collector:n1", now, values)], now)
    await client.aclose()


async def in_database(call: Any, *arguments: Any) -> Any:
    return await database_sync_to_async(call)(*arguments)


def values_of(frame: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in frame["values"].items() if value is not None}
