from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis
import redis.asyncio

from controlplane.domain.quotas import slices
from controlplane.domain.quotas.answers import Granted, QuotaRefusal
from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.pool import Pool
from controlplane.domain.quotas.slices import Ask, Reply
from controlplane.domain.quotas.windows import window_of
from controlplane.embedded import valkey as embedded
from controlplane.lib import keys, quota_leases, valkey
from controlplane.lib.quota_leases import Leases
from tests.domain.quotas.making import SHOP, make_quota

pytestmark = pytest.mark.services
NOBODY = "redis://127.0.0.1:1/0"


@pytest.fixture
async def client(valkey_server: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = valkey.connect_async(valkey_server)
    yield client
    await client.aclose()


def make_leases(client: redis.asyncio.Redis, gateway: str, **limits: int) -> Leases:
    return Leases(client, SliceBook([make_quota("q", "shop", "", "", **limits)]), gateway)


def make_ask(kind: str = "day", **fields: object) -> Ask:
    given = {
        "meter": "m", "kind": kind, "limit": 1000, "spent_total": 0, "spent_acked": 0, "held": 0, "spare": 0,
        "wanted": 0, "needed": 0, "window": -1, **fields,
    }  # fmt: skip
    return Ask(**given)  # type: ignore[arg-type]


async def granted(leases: Leases, count: int, tokens: int = 1, start: int = 0) -> int:
    found = 0
    for number in range(start, start + count):
        found += isinstance(await leases.reserve(str(number), SHOP, tokens, 0), Granted)
    return found


async def say(client: redis.asyncio.Redis, gateway: str, asks: list[Ask]) -> tuple[float, list[Reply]]:
    said = quota_leases.arguments(gateway, asks)
    found = await client.eval(quota_leases.SCRIPT, 1, keys.quota_gateways(), *said)
    return quota_leases.answers(asks, found)


async def test_the_script_follows_the_rules_of_the_pool(client: redis.asyncio.Redis) -> None:
    """Random words of three gateways, said to both. Limits a minute are left out: their time is not ours to set."""
    chance, pool = random.Random(7), Pool()
    windows = {"held": 0}
    for _ in range(400):
        asks = [
            make_ask(
                kind, meter=f"{kind}{chance.randrange(2)}", limit=chance.randrange(200),
                spent_total=chance.randrange(100), spent_acked=chance.randrange(10), held=(held := chance.randrange(9)),
                spare=chance.randrange(held + 1), wanted=chance.randrange(50), needed=chance.randrange(30),
                window=chance.choice([-1, windows.get(kind, -1), 5]),
            )
            for kind in chance.choices(["held", "day", "month"], k=chance.randrange(1, 4))
        ]  # fmt: skip
        gateway = chance.choice("abc")
        at, replies = await say(client, gateway, asks)
        expected = pool.sync(gateway, asks, at)
        assert replies == expected
        windows.update({ask.kind: reply.window for ask, reply in zip(asks, replies, strict=True)})


async def test_calendar_windows_are_those_of_the_book(client: redis.asyncio.Redis) -> None:
    at, (day, month, held) = await say(client, "a", [make_ask("day"), make_ask("month"), make_ask("held")])
    assert (day.window, day.ends_at) == window_of("day", at)
    assert (month.window, month.ends_at) == window_of("month", at)
    assert (held.window, held.ends_at) == window_of("held", at)


async def test_one_round_trip_fetches_slices_of_several_limits(client: redis.asyncio.Redis) -> None:
    limits = {
        "requests_per_minute": 6000,
        "tokens_per_minute": 10**6,
        "tokens_per_day": 10**8,
        "money_per_month": 10**9,
    }
    leases = make_leases(client, "a", **limits)
    assert await granted(leases, 100, tokens=10) == 100
    assert leases.round_trips <= 3


async def test_several_gateways_together_keep_the_limit(client: redis.asyncio.Redis) -> None:
    several = [make_leases(client, name, tokens_per_day=500) for name in "abc"]
    found = await asyncio.gather(*(granted(one, 100, tokens=5) for one in several))
    assert sum(found) <= 100
    assert sum(found) >= 90  # what is missing is held by one while another was refused
    for one in several:
        one.book.check_invariants()


async def test_requests_that_wait_together_share_one_exchange(client: redis.asyncio.Redis) -> None:
    leases = make_leases(client, "a", concurrent_requests=500)
    found = await asyncio.gather(*(leases.reserve(str(n), SHOP, 1, 0) for n in range(300)))
    assert all(isinstance(one, Granted) for one in found)
    assert leases.round_trips <= 5


async def test_at_rest_valkey_knows_exactly_what_was_used(client: redis.asyncio.Redis) -> None:
    chance = random.Random(3)
    limits = {"tokens_per_day": 4000, "concurrent_requests": 12}
    several = [make_leases(client, name, **limits) for name in "abc"]
    beats = [asyncio.create_task(one.run()) for one in several]
    used = 0

    async def request(leases: Leases, number: int) -> None:
        nonlocal used
        tokens = chance.randrange(1, 30)
        if not isinstance(await leases.reserve(str(number), SHOP, tokens, 0), Granted):
            return
        try:
            await asyncio.sleep(chance.random() / 50)
        finally:  # whoever leaves in the middle pays for half
            actual = tokens // chance.randrange(1, 3)
            if chance.random() < 0.3:
                leases.book.refund(str(number))
            else:
                leases.book.settle(str(number), actual, 0)
                used += actual

    for burst in range(30):
        tasks = [asyncio.create_task(request(chance.choice(several), burst * 40 + n)) for n in range(40)]
        await asyncio.sleep(0.02)
        for task in chance.sample(tasks, 10):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for beat in beats:
        beat.cancel()
    for one in several:
        assert not one.book.open
        one.book.check_invariants()
        assert {meter.reserved for meter in one.book.meters.values()} == {0}
        await one.leave()
    assert 0 < used <= 4000
    day = window_of("day", several[0].now())[0]
    assert float(await client.hget(keys.quota(f"shop/q:tokens_per_day:{day}"), "out") or 0) == used
    assert float(await client.hget(keys.quota("shop/q:concurrent_requests:0"), "out") or 0) == 0


async def test_what_a_killed_gateway_held_is_back_within_five_seconds(client: redis.asyncio.Redis) -> None:
    killed, other = (make_leases(client, name, concurrent_requests=4) for name in "ab")
    assert await granted(killed, 4) == 4
    assert await granted(other, 1) == 0
    loop = asyncio.get_running_loop()
    until = loop.time() + 5.0
    while not await granted(other, 1):
        assert loop.time() < until
        await asyncio.sleep(0.1)
    await other.sync()
    assert await granted(other, 3, start=10) == 3


async def test_a_heartbeat_keeps_what_is_held(client: redis.asyncio.Redis) -> None:
    living, other = (make_leases(client, name, concurrent_requests=2) for name in "ab")
    assert await granted(living, 2) == 2
    beat = asyncio.create_task(living.run())
    await asyncio.sleep(slices.LEASE_S + 0.5)
    assert await granted(other, 1) == 0
    beat.cancel()


async def test_a_gateway_that_ends_leaves_nothing_behind(client: redis.asyncio.Redis) -> None:
    leases = make_leases(client, "a", tokens_per_day=1000)
    await leases.reserve("1", SHOP, 100, 0)
    leases.book.settle("1", 30, 0)
    await leases.leave()
    key = keys.quota(f"shop/q:tokens_per_day:{window_of('day', leases.now())[0]}")
    assert float(await client.hget(key, "out") or 0) == 30
    assert await client.zcard(keys.quota_gateways()) == 0


async def test_without_valkey_it_goes_on_with_what_it_holds(client: redis.asyncio.Redis) -> None:
    leases = make_leases(client, "a", tokens_per_day=1000)
    await leases.reserve("1", SHOP, 10, 0)
    leases._client = valkey.connect_async(NOBODY)
    assert 1 <= await granted(leases, 200, tokens=1, start=2) < 200
    assert [leases.book.cut_off_at] != [None]
    found = await leases.reserve("x", SHOP, 1, 0)
    assert isinstance(found, QuotaRefusal)
    assert "can't reach Valkey" in found.why
    leases._client = client
    await leases.sync()
    assert [leases.book.cut_off_at] == [None]
    assert isinstance(await leases.reserve("x", SHOP, 1, 0), Granted)


async def test_a_valkey_that_is_killed_and_loses_everything_is_told_again() -> None:
    folder = Path(tempfile.mkdtemp(prefix="hwq-"))  # a socket's path must be short
    server = start_server(folder)
    client = valkey.connect_async(embedded.url(folder / "v.sock"))
    leases = make_leases(client, "a", tokens_per_day=1000, concurrent_requests=10)
    assert await granted(leases, 5, tokens=20) == 5
    await leases.sync()  # as every second: a store for those to come
    server.kill()
    server.wait()
    await leases.sync()
    assert [leases.book.cut_off_at] != [None]
    assert await granted(leases, 1, tokens=1, start=5) == 1
    server = start_server(folder)
    await leases.sync()
    assert [leases.book.cut_off_at] == [None]
    places, tokens = leases.book.meters["shop/q:concurrent_requests"], leases.book.meters["shop/q:tokens_per_day"]
    assert float(await client.hget(keys.quota(f"{places.id}:0"), "h:a") or 0) == places.stock + places.reserved
    held = await client.hget(keys.quota(f"{tokens.id}:{tokens.window}"), "h:a")
    assert float(held or 0) == tokens.stock + tokens.reserved
    await client.aclose()
    server.kill()
    server.wait()
    shutil.rmtree(folder)


def start_server(folder: Path) -> subprocess.Popen[bytes]:
    (folder / "v.sock").unlink(missing_ok=True)
    command = embedded.server_command(folder, folder / "v.sock", durable=False)
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (folder / "v.sock").exists():
        assert server.poll() is None
        time.sleep(0.02)
    return server


async def test_a_gateway_whose_clock_steps_follows_valkeys_time(client: redis.asyncio.Redis) -> None:
    readings = [1000.0]
    leases = Leases(client, SliceBook([make_quota(requests_per_minute=60)]), "a", clock=lambda: readings[0])
    assert await granted(leases, 60) == 60
    readings[0] += 86_400.0
    await leases.sync()
    seconds, _ = await client.time()
    assert abs(leases.now() - seconds) < 2
    assert await granted(leases, 60, start=100) <= 2


async def test_a_step_of_valkeys_clock_costs_no_limit(client: redis.asyncio.Redis) -> None:
    """What the script would find after a step back: marks of times to come."""
    leases = make_leases(client, "a", requests_per_minute=60)
    assert await granted(leases, 60) == 60
    key = keys.quota("shop/q:requests_per_minute:0")
    seconds, _ = await client.time()
    await client.hset(key, mapping={"at": (seconds + 3600) * 1000, "short": (seconds + 3600) * 1000})
    await client.zadd(keys.quota_gateways(), {"ahead": (seconds + 3600) * 1000})
    leases.book.meters["shop/q:requests_per_minute"].retry_at = 0.0
    assert await granted(leases, 1, start=100) == 0
    assert await client.zrange(keys.quota_gateways(), 0, -1) == [b"a"]
    assert int(await client.hget(key, "short") or 0) < (seconds + 60) * 1000
