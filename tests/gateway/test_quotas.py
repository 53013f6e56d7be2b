"""Quotas on the way of real requests: who is let through, what is counted in the end, and what a client is told."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from controlplane.domain.quotas.quota import Price, Quota
from controlplane.domain.routing import RoutedKey, RoutingSnapshot
from controlplane.lib import wire
from controlplane.lib.ids import secret_hash
from tests.gateway.conftest import (
    KEY,
    Running,
    StartGateway,
    make_deployment,
    make_request,
    make_snapshot,
    until,
)
from tests.gateway.engine import USAGE, Engine, Peer, Request, answer, chunk, event, head

pytestmark = pytest.mark.services
OTHER = "hw-other-key"


def make_limited(url: str, key_id: str = "", **limits: int) -> RoutingSnapshot:
    keys = {
        secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme"),
        secret_hash(OTHER): RoutedKey("key-2", "tenant-1", "acme"),
    }
    quota = Quota("1", "small", "acme", key_id, limits=limits)
    return make_snapshot(make_deployment(url), keys=keys, quotas=(quota,))


def used(gateway: Running, measure: str) -> int:
    return gateway.process.gates.quotas.book.meters[f"1:{measure}"].spent_total


def is_at_rest(gateway: Running) -> None:
    gateway.process.gates.check_invariants()
    book = gateway.process.gates.quotas.book
    assert not book.open
    assert all(meter.reserved == 0 for meter in book.meters.values())


async def test_a_tenant_gets_no_more_requests_a_minute_than_its_quota(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_limited(engine.url, requests_per_minute=5), valkey_server)
        answers = [await gateway.chat() for _ in range(8)]
        assert [one.status for one in answers] == [200] * 5 + [429] * 3
        refused = answers[-1]
        assert refused.code == "quota_exceeded"
        assert refused.json["error"]["type"] == "rate_limit_exceeded"
        assert re.search(r"quota small allows 5 requests a minute; .* at \d{4}-", refused.json["error"]["message"])
        assert 1 <= int(refused.headers["retry-after"]) <= 12
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        assert len(engine.requests) == 5
        is_at_rest(gateway)


async def test_the_headers_tell_what_is_left(start_gateway: StartGateway, valkey_server: str) -> None:
    async with Engine() as engine:
        limits = {"requests_per_minute": 60, "tokens_per_minute": 60_000}
        gateway = await start_gateway(make_limited(engine.url, "", **limits), valkey_server)
        one = await gateway.chat(max_tokens=10)
        assert one.headers["x-ratelimit-limit-requests"] == "60"
        assert one.headers["x-ratelimit-remaining-requests"] == "59"
        assert one.headers["x-ratelimit-reset-requests"] == "1s"
        assert one.headers["x-ratelimit-limit-tokens"] == "60000"
        assert int(one.headers["x-ratelimit-remaining-tokens"]) < 60_000


async def test_the_estimate_is_held_and_the_engines_count_is_what_is_used(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    free = asyncio.Event()

    async def hold(request: Request, peer: Peer) -> None:
        await free.wait()
        await answer(request, peer)

    async with Engine(hold) as engine:
        gateway = await start_gateway(make_limited(engine.url, tokens_per_day=1000), valkey_server)
        first = asyncio.create_task(gateway.chat(max_tokens=700))
        await until(lambda: engine.requests)
        assert gateway.process.gates.quotas.book.meters["1:tokens_per_day"].reserved >= 700
        second = await gateway.chat(max_tokens=700)
        assert (second.status, second.code) == (429, "quota_exceeded")
        assert second.json["error"]["type"] == "insufficient_quota"
        free.set()
        assert (await first).status == 200
        assert (await gateway.chat(max_tokens=700)).status == 200
        assert used(gateway, "tokens_per_day") == 2 * USAGE["total_tokens"]
        is_at_rest(gateway)


async def test_who_asks_is_told_by_the_key_and_never_by_the_body(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_limited(engine.url, key_id="key-1", requests_per_minute=1), valkey_server)
        assert (await gateway.chat(user="key-2", tenant="other")).status == 200
        assert (await gateway.chat(user="key-2", tenant="other")).status == 429
        other = {"authorization": f"Bearer {OTHER}"}
        free = await gateway.ask({"model": "chat", "messages": [], "user": "key-1"}, headers=other)
        assert free.status == 200
        assert not [name for name in free.headers if name.startswith("x-ratelimit")]


async def test_so_many_requests_at_once_and_each_place_is_free_again(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    free = asyncio.Event()

    async def hold(request: Request, peer: Peer) -> None:
        await free.wait()
        await answer(request, peer)

    async with Engine(hold) as engine:
        gateway = await start_gateway(make_limited(engine.url, concurrent_requests=3), valkey_server)
        running = [asyncio.create_task(gateway.chat()) for _ in range(3)]
        await until(lambda: len(engine.requests) == 3)
        late = await gateway.chat()
        assert (late.status, late.code) == (429, "quota_exceeded")
        assert "3 requests at once" in late.json["error"]["message"]
        free.set()
        assert [(await one).status for one in running] == [200] * 3
        assert (await gateway.chat()).status == 200
        is_at_rest(gateway)


async def fails(request: Request, peer: Peer) -> None:
    await peer.send(head(length=2, status="500 Internal Server Error") + b"{}")


async def refuses(request: Request, peer: Peer) -> None:
    await peer.send(head(length=2, status="400 Bad Request") + b"{}")


async def breaks(request: Request, peer: Peer) -> None:
    peer.cut()


@pytest.mark.parametrize("script", [fails, refuses, breaks])
async def test_what_failed_counts_for_nothing(
    start_gateway: StartGateway, valkey_server: str, script: Callable
) -> None:
    async with Engine(script) as engine:
        limits = {"requests_per_minute": 100, "tokens_per_day": 100_000, "concurrent_requests": 2}
        gateway = await start_gateway(make_limited(engine.url, "", **limits), valkey_server)
        assert (await gateway.chat()).status >= 400
        await gateway.until_idle()
        assert [used(gateway, name) for name in limits] == [0, 0, 0]
        is_at_rest(gateway)


async def test_a_client_that_leaves_pays_for_what_came(start_gateway: StartGateway, valkey_server: str) -> None:
    async def flow(request: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"))
        for _ in range(20):
            await peer.send(chunk(event()))
        await peer.wait_until_closed()

    async with Engine(flow) as engine:
        gateway = await start_gateway(make_limited(engine.url, tokens_per_day=100_000), valkey_server)
        reader, writer = await gateway.open()
        writer.write(make_request({"model": "chat", "messages": [], "stream": True, "max_tokens": 500}))
        await reader.readuntil(b"tok")
        await until(
            lambda: [one for one in gateway.process.meter.live if (seen := one.relay.events) and seen.events == 20]
        )
        writer.close()
        await gateway.until_idle()
        assert 20 < used(gateway, "tokens_per_day") < 60, "20 tokens and the prompt"
        is_at_rest(gateway)


async def test_without_a_number_of_its_own_a_request_is_not_refused_for_what_others_need(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_limited(engine.url, tokens_per_day=100), valkey_server)
        assert (await gateway.chat()).status == 200
        assert (await gateway.chat(max_tokens=101)).status == 429


async def test_quotas_of_a_new_snapshot_count_on(start_gateway: StartGateway, valkey_server: str) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_limited(engine.url, requests_per_minute=2), valkey_server)
        assert [(await gateway.chat()).status for _ in range(3)] == [200, 200, 429]
        snapshots = gateway.process.snapshots
        more = replace(make_limited(engine.url, requests_per_minute=4), version=2)
        snapshots._take(wire.encode(more), "valkey")
        assert [(await gateway.chat()).status for _ in range(3)] == [200, 200, 429]
        none = replace(make_limited(engine.url), version=3)
        snapshots._take(wire.encode(none), "valkey")
        assert [(await gateway.chat()).status for _ in range(3)] == [200] * 3


async def test_money_is_counted_by_the_price_of_the_deployment(start_gateway: StartGateway, valkey_server: str) -> None:
    async with Engine() as engine:
        snapshot = make_limited(engine.url, money_per_day=1000)
        chat = replace(snapshot.deployments["chat"], price=Price(10.0, 100.0))
        gateway = await start_gateway(replace(snapshot, deployments={"chat": chat}), valkey_server)
        assert (await gateway.chat()).status == 200, "a guess may not be more than there is"
        assert used(gateway, "money_per_day") == 10 * USAGE["prompt_tokens"] + 100 * USAGE["completion_tokens"]
        assert (await gateway.chat(max_tokens=5)).status == 200
        dear = await gateway.chat(max_tokens=9)
        assert (dear.status, dear.json["error"]["type"]) == (429, "insufficient_quota")
        is_at_rest(gateway)


async def test_errors_say_what_is_left_of_quotas_as_answers_do(start_gateway: StartGateway, valkey_server: str) -> None:
    gateway = await start_gateway(make_limited("http://127.0.0.1:1", requests_per_minute=5), valkey_server)
    nowhere = await gateway.chat()
    assert nowhere.status == 503
    assert nowhere.headers["x-ratelimit-limit-requests"] == "5"
    async with Engine() as engine:
        gateway = await start_gateway(make_limited(engine.url, requests_per_minute=1), valkey_server)
        answers = [await gateway.chat() for _ in range(2)]
        assert (answers[1].status, answers[1].headers["x-ratelimit-limit-requests"]) == (429, "1")


@pytest.mark.parametrize("what", ["nothing", "no HTTP", "its end"])
async def test_what_a_replica_fails_at_says_what_is_left_of_quotas_too(
    start_gateway: StartGateway, valkey_server: str, what: str
) -> None:
    async def fail(_request: Request, peer: Peer) -> None:
        if what == "no HTTP":
            await peer.send(b"hello\r\n\r\n")
        elif what == "its end":
            died = b'{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError"}}'
            await peer.send(head(length=len(died), status="500 Internal Server Error") + died)
        peer.cut()

    async with Engine(fail) as engine:
        gateway = await start_gateway(make_limited(engine.url, requests_per_minute=5), valkey_server)
        failed = await gateway.chat()
        assert failed.status == 502
        assert failed.headers["x-ratelimit-limit-requests"] == "5"
        assert failed.headers["x-headworks-replica"] == "r0"
        assert used(gateway, "requests_per_minute") == 0, "it is given back"
        is_at_rest(gateway)
