"""The OpenAI-compatible application."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable

import msgspec

from controlplane.gateway import watching
from controlplane.gateway.asks import read_ask
from controlplane.gateway.client import Client, ClientLeftError, Headers
from controlplane.gateway.errors import GatewayError, loop, stopping, too_large
from controlplane.gateway.forward import Call, Forwarder
from controlplane.gateway.gate import MovedError
from controlplane.gateway.owners import Owners, moved
from controlplane.gateway.passing import Passed, read_passed
from controlplane.gateway.peers import client_address
from controlplane.gateway.readiness import Readiness
from controlplane.gateway.settings import GatewaySettings
from controlplane.gateway.snapshot import Snapshots
from controlplane.lib.eager import as_task
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
ANSWERED = frozenset({"/v1/models", "/healthz", "/metrics", *READY})  # by the gateway itself

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
    ) -> None:
        self._snapshots = snapshots
        self._forwarder = forwarder
        self._owners = owners
        self._metrics = metrics
        self._summed_metrics = summed_metrics  # of all processes behind the port, where there are several
        self._readiness = readiness
        self._body_limit = settings.body_limit_bytes
        self._trusted_proxies = settings.trusted_proxies
        self._metrics_from = settings.metrics_from
        self._id_prefix = new_id(8)
        self._numbers = itertools.count(1)

    def serve(self, client: Client) -> None:
        """Answers a request that has come in at the port."""
        client.run(self._http(client, None))

    def inside(self, client: Client) -> None:
        """Answers a request that has come in at the internal address, from another gateway process."""
        client.run(self._http(client, read_passed(client.head.headers)))

    async def _http(self, client: Client, passed: Passed | None) -> None:
        arrived_at = time.monotonic()
        head = client.head
        request_id = head.request_id or f"{self._id_prefix}-{next(self._numbers):x}"
        upstream_path = FORWARDED.get(head.path)
        try:
            if upstream_path is None:
                await self._answer(client, request_id, is_inside=passed is not None)
                return
            if head.method != "POST":
                raise _wrong_method("POST")
            now = time.time()
            routes = self._snapshots.current(now)
            key = routes.key_for(head.authorization, now)
            body = client.whole_body()
            if body is None:
                body = await read_body(client, self._body_limit)
                arrived_at = time.monotonic()
            elif len(body) > self._body_limit:
                raise too_large(self._body_limit)
            ask = read_ask(body, upstream_path)
            is_diverted = passed is not None and passed.diverted_from
            deployment = routes.diverted_to(ask.model) if is_diverted else routes.deployment_for(key, ask.model)
            hops = head.hops
            if hops > MOST_HOPS:
                raise loop(hops)
            call = Call(upstream_path, ask, key, deployment, client, request_id, arrived_at, hops, body, head.headers)
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

    async def _answer(self, client: Client, request_id: str, *, is_inside: bool) -> None:
        """Answers what needs no replica."""
        await as_task()
        if client.gone:
            raise ClientLeftError  # nobody can tell the address of a connection that has ended
        path = client.head.path
        if client.head.method not in ("GET", "HEAD"):
            known = path in ANSWERED
            raise _wrong_method("GET") if known else _unknown_path(path)
        if path == "/metrics":
            status, kind, body = await self._figures(client, is_inside=is_inside)
        elif path == "/readyz" and is_inside:
            status, kind, body = 200, b"application/json", msgspec.json.encode(self._readiness.own())
        elif path in READY:
            status, kind, body = 200, b"text/plain; charset=utf-8", await self._readiness.told()
        elif is_inside and path == watching.ADDRESS and self._owners.members is not None:
            status, kind, body = 200, b"application/json", msgspec.json.encode(self._owners.members.says())
        else:
            status, kind, body = self._look_up(path, client.head.authorization)
        name = request_id.encode()
        headers: Headers = [(b"content-type", kind), (b"x-request-id", name), (b"x-headworks-request-id", name)]
        client.start(status, headers, len(body))
        client.end(body)

    def _look_up(self, path: str, authorization: bytes | None) -> Answer:
        if path == "/healthz":
            return 200, b"text/plain; charset=utf-8", b"ok\n"
        if path == "/v1/models" or path.startswith("/v1/models/"):
            return 200, b"application/json", self._models(path, authorization)
        raise _unknown_path(path)

    async def _figures(self, client: Client, *, is_inside: bool) -> Answer:
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        if is_inside:
            return 200, kind, self._metrics()
        self._check_metrics_reader(client)
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

    def _check_metrics_reader(self, client: Client) -> None:
        """The figures name deployments, so they are shown to the networks of HEADWORKS_METRICS_FROM only."""
        address = client_address(client.peername, client.head.headers, self._trusted_proxies)
        if address is None or not any(address in network for network in self._metrics_from):
            raise GatewayError(403, "forbidden", "Metrics are shown to the networks of HEADWORKS_METRICS_FROM only.")


def _model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "headworks"}


def _wrong_method(allowed: str) -> GatewayError:
    text = f"This address takes {allowed} only."
    return GatewayError(405, "method_not_allowed", text, headers=[(b"allow", allowed.encode())])


def _unknown_path(path: str) -> GatewayError:
    return GatewayError(404, "unknown_url", f"There is nothing at {path}. Chat is at POST /v1/chat/completions.")


async def read_body(client: Client, limit_bytes: int) -> bytes:
    """Returns a body that comes in pieces; raises GatewayError when it is too long or too slow, ClientLeftError."""
    await as_task()
    length = client.head.length
    if length is not None and length > limit_bytes:
        raise too_large(limit_bytes)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            body = await client.read_body(limit_bytes)
    except TimeoutError:
        text = f"The request body did not arrive within {BODY_TIMEOUT_S:g} s."
        raise GatewayError(408, "request_timeout", text, close=True) from None
    if body is None:
        raise too_large(limit_bytes, close=True)
    return body
