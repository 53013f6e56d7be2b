"""What clients may send that is no honest request, and what none of them may use up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource

import pytest

from controlplane.gateway.asks import MOST_FIELDS
from controlplane.gateway.connection import BODY_TIMEOUT_S, PIPELINE_MOST, UNREAD_LIMIT_BYTES, UNREAD_TIMEOUT_S
from tests.gateway.conftest import (
    KEY,
    Running,
    StartGateway,
    make_deployment,
    make_request,
    make_snapshot,
    read_answer,
    until,
)
from tests.gateway.engine import LAST_CHUNK, Engine, Peer, Request, chunk, event, head

BODY = b'{"model":"chat"}'
HEAD = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n".encode()
LENGTH = b"content-length: 16\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
INNER = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


async def everything(gateway: Running, *pieces: bytes) -> bytes:
    """Sends pieces, each as a packet, and returns all that comes until the gateway closes or stays silent."""
    reader, writer = await gateway.open()
    got = b""
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)
        while data := await asyncio.wait_for(reader.read(1 << 16), 0.5):
            got += data
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
    return got


@pytest.mark.parametrize(
    "raw",
    [
        HEAD + LENGTH + CHUNKED + b"\r\n0\r\n\r\n" + INNER,
        HEAD + CHUNKED + LENGTH + b"\r\n0\r\n\r\n" + INNER,
        HEAD + LENGTH + LENGTH + b"\r\n" + BODY,
        HEAD + LENGTH + b"content-length: 0\r\n\r\n" + BODY,
        HEAD + b"content-length: 16, 16\r\n\r\n" + BODY,
        HEAD + b"content-length: +16\r\n\r\n" + BODY,
        HEAD + b"content-length: 0x10\r\n\r\n" + BODY,
        HEAD + b"content-length: 99999999999999999999999\r\n\r\n" + BODY,
        HEAD + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        HEAD + CHUNKED + b"transfer-encoding: identity\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"x: folded\r\n line\r\n" + LENGTH + b"\r\n" + BODY,
        (HEAD + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + BODY,
        HEAD + b"x: a\rtransfer-encoding: chunked\r\n" + LENGTH + b"\r\n" + BODY,
        HEAD + b"x: a\0b\r\n" + LENGTH + b"\r\n" + BODY,
        HEAD + CHUNKED + b"\r\n10;a\n" + BODY + b"\r\n0\r\n\r\n",
        HEAD + CHUNKED + b"\r\n-1\r\n" + BODY + b"\r\n0\r\n\r\n",
        HEAD + CHUNKED + b"\r\nffffffffffffffff1\r\n" + BODY,
        HEAD + CHUNKED + b"\r\n10\r\n" + BODY + b"0\r\n\r\n",
        HEAD + CHUNKED + b"\r\n10\r\n" + BODY + b"\r\n0\r\ncontent-length: 5\r\n\r\n",
        b"CONNECT engine:8000 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET http://engine:8000 HTTP/1.1\r\nhost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz \xff HTTP/1.1\r\n\r\n",
        HEAD + LENGTH + b"\r\n" + BODY + b"XXXX",
    ],
)
async def test_what_two_servers_could_read_in_two_ways_is_refused_and_ends_the_connection(
    start_gateway: StartGateway, raw: bytes
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await everything(gateway, raw)
        await gateway.until_idle()
    assert got.count(b"HTTP/1.1 ") == 1
    assert got.startswith(b"HTTP/1.1 400")
    assert b'"code":"invalid_request"' in got
    assert engine.requests == []


@pytest.mark.parametrize("wish", [b"h2c", b"websocket", b"TLS/1.0"])
@pytest.mark.parametrize("pieces", [1, 2])
async def test_the_body_of_a_request_that_wishes_for_another_protocol_is_never_a_request(
    start_gateway: StartGateway, wish: bytes, pieces: int
) -> None:
    asked = b"connection: keep-alive, Upgrade, HTTP2-Settings\r\nupgrade: %b\r\nhttp2-settings: AAMA\r\n" % wish
    raw = HEAD + asked + b"content-length: %d\r\n\r\n" % len(INNER)
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await everything(gateway, *([raw, INNER] if pieces == 2 else [raw + INNER]))
    assert got.count(b"HTTP/1.1 ") == 1
    assert b"not valid JSON" in got


async def test_a_request_that_wishes_for_http_2_is_answered_as_if_it_did_not(start_gateway: StartGateway) -> None:
    headers = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AAMA"}
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        raw = make_request({"model": "chat", "stream": True}, headers=headers)
        reader, writer = await gateway.open()
        for _ in range(2):
            writer.write(raw)
            answer = await read_answer(reader)
            assert (answer.status, answer.whole) == (200, True)
        writer.write(raw + make_request({"model": "chat"}))  # in one packet
        assert [(await read_answer(reader)).status for _ in range(2)] == [200, 200]
        writer.close()
    assert len(engine.requests) == 4


async def test_a_body_that_nobody_waits_for_has_an_end(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    reader, writer = await gateway.open()
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100000000000\r\n\r\nx")
    assert (await read_answer(reader)).status == 401
    now = asyncio.get_running_loop().time()
    gateway.server.sweep(now + BODY_TIMEOUT_S - 5)
    assert not reader.at_eof() and gateway.server.state.connections
    gateway.server.sweep(now + BODY_TIMEOUT_S + 5)
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


@pytest.mark.parametrize("missing", [5, 50])  # of its body, of its head
async def test_a_request_behind_a_running_stream_is_not_late(start_gateway: StartGateway, missing: int) -> None:
    go_on = asyncio.Event()

    async def patient(request: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event()))
        await go_on.wait()
        await peer.send(LAST_CHUNK)

    async with Engine(patient) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        raw = make_request({"model": "chat", "stream": True}, headers={"connection": "keep-alive"})
        reader, writer = await gateway.open()
        writer.write(raw + raw[:-missing])
        await reader.readuntil(b"tok")
        gateway.server.sweep(asyncio.get_running_loop().time() + BODY_TIMEOUT_S + 5)
        go_on.set()
        await reader.readuntil(LAST_CHUNK)
        writer.write(raw[-missing:])
        assert (await read_answer(reader)).status == 200
        writer.close()


async def test_requests_that_wait_for_each_other_are_few(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    got = await everything(gateway, INNER * (PIPELINE_MOST // 2))
    assert got.count(b"HTTP/1.1 200") == PIPELINE_MOST // 2
    assert b"200" not in await everything(gateway, INNER * (PIPELINE_MOST * 4))
    await until(lambda: not gateway.server.state.connections)


@pytest.mark.parametrize(("size", "times"), [(900_000, 60), (60_000, 600)])  # in pieces, in one
async def test_a_client_that_does_not_read_uses_up_no_memory(
    start_gateway: StartGateway, size: int, times: int
) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    reader, writer = await gateway.open()
    reader._limit = 1  # type: ignore[attr-defined]  # stop reading from the socket early
    longest = 0
    ask = make_request({"model": "m" * size}, headers={"connection": "keep-alive"})
    with contextlib.suppress(ConnectionError):
        for _ in range(times):
            writer.write(ask)
            await writer.drain()
            await asyncio.sleep(0.002)
            for connection in gateway.server.state.connections:
                longest = max(longest, connection.transport.get_write_buffer_size())
    await until(lambda: not gateway.server.state.connections)
    writer.close()
    assert 0 < longest < UNREAD_LIMIT_BYTES + 2_000_000


async def test_a_client_that_never_reads_to_the_end_is_left_some_day(start_gateway: StartGateway) -> None:
    async def long(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"))
        for _number in range(8000):
            await peer.send(chunk(event("x" * 4000)))

    async with Engine(long) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        reader._limit = 1000  # type: ignore[attr-defined]
        writer.write(make_request({"model": "chat", "stream": True}))
        await reader.readuntil(b"\r\n\r\n")
        (connection,) = gateway.server.state.connections
        sizes = [-1, 0]
        while sizes[-1] != sizes[-2] or not sizes[-1]:
            sizes.append(connection.transport.get_write_buffer_size())
            await asyncio.sleep(0.3)
        now = asyncio.get_running_loop().time()
        gateway.server.sweep(now)
        gateway.server.sweep(now + UNREAD_TIMEOUT_S - 5)
        assert gateway.process.gates.in_flight()
        gateway.server.sweep(now + UNREAD_TIMEOUT_S + 5)
        await gateway.until_idle()
        await until(lambda: not gateway.server.state.connections)
        writer.close()


async def test_a_body_of_a_million_names_is_refused(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    few, many = ({"model": "chat", **{f"n{i}": 0 for i in range(n)}} for n in (MOST_FIELDS - 1, MOST_FIELDS))
    assert (await gateway.ask(few)).code == "no_replica"
    refused = await gateway.ask(many)
    assert (refused.status, refused.code) == (400, "invalid_request")


@pytest.mark.parametrize("deep", [b'"a":%b', b'"model":%b', b'"stream":true,"stream_options":{"a":%b}'])
async def test_a_body_that_is_too_deep_is_refused_with_a_sentence(start_gateway: StartGateway, deep: bytes) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    answer = await gateway.ask(b'{"model":"chat",' + deep % (b"[" * 100_000 + b"]" * 100_000) + b"}")
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert "nested too deeply" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "name", ["\\ud800", "\\udc00\\ud800", "chat\\u0000", "ＣＨＡＴ", "chat\\u200b", "../chat", "chat\\r\\nx: y"]
)
async def test_an_odd_model_name_is_no_model_and_no_failure(start_gateway: StartGateway, name: str) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    answer = await gateway.ask(f'{{"model":"{name}"}}'.encode())
    assert answer.status in (400, 404)
    assert answer.json["error"]["message"]


async def test_two_thousand_idle_connections_leave_the_gateway_quick_and_are_let_go(
    start_gateway: StartGateway,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 5000:
        pytest.skip("this system allows fewer open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5000), hard))
    idle = []
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        try:
            for _ in range(2000):
                idle.append(await gateway.open())
            assert (await gateway.chat()).status == 200
            gateway.server.sweep(asyncio.get_running_loop().time() + 1000)
            await until(lambda: not gateway.server.state.connections)
        finally:
            for _, writer in idle:
                writer.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_gateway_without_a_free_file_serves_who_is_there_and_recovers(start_gateway: StartGateway) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        assert (await gateway.chat()).status == 200  # leaves a connection to the engine
        reader, writer = await gateway.open()
        await until(lambda: gateway.server.state.connections)
        files = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    files.append(os.dup(0))
            writer.write(make_request({"model": "chat"}))
            assert (await read_answer(reader)).status == 200
        finally:
            for file in files:
                os.close(file)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            writer.close()
        assert (await gateway.chat()).status == 200
