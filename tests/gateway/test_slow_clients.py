"""Clients that do not read: an engine finishes without them, and they hold no seat for longer than they may."""

from __future__ import annotations

import asyncio
import json
import socket
from dataclasses import replace

import pytest

from controlplane.domain.admission.tiers import BATCH, INTERACTIVE, STANDARD
from controlplane.gateway import server
from controlplane.gateway.client import UNREAD_MOST_BYTES, Client
from tests.gateway.conftest import Running, StartGateway, make_request, make_snapshot, until
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, chunk, event, head
from tests.gateway.test_admission import gate_of, is_at_rest, make_seats

STREAM_HEAD = head(kind="text/event-stream")


def make_talk(size: int) -> tuple[list[int], object]:
    """An engine's script that says so many bytes as fast as it can, and what it could say of them."""
    said = [0]

    async def talk(request: Request, peer: Peer) -> None:
        piece = event("x" * 16_000)
        if not request.json["stream"]:
            body = json.dumps({"text": "x" * size}).encode()
            await peer.send(head(length=len(body)) + body)
            return
        await peer.send(STREAM_HEAD)
        while said[0] < size:
            await peer.send(chunk(piece))
            said[0] += len(piece)
        await peer.send(chunk(DONE), LAST_CHUNK)

    return said, talk


async def ask_without_reading(gateway: Running, *, stream: bool) -> socket.socket:
    """A client whose system takes next to nothing for it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", gateway.port))
    sock.sendall(make_request({"model": "chat", "messages": [], "stream": stream}))
    sock.setblocking(False)
    return sock


async def read_all(sock: socket.socket) -> bytes:
    loop, parts = asyncio.get_running_loop(), []
    while part := await loop.sock_recv(sock, 1 << 20):
        parts.append(part)
    sock.close()
    return b"".join(parts)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_has_finished_gives_its_seat_to_somebody_else_though_the_client_has_read_nothing(
    start_gateway: StartGateway, stream: bool
) -> None:
    _, talk = make_talk(UNREAD_MOST_BYTES - 500_000)
    async with Engine(talk) as engine:  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=1)))
        sock = await ask_without_reading(gateway, stream=stream)
        await until(lambda: engine.requests)
        await gateway.until_idle()
        is_at_rest(gateway)
        got = await read_all(sock)
    assert got.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n" if stream else b'xx"}\r\n0\r\n\r\n')
    assert len(got) > UNREAD_MOST_BYTES - 500_000


async def test_what_is_kept_for_a_client_is_bounded_and_it_is_cut_after_its_total_limit(
    start_gateway: StartGateway,
) -> None:
    said, talk = make_talk(60_000_000)
    tiers = (INTERACTIVE, replace(STANDARD, total_base_s=3.0, total_per_token_s=0.0), BATCH)
    async with Engine(talk) as engine:  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=1, tiers=tiers)))
        sock = await ask_without_reading(gateway, stream=True)
        await until(lambda: gateway.process.meter.live)
        (live,) = gateway.process.meter.live
        await until(lambda: live.relay.waits_for_client)
        assert gate_of(gateway).admission.seated, "it holds its seat while the engine may still be at work"
        (connection,) = gateway.server.state.connections
        assert connection.transport.get_write_buffer_size() < UNREAD_MOST_BYTES + 500_000
        await gateway.until_idle()
        is_at_rest(gateway)
        got = await read_all(sock)
    assert said[0] < 60_000_000
    assert b'"code":"request_timeout"' in got


async def test_while_clients_leave_too_much_unread_none_may_leave_more(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, talk = make_talk(UNREAD_MOST_BYTES - 500_000)
    async with Engine(talk) as engine:  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=4)))
        first = await ask_without_reading(gateway, stream=True)
        await until(lambda: engine.requests)
        await gateway.until_idle()
        monkeypatch.setattr(server, "ALL_UNREAD_MOST_BYTES", 1)
        await until(lambda: Client.unread_most_bytes == 0)
        second = await ask_without_reading(gateway, stream=False)
        await until(lambda: any(live.relay.waits_for_client for live in gateway.process.meter.live))
        await read_all(first)
        await read_all(second)
        await until(lambda: Client.unread_most_bytes == UNREAD_MOST_BYTES)
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_client_that_does_not_read_keeps_no_gateway_from_ending(start_gateway: StartGateway) -> None:
    _, talk = make_talk(UNREAD_MOST_BYTES - 500_000)
    async with Engine(talk) as engine:  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(make_seats(engine.url)), drain_s=1)
        sock = await ask_without_reading(gateway, stream=True)
        await until(lambda: engine.requests)
        await gateway.until_idle()
        gateway.server.should_exit = True
        await until(lambda: not gateway.server.state.connections)
        sock.close()
