"""Replicas, and endpoints that others run, whose answers are odd, lie, or mean harm."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.domain import addresses
from controlplane.domain.admission.estimates import FIRST_OUTPUT_TOKENS
from controlplane.domain.routing import RoutedReplica
from tests.gateway.conftest import StartGateway, make_deployment, make_request, make_snapshot, read_answer
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, chunk, event, head, plain_body, usage_event

PACKED = gzip.compress(plain_body(), mtime=0)  # no time of day in the names of tests
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def answer_of(status: bytes, *headers: bytes, body: bytes = b"ok") -> bytes:
    lines = [b"HTTP/1.1 " + status, *headers, b"content-length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "raw",
    [
        answer_of(b"200 OK", b"content-type: application/json", b"content-encoding: gzip", body=PACKED),
        answer_of(b"200 OK", b"content-type: text/event-stream", b"Content-Encoding: br", body=b"x"),
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\n\r\n",
        answer_of(b"302 Found", b"location: http://elsewhere.example/"),
        answer_of(b"308 Permanent Redirect", b"location: https://elsewhere.example/"),
        answer_of(b"401 Unauthorized"),
        answer_of(b"000 Nothing"),
        answer_of(b"099 Low"),
        answer_of(b"600 High"),
        answer_of(b"999 Higher"),
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n" + answer_of(b"200 OK"),
        answer_of(b"200 OK", b"transfer-encoding: chunked"),
        answer_of(b"200 OK", b"content-length: 7"),
        answer_of(b"200 OK", b"content-type: a\r\n x-evil: 1"),
        answer_of(b"200 OK", b"content-type: a\rx-evil: 1"),
        answer_of(b"200 OK", b"content-type: a\0b"),
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: %b\r\n" % (n, b"y" * 1000) for n in range(600)) + b"\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 2_000_000,
    ],
)
async def test_an_answer_that_no_client_could_use_is_a_502_at_once(
    start_gateway: StartGateway, raw: bytes, stream: bool
) -> None:
    async def hostile(_: Request, peer: Peer) -> None:
        await peer.send(raw)
        await peer.wait_until_closed()

    async with Engine(hostile) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat(stream=stream)
        await gateway.until_idle()
    assert (got.status, got.code) == (502, "upstream_failed")
    assert "x-evil" not in got.headers
    assert "location" not in got.headers


async def test_trailers_of_one_answer_are_no_headers_of_the_next(start_gateway: StartGateway) -> None:
    async def trailing(_: Request, peer: Peer) -> None:
        trailers = b"0\r\ncontent-type: text/html\r\nretry-after: 5\r\ncontent-encoding: gzip\r\n\r\n"
        await peer.send(head() + chunk(plain_body()) + trailers)

    async with Engine(trailing) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answers = [await gateway.chat() for _ in range(3)]
    assert engine.connections == 1
    assert {(one.status, one.headers["content-type"]) for one in answers} == {(200, "application/json")}
    assert not any("retry-after" in one.headers for one in answers)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("count", [-1, -(10**6), 10**10, 10**30, 1.5, "7", True, [], {}])
async def test_an_impossible_usage_is_not_counted(start_gateway: StartGateway, count: object, stream: bool) -> None:
    usage = {"prompt_tokens": count, "completion_tokens": count}

    async def lying(_: Request, peer: Peer) -> None:
        if stream:
            pieces = [event("a"), event("b", usage=usage), usage_event().replace(b"7", b"-7"), DONE]
            await peer.send(head(kind="text/event-stream"), *[chunk(one) for one in pieces], LAST_CHUNK)
        else:
            body = plain_body()[:-1].partition(b', "usage"')[0] + b', "usage": ' + str(usage).replace("'", '"').encode()
            await peer.send(head(length=len(body) + 1) + body + b"}")

    async with Engine(lying) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        assert (await gateway.chat(stream=stream)).status == 200
        await gateway.until_idle()
    (used,) = gateway.usage()
    assert 0 < used.prompt_tokens < 20, "as it was estimated"
    assert 0 <= used.completion_tokens <= 4 if stream else used.completion_tokens == FIRST_OUTPUT_TOKENS


@pytest.mark.parametrize(
    "raw",
    [
        b": comment\n\nevent: x\nid: 3\nretry: 1\ndata: {\ndata: }\n\n" + DONE,
        (event("a") + DONE).replace(b"\n", b"\r\n"),
        (event("a") + DONE).replace(b"\n", b"\r"),
        event("a") + b"data: [DONE]",
        event("a", usage=None) + DONE,
        b"data: not json\n\ndata:\n\n\n\n" + DONE,
        b'data: {"choices": [], "usage": [[[' + b"[" * 60_000 + b"\n\n" + DONE,
        b"\xff\xfe\x00 data: \n\n" + DONE,
        b"data: " + b"x" * 300_000 + b"\n\n" + DONE,
        b"",
    ],
)
async def test_an_odd_stream_comes_through_byte_for_byte(start_gateway: StartGateway, raw: bytes) -> None:
    async def odd(_: Request, peer: Peer) -> None:
        await peer.send(STREAM + b"connection: close\r\n\r\n" + raw)
        peer.writer.close()

    async with Engine(odd) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat(stream=True)
        await gateway.until_idle()
    assert (got.status, got.whole, got.body) == (200, True, raw)


async def test_a_length_that_lies_hurts_nobody_else(start_gateway: StartGateway) -> None:
    async def lying(request: Request, peer: Peer) -> None:
        short = answer_of(b"200 OK", body=b"{}")
        await peer.send(short + b'{"stolen": true}' if len(engine.requests) == 1 else short)

    async with Engine(lying) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        assert [(await gateway.chat()).body for _ in range(3)] == [b"{}"] * 3
    assert engine.connections == 2


@pytest.mark.parametrize("behind", [b"x", b'{"stolen": true}', b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nstolen"])
async def test_what_comes_behind_an_answer_is_nobody_s_answer(start_gateway: StartGateway, behind: bytes) -> None:
    """Two requests wait on one connection: the second begins in the moment in which the first answer is whole."""

    async def eager(request: Request, peer: Peer) -> None:
        whole = answer_of(b"200 OK", body=b"{}")
        await peer.send(whole + behind if len(engine.requests) == 1 else whole)

    async with Engine(eager) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        writer.write(make_request({"model": "chat"}, headers={"connection": "keep-alive"}) * 3)
        assert [(await read_answer(reader)).body for _ in range(3)] == [b"{}"] * 3
        writer.close()
    assert engine.connections == 2


async def test_a_name_that_leads_to_a_forbidden_address_is_sent_nothing(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Engine() as engine:
        monkeypatch.setattr(addresses, "is_forbidden", lambda text: text == "127.0.0.1")
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url.replace("127.0.0.1", "localhost"))))
        assert (await gateway.chat()).status == 503
    assert engine.requests == []


async def test_an_endpoint_whose_certificate_nobody_vouches_for_is_told_nothing(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(10_000))
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context) as server:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
        gateway = await start_gateway(make_snapshot(make_deployment(url)))
        assert (await gateway.chat()).status in (502, 503)
    assert b"replica-key" not in b"".join(heard)


@pytest.mark.parametrize(
    "bad",
    [
        {"id": "r\r\nx-evil: 1"},
        {"id": "r ö"},
        {"id": ""},
        {"url": "http://a..b:80"},
        {"url": f"http://{'a' * 70}.example"},
        {"url": "http://127.0.0.1:99999"},
        {"url": "http://127.0.0.1:1/\x01"},
        {"url": "unix:///run/x"},
        {"key": "k\r\nx: y"},
    ],
)
async def test_a_replica_of_the_snapshot_that_can_not_be_used_is_left_out(
    start_gateway: StartGateway, bad: dict[str, str]
) -> None:
    async with Engine() as engine:
        good = make_deployment(engine.url)
        poor = replace(RoutedReplica("r9", "http://127.0.0.1:1", "k", "m"), **bad)  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(replace(good, replicas=(poor, *good.replicas))))
        for _ in range(4):
            got = await gateway.chat()
            assert (got.status, got.headers["x-headworks-replica"]) == (200, "r0")
