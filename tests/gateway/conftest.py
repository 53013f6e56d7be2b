"""A gateway in the test's own event loop, on a real socket, with its snapshot from disk (so no Valkey is needed)."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import uvloop

from controlplane.domain.routing import SNAPSHOT_SCHEMA, RoutedDeployment, RoutedKey, RoutedReplica, RoutingSnapshot
from controlplane.domain.usage import UsageRow
from controlplane.gateway.process import Process
from controlplane.gateway.server import Server
from controlplane.gateway.settings import GatewaySettings, read_networks
from controlplane.lib import wire
from controlplane.lib.ids import secret_hash

KEY = "hw-test-key"


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}  # the loop that the gateway runs on


def make_deployment(*urls: str, name: str = "chat", model: str = "engine-model") -> RoutedDeployment:
    replicas = tuple(RoutedReplica(f"r{number}", url, "replica-key", model) for number, url in enumerate(urls))
    return RoutedDeployment(f"id-{name}", name, "vllm", False, replicas)


def make_snapshot(*deployments: RoutedDeployment, version: int = 1, **changes: object) -> RoutingSnapshot:
    fields: dict = {
        "schema": SNAPSHOT_SCHEMA,
        "version": version,
        "published_at": time.time(),
        "deployments": {one.name: one for one in deployments},
        "models": {one.name: one.name for one in deployments},
        "keys": {secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme")},
    }
    return RoutingSnapshot(**{**fields, **changes})


def make_settings(folder: Path, **changes: object) -> GatewaySettings:
    fields: dict = {
        "bind": "127.0.0.1",
        "port": 0,
        "home": folder,
        "tls_cert": "",
        "tls_key": "",
        "trusted_proxies": (),
        "metrics_from": read_networks("", ("127.0.0.0/8",)),
        "drain_s": 5,
        "body_limit_bytes": 1024 * 1024,
    }
    return GatewaySettings(**{**fields, **changes})


@dataclass(slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool  # the body ended as its framing says

    @property
    def json(self) -> dict:
        fields: dict = json.loads(self.body)
        return fields

    @property
    def code(self) -> str:
        code: str = self.json["error"]["code"]
        return code


@dataclass(slots=True)
class Running:
    """A gateway under test."""

    process: Process
    server: Server

    @property
    def port(self) -> int:
        port: int = self.server.servers[0].sockets[0].getsockname()[1]
        return port

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)

    async def ask(
        self,
        body: dict | bytes | None = None,
        *,
        path: str = "/v1/chat/completions",
        method: str = "POST",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Sends one request on a connection of its own and returns the whole answer."""
        reader, writer = await self.open()
        try:
            writer.write(make_request(body, path=path, method=method, headers=headers))
            return await read_answer(reader)
        finally:
            writer.close()

    async def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        return await self.ask(path=path, method="GET", headers=headers)

    async def chat(self, **fields: object) -> Answer:
        return await self.ask({"model": "chat", "messages": [], **fields})

    def usage(self) -> list[UsageRow]:
        """What was used, wherever it stands by now: each second it is taken from the meter to be delivered."""
        rows = [
            UsageRow(*address, used.requests, used.errors, used.prompt_tokens, used.completion_tokens)
            for address, used in self.process.meter.usage.items()
        ]
        for batch in self.process.outbox._owed():
            rows += msgspec.json.decode(batch.encoded, type=list[UsageRow])
        return rows

    async def until_idle(self) -> None:
        """Returns when nothing is in flight any more."""
        await until(lambda: not self.process.gates.in_flight() and not self.process.meter.live)
        self.process.gates.check_invariants()


async def until(is_true: Callable[[], object], limit_s: float = 10) -> None:
    async with asyncio.timeout(limit_s):
        while not is_true():
            await asyncio.sleep(0.005)


def make_request(
    body: dict | bytes | None = None,
    *,
    path: str = "/v1/chat/completions",
    method: str = "POST",
    headers: dict[str, str] | None = None,
) -> bytes:
    raw = json.dumps(body).encode() if isinstance(body, dict) else body or b""
    fields = {"host": "gateway", "authorization": f"Bearer {KEY}", "connection": "close", **(headers or {})}
    if method == "POST":
        fields.setdefault("content-length", str(len(raw)))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    raw = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *rest = raw.rstrip("\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    body = b""
    try:
        if headers.get("transfer-encoding") == "chunked":
            while size := int(await reader.readuntil(b"\r\n"), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        else:
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        whole = True
    except asyncio.IncompleteReadError as error:
        body, whole = body + error.partial, False
    return Answer(int(line.split()[1]), headers, body, whole)


def write_snapshot(folder: Path, snapshot: RoutingSnapshot) -> None:
    (folder / "gateway").mkdir(parents=True, exist_ok=True)
    (folder / "gateway" / "snapshot.json").write_bytes(wire.encode(snapshot))


StartGateway = Callable[..., Awaitable[Running]]


@pytest.fixture
async def start_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StartGateway]:
    """`await start_gateway(snapshot, redis_url, **settings)`; without an address there is no Valkey."""
    running: list[tuple[Server, asyncio.Task[None]]] = []

    async def start(snapshot: RoutingSnapshot | None = None, redis_url: str = "", **settings: object) -> Running:
        monkeypatch.setenv("REDIS_URL", redis_url or f"unix://{tmp_path}/nobody.sock")
        if snapshot is not None:
            write_snapshot(tmp_path, snapshot)
        process = Process(make_settings(tmp_path, **settings))
        server = process.server()
        task = asyncio.create_task(server.serve())
        await until(lambda: server.started or task.done())
        running.append((server, task))
        return Running(process, server)

    yield start
    for server, task in running:
        server.should_exit = True
        await task
