"""The gateway as a process: signals, TLS, settings."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controlplane.domain.routing import RoutingSnapshot
from controlplane.env import SettingError
from controlplane.gateway.connection import HEAD_TIMEOUT_S
from controlplane.gateway.peers import client_address
from controlplane.gateway.settings import read_networks, read_settings
from tests.gateway.conftest import (
    StartGateway,
    make_deployment,
    make_request,
    make_snapshot,
    read_answer,
    until,
    write_snapshot,
)
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, chunk, event, head
from tests.gateway.test_failures import free_port


@asynccontextmanager
async def process_of(
    folder: Path, snapshot: RoutingSnapshot, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Starts `python -m controlplane.gateway` and yields (process, port) as soon as it listens."""
    write_snapshot(folder, snapshot)
    port = int(environment.get("HEADWORKS_GATEWAY_PORT") or free_port())
    values = {"HEADWORKS_HOME": str(folder), "HEADWORKS_GATEWAY_PORT": str(port), "REDIS_URL": f"unix://{folder}/no"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "controlplane.gateway", env={**os.environ, **values, **environment}
    )
    try:
        async with asyncio.timeout(20):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield process, port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_sigterm_finishes_running_streams_takes_nothing_new_and_ends_with_0(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def patient(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await go_on.wait()
        await peer.send(chunk(event("two")), chunk(DONE), LAST_CHUNK)

    async with (
        Engine(patient) as engine,
        process_of(tmp_path, make_snapshot(make_deployment(engine.url))) as (process, port),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(make_request({"model": "chat", "stream": True}))
        await until(lambda: engine.requests)
        process.send_signal(signal.SIGTERM)
        await until_refused(port)
        go_on.set()
        got = await read_answer(reader)
        writer.close()
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert got.body == event("one") + event("two") + DONE


async def test_a_stream_that_outlasts_the_drain_limit_ends_with_an_error_event(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def endless(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await peer.wait_until_closed()
        closed.set()

    async with Engine(endless) as engine:
        snapshot = make_snapshot(make_deployment(engine.url))
        async with process_of(tmp_path, snapshot, HEADWORKS_GATEWAY_DRAIN_S="1") as (process, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(make_request({"model": "chat", "stream": True}))
            await reader.readuntil(b"one")
            process.send_signal(signal.SIGTERM)
            rest = await reader.read()
            writer.close()
            assert await asyncio.wait_for(process.wait(), 10) == 0
        await asyncio.wait_for(closed.wait(), 10)
    assert b'"code":"gateway_stopping"' in rest
    assert rest.endswith(LAST_CHUNK)


async def until_refused(port: int) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.02)


async def test_tls_is_served_with_the_given_certificate(start_gateway: StartGateway, tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    async with Engine() as engine:
        snapshot = make_snapshot(make_deployment(engine.url))
        gateway = await start_gateway(snapshot, tls_cert=str(cert), tls_key=str(key))
        trust = ssl.create_default_context(cafile=str(cert))
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", gateway.port, ssl=trust, server_hostname="localhost"
        )
        writer.write(make_request({"model": "chat", "stream": True}))
        assert (await read_answer(reader)).body.endswith(DONE)
        writer.close()


async def test_requests_on_one_connection_follow_each_other_also_when_sent_together(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        keep = {"connection": "keep-alive"}
        writer.write(make_request({"model": "chat", "stream": True}, headers=keep) * 2 + make_request({"model": "no"}))
        answers = [await read_answer(reader) for _ in range(3)]
        writer.close()
    assert [(one.status, one.whole) for one in answers] == [(200, True), (200, True), (404, True)]


async def test_head_of_a_page_has_no_body(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot())
    reader, writer = await gateway.open()
    writer.write(make_request(method="HEAD", path="/healthz"))
    raw = await reader.read()
    writer.close()
    assert raw.startswith(b"HTTP/1.1 200")
    assert raw.endswith(b"\r\n\r\n")


async def test_a_request_head_without_an_end_is_cut_off(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot())
    reader, writer = await gateway.open()
    writer.write(b"GET /healthz HTTP/1.1\r\nx: ")
    with contextlib.suppress(ConnectionError):
        for _ in range(40):
            writer.write(b"x" * 10_000)
            await writer.drain()
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


async def test_a_request_head_that_takes_too_long_is_cut_off(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot())
    for beginning in (b"", b"GET /heal"):
        reader, writer = await gateway.open()
        writer.write(beginning)
        await until(lambda: gateway.server.state.connections)
        gateway.server.sweep(asyncio.get_running_loop().time() + HEAD_TIMEOUT_S + 1)
        with contextlib.suppress(ConnectionError):  # a reset, when the beginning has not been read yet
            assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()
        await until(lambda: not gateway.server.state.connections)


async def test_an_idle_connection_between_requests_is_not_a_slow_head(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot())
    reader, writer = await gateway.open()
    for _ in range(2):
        writer.write(make_request(method="GET", path="/healthz", headers={"connection": "keep-alive"}))
        assert (await read_answer(reader)).status == 200
        gateway.server.sweep(asyncio.get_running_loop().time() + HEAD_TIMEOUT_S + 1)
    writer.close()


async def test_a_client_may_wait_for_the_word_to_go_on(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        raw = make_request({"model": "chat"}, headers={"expect": "100-continue"})
        at = raw.index(b"\r\n\r\n") + 4
        writer.write(raw[:at])
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(raw[at:])
        assert (await read_answer(reader)).status == 200
        writer.close()


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("203.0.113.9", None, "203.0.113.9"),
        ("203.0.113.9", "10.0.0.1", None),
        ("10.0.0.2", "198.51.100.7", "198.51.100.7"),
        ("10.0.0.2", "1.1.1.1, 198.51.100.7, 10.0.0.3", "198.51.100.7"),
        ("10.0.0.2", "nonsense", None),
        ("10.0.0.2", None, "10.0.0.2"),
        ("::ffff:10.0.0.2", "198.51.100.7", "198.51.100.7"),
    ],
)
def test_only_trusted_proxies_may_say_who_the_client_is(peer: str, forwarded: str | None, address: str | None) -> None:
    headers = [] if forwarded is None else [(b"x-forwarded-for", forwarded.encode())]
    found = client_address((peer, 1), headers, read_networks("", ("10.0.0.0/8",)))
    assert (None if found is None else str(found)) == address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADWORKS_GATEWAY_PORT", "http"),
        ("HEADWORKS_TRUSTED_PROXIES", "10.0.0.0/8, nonsense"),
        ("HEADWORKS_TLS_CERT", "/cert.pem"),
        ("HEADWORKS_GATEWAY_DRAIN_S", "-1"),
    ],
)
def test_a_setting_that_can_not_be_used_is_named(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingError, match=name):
        read_settings()
