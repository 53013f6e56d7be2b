"""The OpenAI-compatible application: plain ASGI, no framework."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec

from controlplane.gateway.asks import read_ask
from controlplane.gateway.client import Client, Headers, Receive, Scope, Send, receive_within
from controlplane.gateway.errors import GatewayError, too_large
from controlplane.gateway.forward import Call, Forwarder
from controlplane.gateway.metering import Meter
from controlplane.gateway.peers import client_address
from controlplane.gateway.settings import GatewaySettings
from controlplane.gateway.snapshot import Snapshots
from controlplane.lib.ids import new_id
from controlplane.lib.upstream import QUIET_LIMIT_S

logger = logging.getLogger(__name__)

BODY_TIMEOUT_S = 60.0
FORWARDED = {
    "/v1/chat/completions": "/chat/completions",
    "/v1/completions": "/completions",
    "/v1/embeddings": "/embeddings",
}
_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")

Answer = tuple[int, bytes, bytes]  # status, content type, body


@dataclass(slots=True)
class Incoming:
    """A request as it comes in. `request_id` is the client's own when it sent a sane one."""

    scope: Scope
    receive: Receive
    client: Client
    arrived_at: float
    authorization: bytes | None = None
    request_id: str = ""
    length: int | None = None

    def read_headers(self) -> None:
        for name, value in self.scope["headers"]:
            if name == b"authorization":
                self.authorization = value
            elif name == b"content-length":
                self.length = int(value)
            elif name == b"x-request-id" and _SANE_ID.fullmatch(value):
                self.request_id = value.decode()


class Gateway:
    """One gateway process. The parts are made and started by `controlplane.gateway.__main__`."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        snapshots: Snapshots,
        forwarder: Forwarder,
        meter: Meter,
        metrics: Callable[[], bytes],
        on_startup: Callable[[], Awaitable[None]],
        on_shutdown: Callable[[], Awaitable[None]],
    ) -> None:
        self._snapshots = snapshots
        self._forwarder = forwarder
        self._meter = meter
        self._metrics = metrics
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown
        self._body_limit = settings.body_limit_bytes
        self._trusted_proxies = settings.trusted_proxies
        self._metrics_from = settings.metrics_from
        self._id_prefix = new_id(8)
        self._numbers = itertools.count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        incoming = Incoming(scope, receive, Client(send), time.monotonic())
        client = incoming.client
        try:
            incoming.read_headers()
            incoming.request_id = incoming.request_id or f"{self._id_prefix}-{next(self._numbers):x}"
            upstream_path = FORWARDED.get(scope["path"])
            if upstream_path is None:
                self._plain(incoming)
            elif scope["method"] == "POST":
                await self._generate(upstream_path, incoming)
            else:
                raise _wrong_method("POST")
        except GatewayError as error:
            if not client.started:
                error.send(client, incoming.request_id)
        if client.unsent:
            await _flush(client)

    async def _generate(self, path: str, incoming: Incoming) -> None:
        now = time.time()
        routes = self._snapshots.current(now)
        key = routes.key_for(incoming.authorization, now)
        if incoming.length is not None and incoming.length > self._body_limit:
            raise too_large(self._body_limit)
        body = await _read_body(incoming.receive, self._body_limit)
        if body is None:
            return
        ask = read_ask(body)
        deployment = routes.deployment_for(key, ask.model)
        client = incoming.client
        call = Call(path, ask, key, deployment, routes.pools, client, incoming.request_id, incoming.arrived_at)
        client.watch(incoming.receive, call.client_gone)
        try:
            await self._forwarder.serve(call)
        except GatewayError as error:
            self._meter.refused(key, deployment.name, error.status)
            raise

    def _plain(self, incoming: Incoming) -> None:
        """Answers what needs no replica."""
        scope = incoming.scope
        if scope["method"] not in ("GET", "HEAD"):
            known = scope["path"] in ("/v1/models", "/healthz", "/readyz", "/metrics")
            raise _wrong_method("GET") if known else _unknown_path(scope["path"])
        status, kind, body = self._look_up(scope, incoming.authorization)
        headers: Headers = [
            (b"content-type", kind),
            (b"content-length", b"%d" % len(body)),
            (b"x-headworks-request-id", incoming.request_id.encode()),
        ]
        incoming.client.start(status, headers)
        incoming.client.end(body)

    def _look_up(self, scope: Scope, authorization: bytes | None) -> Answer:
        path = scope["path"]
        if path == "/healthz":
            return 200, b"text/plain; charset=utf-8", b"ok\n"
        if path == "/readyz":
            self._snapshots.current(time.time())
            return 200, b"text/plain; charset=utf-8", b"ready\n"
        if path == "/metrics":
            self._check_metrics_reader(scope)
            return 200, b"text/plain; version=0.0.4; charset=utf-8", self._metrics()
        if path == "/v1/models" or path.startswith("/v1/models/"):
            return 200, b"application/json", self._models(path, authorization)
        raise _unknown_path(path)

    def _models(self, path: str, authorization: bytes | None) -> bytes:
        now = time.time()
        routes = self._snapshots.current(now)
        key = routes.key_for(authorization, now)
        if path != "/v1/models":
            name = path.removeprefix("/v1/models/")
            routes.deployment_for(key, name)
            return msgspec.json.encode(_model(name))
        return msgspec.json.encode({"object": "list", "data": [_model(name) for name in routes.models_for(key)]})

    def _check_metrics_reader(self, scope: Scope) -> None:
        """The figures name deployments, so they are shown to the networks of HEADWORKS_METRICS_FROM only."""
        address = client_address(scope, self._trusted_proxies)
        if address is None or not any(address in network for network in self._metrics_from):
            raise GatewayError(403, "forbidden", "Metrics are shown to the networks of HEADWORKS_METRICS_FROM only.")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._on_startup()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._on_shutdown()
        await send({"type": "lifespan.shutdown.complete"})


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "headworks"}


def _wrong_method(allowed: str) -> GatewayError:
    text = f"This address takes {allowed} only."
    return GatewayError(405, "method_not_allowed", text, headers=[(b"allow", allowed.encode())])


def _unknown_path(path: str) -> GatewayError:
    return GatewayError(404, "unknown_url", f"There is nothing at {path}. Chat is at POST /v1/chat/completions.")


async def _read_body(receive: Receive, limit: int) -> bytes | None:
    """Returns the whole body, None when the client left before its end."""
    parts: list[bytes] = []
    size = 0
    deadline = 0.0
    wait_s = BODY_TIMEOUT_S
    while True:
        try:
            message = await receive_within(receive, wait_s)
        except TimeoutError:
            text = f"The request body did not arrive within {BODY_TIMEOUT_S:g} s."
            raise GatewayError(408, "request_timeout", text, headers=[(b"connection", b"close")]) from None
        if message["type"] != "http.request":
            return None
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise _too_long(limit)
        if not message.get("more_body"):
            return b"".join(parts) + part if parts else part
        parts.append(part)
        now = time.monotonic()
        deadline = deadline or now + BODY_TIMEOUT_S
        wait_s = deadline - now


def _too_long(limit: int) -> GatewayError:
    error = too_large(limit)
    error.headers.append((b"connection", b"close"))  # how much is still to come is not known
    return error


async def _flush(client: Client) -> None:
    """The server cuts an answer short when the application returns before all of it is handed over."""
    try:
        async with asyncio.timeout(QUIET_LIMIT_S):
            await client.flushed()
    except TimeoutError:
        logger.warning("a client took nothing for %d s and was cut off", QUIET_LIMIT_S)
