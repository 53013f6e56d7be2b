"""Connections that clients keep: what they ask is answered in order, and what is idle for long is closed."""

from __future__ import annotations

import asyncio

import pytest

from controlplane.gateway.connection import KEEP_ALIVE_S
from tests.gateway.conftest import StartGateway, make_deployment, make_request, make_snapshot, read_answer, until
from tests.gateway.engine import Engine

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
