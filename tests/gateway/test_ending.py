"""How a gateway ends: what runs is answered, what waits behind it is told, and one wish may come as two signals."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.gateway import server
from tests.gateway.conftest import StartGateway, make_deployment, make_request, make_snapshot, read_answer, until
from tests.gateway.engine import LAST_CHUNK, Engine, Peer, Request, chunk, event, head

KEPT = {"connection": "keep-alive"}
STREAM = make_request({"model": "chat", "stream": True}, headers=KEPT)


def make_patient() -> tuple[asyncio.Event, object]:
    """An engine's script that says one word, and the last one when it is let go."""
    go_on = asyncio.Event()

    async def patient(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await go_on.wait()
        await peer.send(LAST_CHUNK)

    return go_on, patient


async def test_two_signals_that_come_together_are_one_wish(start_gateway: StartGateway) -> None:
    go_on, patient = make_patient()
    async with Engine(patient) as engine:  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        writer.write(STREAM)
        await reader.readuntil(b"one")
        gateway.server._told_to_end()
        gateway.server._told_to_end()
        await until(lambda: gateway.server.state.is_leaving)
        await asyncio.sleep(0.1)
        go_on.set()
        assert (await reader.read()).endswith(LAST_CHUNK)
        writer.close()


async def test_a_second_signal_ends_the_waiting_and_begins_nothing_that_waited_behind(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SAME_WISH_S", 0.0)
    _, patient = make_patient()
    async with Engine(patient) as engine:  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)), drain_s=60)
        reader, writer = await gateway.open()
        writer.write(STREAM + STREAM)
        await reader.readuntil(b"one")
        gateway.server._told_to_end()
        gateway.server._told_to_end()
        rest = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        assert b"gateway_stopping" in rest
        assert rest.endswith(LAST_CHUNK)
        assert len(engine.requests) == 1


async def test_what_was_sent_before_the_end_is_answered_in_order(start_gateway: StartGateway) -> None:
    go_on, patient = make_patient()
    async with Engine(patient) as engine:  # type: ignore[arg-type]
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        reader, writer = await gateway.open()
        writer.write(STREAM + STREAM + make_request(method="GET", path="/healthz", headers=KEPT))
        await until(lambda: engine.requests)
        gateway.server.should_exit = True
        await until(lambda: gateway.server.state.is_leaving)
        go_on.set()
        answers = [await read_answer(reader) for _ in range(3)]
        assert [(one.status, one.whole) for one in answers] == [(200, True)] * 3
        assert await reader.read() == b""
        writer.close()
