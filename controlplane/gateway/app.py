"""The OpenAI-compatible application: plain ASGI, no framework."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import time
from collections.abc import Awaitable, Callable

import msgspec

from controlplane.gateway import watching
from controlplane.gateway.asks import read_ask
from controlplane.gateway.client import EXTENSION, Client, Headers, Receive, Scope, Send
from controlplane.gateway.errors import GatewayError, loop, stopping, too_large
from controlplane.gateway.forward import Call, Forwarder
from controlplane.gateway.gate import MovedError
from controlplane.gateway.owners import Owners, moved
from controlplane.gateway.passing import Passed, read_passed
from controlplane.gateway.peers import client_address
from controlplane.gateway.readiness import Readiness
from controlplane.gateway.settings import GatewaySettings
from controlplane.gateway.snapshot import Snapshots
from controlplane.lib.ids import new_id

logger = logging.getLogger(__name__)

BODY_TIMEOUT_S = 60.0
MOST_HOPS = 3  # gateways before this one: an external endpoint may be another gateway, and must not be this one
FORWARDED = {
    "/v1/chat/completions": "/chat/completions",
    "/v1/completions": "/completions",
    "/v1/embeddings": "/embeddings",
}
READY = ("/readyz", "/health")  # the second is vLLM's, which load clients ask before they begin
_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")

Answer = tuple[int, bytes, bytes]  # status, content type, body


class Gateway:
    """One gateway process. Its parts are made and started by `controlplane.gateway.process`."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        snapshots: Snapshots,
        forwarder: Forwarder,
        owners: Owners,
        metrics: Callable[[], bytes],
        summed_metrics: Callable[[], Awaitable[bytes]] | None = None,
        readiness: Readiness,
        on_startup: Callable[[], Awaitable[None]],
        on_shutdown: Callable[[], Awaitable[None]],
    ) -> None:
        self._snapshots = snapshots
        self._forwarder = forwarder
        self._owners = owners
        self._metrics = metrics
        self._summed_metrics = summed_metrics  # of all processes behind the port, where there are several
        self._readiness = readiness
        self._on_startup = on_startup
        self._on_shutdown = on_shutdown
        self._body_limit = settings.body_limit_bytes
        self._trusted_proxies = settings.trusted_proxies
        self._metrics_from = settings.metrics_from
        self._id_prefix = new_id(8)
        self._numbers = itertools.count(1)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._lifespan(receive, send)
        return self._http(scope, receive, None)

    async def inside(self, scope: Scope, receive: Receive) -> None:
        """Answers what has come in at the internal address, from another gateway process."""
        await self._http(scope, receive, read_passed(scope["headers"]))

    async def _http(self, scope: Scope, receive: Receive, passed: Passed | None) -> None:
        arrived_at = time.monotonic()
        client: Client = scope["extensions"].pop(EXTENSION)  # taken out: it refers to the scope
        authorization, request_id, length, hops = read_headers(scope["headers"])
        request_id = request_id or f"{self._id_prefix}-{next(self._numbers):x}"
        upstream_path = FORWARDED.get(scope["path"])
        try:
            if upstream_path is None:
                await self._answer(scope, client, authorization, request_id, is_inside=passed is not None)
                return
            if scope["method"] != "POST":
                raise _wrong_method("POST")
            now = time.time()
            routes = self._snapshots.current(now)
            key = routes.key_for(authorization, now)
            if length is not None and length > self._body_limit:
                raise too_large(self._body_limit)
            body = client.whole_body()
            if body is None:
                body = await read_body(receive, self._body_limit)
                arrived_at = time.monotonic()
            elif len(body) > self._body_limit:
                raise too_large(self._body_limit)
            ask = read_ask(body, upstream_path)
            is_diverted = passed is not None and passed.diverted_from
            deployment = routes.diverted_to(ask.model) if is_diverted else routes.deployment_for(key, ask.model)
            if hops > MOST_HOPS:
                raise loop(hops)
            headers = scope["headers"]
            call = Call(upstream_path, ask, key, deployment, client, request_id, arrived_at, hops, body, headers)
            await self._decide(call, passed)
        except GatewayError as error:
            if not client.started:
                error.send(client, request_id)
        except asyncio.CancelledError:
            # The server is being stopped, and this is its last word; a stream has had its own from the relay.
            if not client.started:
                stopping().send(client, request_id)
        except ClientLeftError:
            logger.debug("%s: the client left before its request was whole", request_id)

    def _decide(self, call: Call, passed: Passed | None) -> Awaitable[None]:
        if passed is not None:
            return self._decide_for_another(call, passed)
        if self._owners.members is None:
            return self._forwarder.serve(call)
        return self._owners.answer(call, self._forwarder.serve)

    async def _decide_for_another(self, call: Call, passed: Passed) -> None:
        """Serves a call that another process has passed on to this one; raises GatewayError."""
        call.arrived_at -= passed.waited_s
        call.is_late = True
        call.diverted_from, call.came_back = passed.diverted_from, passed.came_back
        call.capped = call.capped_first = passed.capped
        if not passed.is_final and self._owners.is_elsewhere(call.deployment.name):
            raise moved()
        try:
            await self._forwarder.serve(call)
        except MovedError:
            if call.diverted_from == passed.diverted_from:
                raise moved() from None
            await self._owners.answer(call, self._forwarder.serve)  # its ladder sends it to a deployment of another

    async def _answer(
        self, scope: Scope, client: Client, authorization: bytes | None, request_id: str, *, is_inside: bool
    ) -> None:
        """Answers what needs no replica."""
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD"):
            known = path in ("/v1/models", "/healthz", *READY, "/metrics")
            raise _wrong_method("GET") if known else _unknown_path(path)
        if path == "/metrics":
            status, kind, body = await self._figures(scope, is_inside=is_inside)
        elif path == "/readyz" and is_inside:
            status, kind, body = 200, b"application/json", msgspec.json.encode(self._readiness.own())
        elif path in READY:
            status, kind, body = 200, b"text/plain; charset=utf-8", await self._readiness.told()
        elif is_inside and path == watching.ADDRESS and self._owners.members is not None:
            status, kind, body = 200, b"application/json", msgspec.json.encode(self._owners.members.says())
        else:
            status, kind, body = self._look_up(path, authorization)
        headers: Headers = [(b"content-type", kind), (b"x-headworks-request-id", request_id.encode())]
        client.start(status, headers, len(body))
        client.end(body)

    def _look_up(self, path: str, authorization: bytes | None) -> Answer:
        if path == "/healthz":
            return 200, b"text/plain; charset=utf-8", b"ok\n"
        if path == "/v1/models" or path.startswith("/v1/models/"):
            return 200, b"application/json", self._models(path, authorization)
        raise _unknown_path(path)

    async def _figures(self, scope: Scope, *, is_inside: bool) -> Answer:
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        if is_inside:
            return 200, kind, self._metrics()
        self._check_metrics_reader(scope)
        return 200, kind, self._metrics() if self._summed_metrics is None else await self._summed_metrics()

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


class ClientLeftError(Exception):
    """The client went away before its request was whole; nobody waits for an answer."""


def read_headers(headers: Headers) -> tuple[bytes | None, str, int | None, int]:
    """Returns (authorization, the client's own request id when it is sane, content length, gateways passed)."""
    authorization, request_id, length, hops = None, "", None, 0
    for name, value in headers:
        if name == b"authorization":
            authorization = value
        elif name == b"content-length":
            length = int(value)
        elif name == b"x-request-id" and _SANE_ID.fullmatch(value):
            request_id = value.decode()
        elif name == b"x-headworks-hops" and value[:4].isdigit():
            hops = int(value[:4])
    return authorization, request_id, length, hops


async def read_body(receive: Receive, limit: int) -> bytes:
    """Returns a body that comes in pieces; raises GatewayError when it is too long or too slow."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientLeftError
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise too_large(limit, close=True)
                parts.append(part)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        text = f"The request body did not arrive within {BODY_TIMEOUT_S:g} s."
        raise GatewayError(408, "request_timeout", text, close=True) from None
