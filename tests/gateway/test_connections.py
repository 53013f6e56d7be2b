"""Connections that clients keep: what they ask is answered in order, and what is idle for long is closed."""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc

import pytest

from controlplane.gateway.client import ClientLeftError
from controlplane.gateway.connection import KEEP_ALIVE_S, LINGER_S, Connection, State
from tests.gateway.conftest import StartGateway, make_deployment, make_request, make_snapshot, read_answer, until
from tests.gateway.engine import LAST_CHUNK, Engine, Peer, Request, chunk
from tests.gateway.test_heads import Patient, Visit, Wire, ask

KEPT = {"connection": "keep-alive"}


async def test_an_idle_connection_is_closed_after_its_time_and_not_before(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        writer.write(make_request({"model": "chat"}, headers=KEPT))
        assert (await read_answer(reader)).status == 200
        now = asyncio.get_running_loop().time()
        gateway.server.sweep(now + KEEP_ALIVE_S - 5)
        writer.write(make_request({"model": "chat"}, headers=KEPT))
        assert (await read_answer(reader)).status == 200
        gateway.server.sweep(asyncio.get_running_loop().time() + KEEP_ALIVE_S + 5)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


async def test_an_idle_connection_does_not_hold_up_the_end(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        for _ in range(5):
            writer.write(make_request({"model": "chat"}, headers=KEPT))
            assert (await read_answer(reader)).status == 200
        await until(lambda: not gateway.server.state.tasks)
        writer.close()


@pytest.mark.parametrize("count", [2, 7])
async def test_requests_sent_together_are_answered_in_order(start_gateway: StartGateway, count: int) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        for _ in range(2):
            raws = [
                make_request({"model": "chat"}, headers={**KEPT, "x-request-id": f"q{one}"}) for one in range(count)
            ]
            writer.write(b"".join(raws))
            ids = [(await read_answer(reader)).headers["x-headworks-request-id"] for _ in range(count)]
            assert ids == [f"q{one}" for one in range(count)]
        writer.close()
    await gateway.until_idle()


async def test_a_path_written_in_another_way_is_read_as_before(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        for path in ("/v1/chat/completions?x=1", "/v1/chat%2Fcompletions", "/v1/chat/%63ompletions"):
            assert (await gateway.ask({"model": "chat"}, path=path)).status == 200, path
        for path in ("/v1/chat/completions/", "/v1//chat/completions"):
            assert (await gateway.ask({"model": "chat"}, path=path)).status == 404, path


@pytest.mark.parametrize("by", ["end", "reset"])
@pytest.mark.parametrize("behind", ["requests", "body"])
async def test_a_client_that_leaves_requests_behind_the_one_in_work_has_left(
    start_gateway: StartGateway, by: str, behind: str
) -> None:
    async def never(_request: Request, peer: Peer) -> None:
        await peer.wait_until_closed()

    async with Engine(never) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        _, writer = await gateway.open()
        first = make_request({"model": "chat"}, headers=KEPT)
        rest = first * 2 if behind == "requests" else make_request(b"x" * 100_000, headers=KEPT)
        writer.write(first + rest)
        await until(lambda: engine.requests)
        await asyncio.sleep(0.05)  # what is behind has come
        if by == "reset":
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await gateway.until_idle()
        await until(lambda: not gateway.server.state.connections)
        assert len(engine.requests) == 1


@pytest.mark.parametrize("late", [b"\r\n", b"{}"])  # what some clients send behind a body; a body not waited for
def test_a_connection_on_which_only_leftovers_come_is_idle(late: bytes) -> None:
    visit = Visit(State())
    visit.send(ask()) if late == b"\r\n" else visit.send(ask()[:-2])
    assert visit.wire.sent.startswith(b"HTTP/1.1 200")
    visit.send(late)
    visit.connection.sweep(KEEP_ALIVE_S - 5)
    assert not visit.wire.closed
    visit.connection.sweep(KEEP_ALIVE_S + 5)
    assert visit.wire.closed


def test_who_has_come_while_the_doors_were_closed_is_not_waited_for() -> None:
    state = State()
    state.is_leaving = True
    assert Visit(state).wire.closed


async def test_a_body_that_nobody_has_asked_for_and_that_may_never_come_ends_the_connection(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    reader, writer = await gateway.open()
    wishes = {"expect": "100-continue", "authorization": "Bearer nobody", "content-length": "100", **KEPT}
    writer.write(make_request(headers=wishes))
    answer = await read_answer(reader)
    assert (answer.status, answer.headers["connection"]) == (401, "close")
    gateway.server.sweep(asyncio.get_running_loop().time() + LINGER_S + 1)
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()


@pytest.mark.parametrize("then", [b"", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"nonsense"])
async def test_who_still_sends_what_was_refused_gets_the_answer_and_nothing_else(
    start_gateway: StartGateway, then: bytes
) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    reader, writer = await gateway.open()
    head = make_request(headers={"transfer-encoding": "chunked", **KEPT}).replace(b"content-length: 0\r\n", b"")
    writer.write(head)
    for _ in range(16 * 8):
        writer.write(chunk(b"x" * 65536))
        await writer.drain()
    writer.write(LAST_CHUNK + then)
    answer = await read_answer(reader)
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    await until(lambda: not gateway.server.state.connections)


async def test_a_client_that_leaves_as_its_body_comes_whole_has_left() -> None:
    visit = Patient(State())
    visit.send(ask()[:-2])
    reading = asyncio.ensure_future(visit.client.read_body(100))
    await asyncio.sleep(0)
    visit.send(b"{}")
    visit.connection.connection_lost(None)
    with pytest.raises(ClientLeftError):
        await reading


@pytest.mark.parametrize("path", ["/metrics", "/v1/models", "/healthz"])
async def test_a_client_that_has_left_as_its_request_begins_is_no_failure(
    start_gateway: StartGateway, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    state, wire = State(), Wire()  # a wire without an address, as uvloop's is once it is closed
    connection = Connection(state, gateway.process.app.serve, asyncio.get_running_loop())
    connection.connection_made(wire)  # type: ignore[arg-type]
    connection.data_received(make_request(method="GET", path=path))
    connection.connection_lost(None)
    await until(lambda: not state.tasks)
    assert wire.sent == b""
    assert "could not be answered" not in caplog.text


async def test_a_client_that_has_left_is_not_told_to_go_on() -> None:
    visit = Patient(State())
    visit.send(ask(expect="100-continue")[:-2])
    visit.connection.connection_lost(None)
    with pytest.raises(ClientLeftError):
        await visit.client.read_body(100)
    assert visit.wire.sent == b"", "the transport is closed, and uvloop raises then"


def test_what_is_written_behind_an_answer_is_dropped_and_its_request_is_not_kept() -> None:
    visit = Patient(State())
    visit.send(ask(b"x" * 1000))
    client = visit.client
    client.start(200, [], 2)
    client.end(b"ok")
    sent = visit.wire.sent
    client.write(b"more")
    client.end(b"more")
    assert visit.wire.sent == sent
    assert client.whole_body() == b""


def test_a_body_of_very_small_chunks_takes_no_more_memory_than_its_bytes() -> None:
    visit = Patient(State())
    visit.send(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
    piece = b"2\r\n{}\r\n" * 100
    tracemalloc.start()
    try:
        for _ in range(1000):
            visit.send(piece)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert visit.client.received_bytes == 200_000
    assert taken < 1_000_000
