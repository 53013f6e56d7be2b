"""What engines say of themselves reaches admission as long as anything runs in them."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import redis.asyncio

from controlplane.domain.samples import SamplePart
from controlplane.gateway.engine_samples import EngineSamples
from controlplane.lib import sample_store, valkey
from tests.gateway.conftest import Running, StartGateway, make_snapshot, until
from tests.gateway.engine import Engine
from tests.gateway.test_admission import ask_some, gate_of, is_at_rest, make_held, make_seats

pytestmark = pytest.mark.services


async def say(client: redis.asyncio.Redis, at: float, source: str = "collector:n1", **values: float) -> None:
    await sample_store.write(client, [SamplePart("replica:r0", source, at, values)], at)


async def start(start_gateway: StartGateway, url: str, server: str) -> Running:
    made = make_seats(url, seats=40, tokens=10_000)
    made = replace(made, replicas=tuple(replace(one, node="n1") for one in made.replicas))
    return await start_gateway(make_snapshot(made), server)


async def test_a_full_cache_is_seen_with_one_request_of_forty(start_gateway: StartGateway, valkey_server: str) -> None:
    free, hold = make_held()
    client = valkey.connect_async(valkey_server)
    async with Engine(hold) as engine:
        gateway = await start(start_gateway, engine.url, valkey_server)
        tasks = await ask_some(gateway, 1, max_tokens=10)
        await until(lambda: engine.requests)
        await say(client, time.time(), kv_usage=0.99, preemptions=2.0)
        await until(lambda: gate_of(gateway).caches.of("r0").unseen_tokens == 5000)
        assert gate_of(gateway).seats["r0"].now < 16 + 1 and gate_of(gateway).seat_changes, "the watermark is reached"
        text = (await gateway.get("/metrics")).body.decode()
        assert 'headworks_gateway_kv_tokens_unseen{deployment="chat",model="chat",replica="r0"} 5000' in text
        assert 'headworks_gateway_engine_preemptions_total{deployment="chat",model="chat",replica="r0"} 2' in text
        await until(lambda: gateway.process.state_report._past)
        free.set()
        assert (await tasks[0]).status == 200
        await gateway.until_idle()
        await until(lambda: gate_of(gateway).caches.of("r0").unseen_tokens == 0)
    await client.aclose()
    is_at_rest(gateway)


async def test_a_rate_is_counted_once_for_the_time_it_stands_for(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    free, hold = make_held()
    client = valkey.connect_async(valkey_server)
    async with Engine(hold) as engine:
        gateway = await start(start_gateway, engine.url, valkey_server)
        samples, now = EngineSamples(gateway.process.gates), time.time()
        await say(client, now, kv_usage=0.5, preemptions=4.0)
        await samples.read(client)
        assert samples.newest() == {}, "nothing runs"
        tasks = await ask_some(gateway, 1)
        await until(lambda: engine.requests)
        for at, source in ((now, "collector:n1"), (now + 0.5, "collector:n1"), (now + 0.6, "gateway:g1")):
            await say(client, at, source, kv_usage=0.5, preemptions=4.0)
            for _ in range(3):
                await samples.read(client)
        assert samples.newest()["r0"].preempted == pytest.approx(4.0 + 0.5 * 4.0)
        assert samples.newest()["r0"].kv_usage == 0.5
        await say(client, now - 6, kv_usage=0.5)
        await samples.read(client)
        assert samples.newest() == {}, "what is old counts for nothing"
        await say(client, time.time(), kv_usage=0.5)
        await samples.read(client)
        assert samples.newest()["r0"].preempted is None, "what is not told is not 0"
        free.set()
        await tasks[0]
        await gateway.until_idle()
        await samples.read(client)
        assert samples.newest() == {}, "of what has ended it says nothing"
    await client.aclose()
