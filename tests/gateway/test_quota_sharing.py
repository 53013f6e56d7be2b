"""Quotas while gateways die, Valkey goes or forgets, clients leave at any moment, and one tenant wants everything."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.domain.quotas.quota import Price, Quota
from controlplane.domain.routing import RoutedKey, RoutingSnapshot
from controlplane.embedded import valkey as embedded
from controlplane.lib.ids import secret_hash
from tests.gateway.conftest import KEY, Answer, StartGateway, make_request, make_snapshot, until
from tests.gateway.engine import Engine, Peer, Request, answer, chunk, event
from tests.gateway.test_admission import STREAM_HEAD, abort_somewhere, make_held, make_seats
from tests.gateway.test_process import process_of
from tests.gateway.test_quotas import is_at_rest, make_limited, used

pytestmark = pytest.mark.services
GREEDY, MODEST = "hw-greedy-key", "hw-modest-key"


def make_server(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        embedded.server_command(folder, folder / "v.sock", durable=False), stdout=subprocess.DEVNULL
    )


@asynccontextmanager
async def own_valkey() -> AsyncIterator[tuple[Path, list[subprocess.Popen[bytes]]]]:
    """A Valkey that a test may kill and start again; the last of the list is the running one."""
    folder = Path(tempfile.mkdtemp(prefix="hwq-"))
    servers = [make_server(folder)]
    try:
        await until((folder / "v.sock").exists)
        yield folder, servers
    finally:
        for one in servers:
            one.kill()
            one.wait()
        shutil.rmtree(folder)


async def test_what_a_killed_gateway_held_is_back_within_5_s(
    start_gateway: StartGateway, valkey_server: str, tmp_path: Path
) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        snapshot = make_limited(engine.url, concurrent_requests=4)
        gateway = await start_gateway(snapshot, valkey_server)
        async with process_of(tmp_path / "other", snapshot, REDIS_URL=valkey_server) as (process, port):
            tasks = [asyncio.create_task(ask_at(port)) for _ in range(4)]
            await until(lambda: len(engine.requests) == 4)
            assert (await gateway.chat()).status == 429, "the other gateway holds all four"
            process.send_signal(signal.SIGKILL)
            killed_at = time.monotonic()
            await asyncio.gather(*tasks, return_exceptions=True)
            free.set()
            while (await gateway.chat()).status == 429:
                await asyncio.sleep(0.1)
            assert time.monotonic() - killed_at < 5.5
        is_at_rest(gateway)


async def ask_at(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(make_request({"model": "chat", "messages": []}))
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_without_valkey_it_goes_on_with_what_it_holds_and_says_so(start_gateway: StartGateway) -> None:
    async with Engine() as engine, own_valkey() as (folder, servers):
        gateway = await start_gateway(make_limited(engine.url, tokens_per_day=100_000), embedded.url(folder / "v.sock"))
        assert (await gateway.chat()).status == 200
        assert "headworks_gateway_quotas_cut_off 0" in (await gateway.get("/metrics")).body.decode()
        servers[-1].kill()
        servers[-1].wait()
        await until(lambda: gateway.process.gates.quotas.is_cut_off)
        assert (await gateway.chat(max_tokens=20)).status == 200
        ready = await gateway.get("/readyz")
        assert ready.status == 200 and b"quotas: Valkey does not answer" in ready.body
        assert "headworks_gateway_quotas_cut_off 1" in (await gateway.get("/metrics")).body.decode()
        answers = [await gateway.chat(max_tokens=3000) for _ in range(3)]
        refused = [one for one in answers if one.status == 429]
        assert refused, "what it held is used up some day"
        assert "can't reach Valkey" in refused[0].json["error"]["message"]
        (folder / "v.sock").unlink(missing_ok=True)
        servers.append(make_server(folder))
        await until(lambda: not gateway.process.gates.quotas.is_cut_off)
        assert (await gateway.get("/readyz")).body == b"ready\n"
        assert (await gateway.chat(max_tokens=3000)).status == 200
        is_at_rest(gateway)


async def test_a_valkey_that_forgot_everything_is_told_what_is_held_and_serves_on(start_gateway: StartGateway) -> None:
    async with Engine() as engine, own_valkey() as (folder, servers):
        gateway = await start_gateway(
            make_limited(engine.url, requests_per_minute=600), embedded.url(folder / "v.sock")
        )
        assert [(await gateway.chat()).status for _ in range(5)] == [200] * 5
        servers[-1].kill()
        servers[-1].wait()
        (folder / "v.sock").unlink(missing_ok=True)
        servers.append(make_server(folder))
        again = [await gateway.chat() for _ in range(5)]
        while (missing := 5 - sum(one.status == 200 for one in again)) > 0:  # until it has found the new one
            assert all("can't reach Valkey" in one.json["error"]["message"] for one in again if one.status != 200)
            await asyncio.sleep(0.2)
            again += [await gateway.chat() for _ in range(missing)]
        assert used(gateway, "requests_per_minute") == 10
        is_at_rest(gateway)


async def test_after_aborts_at_every_stage_no_seat_no_token_and_no_quota_is_held(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    chance = random.Random(11)

    async def moody(request: Request, peer: Peer) -> None:
        luck = chance.random()
        await asyncio.sleep(chance.random() * 0.02)
        if luck < 0.1:
            peer.cut()
        elif luck < 0.2 and request.json["stream"]:
            await peer.send(STREAM_HEAD, chunk(event()))
            peer.cut()
        else:
            await answer(request, peer)

    limits = {
        "requests_per_minute": 60_000, "tokens_per_minute": 3_000_000, "concurrent_requests": 40,
        "tokens_per_day": 10**7, "money_per_month": 10**9,
    }  # fmt: skip
    async with Engine(moody) as one, Engine(moody) as two:
        snapshot = make_limited(one.url, "", **limits)
        chat = replace(make_seats(one.url, two.url, seats=12, tokens=4000), price=Price(2.0, 6.0))
        gateway = await start_gateway(replace(snapshot, deployments={"chat": chat}), valkey_server)
        for _ in range(10):
            await asyncio.gather(*(abort_somewhere(gateway, chance) for _ in range(100)))
            gateway.process.gates.check_invariants()
        await gateway.until_idle()
        await until(lambda: not gateway.process.gates.by_name["chat"].admission.waiting)
        await until(lambda: not gateway.process.gates.quotas.book.open)
    gate = gateway.process.gates.by_name["chat"]
    assert not gate.admission.seated and not gate.admission.tenants.running
    for place in gate.admission.places.values():
        assert (place.running, place.ledger.reserved_tokens) == (0, 0)
    assert used(gateway, "requests_per_minute") > 200
    assert used(gateway, "concurrent_requests") == 0
    is_at_rest(gateway)


def make_two(url: str) -> RoutingSnapshot:
    keys = {
        secret_hash(KEY): RoutedKey("1", "t1", "greedy"),
        secret_hash(MODEST): RoutedKey("2", "t2", "modest"),
    }
    quotas = (
        Quota("1", "greedy", "greedy", limits={"requests_per_minute": 20, "concurrent_requests": 3}),
        Quota("2", "modest", "modest", limits={"requests_per_minute": 1000}),
    )
    return make_snapshot(make_seats(url, seats=8), keys=keys, quotas=quotas)


async def test_a_greedy_tenant_gets_its_quota_and_the_other_all_it_asks_for(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_two(engine.url), valkey_server)

        async def modest() -> Answer:
            return await gateway.ask({"model": "chat", "messages": []}, headers={"authorization": f"Bearer {MODEST}"})

        greedy = [asyncio.create_task(gateway.chat()) for _ in range(200)]
        own = [await modest() for _ in range(30)]
        answers = await asyncio.gather(*greedy)
        assert {one.status for one in own} == {200}
        served = [one for one in answers if one.status == 200]
        assert 1 <= len(served) <= 21, "20 a minute, and what comes back meanwhile"
        assert {one.status for one in answers} == {200, 429}
        is_at_rest(gateway)
