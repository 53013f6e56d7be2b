from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from controlplane.domain.rollups import Rollup
from controlplane.domain.samples import SAMPLE_FIELDS, SamplePart
from controlplane.lib import keys, sample_store, valkey

pytestmark = pytest.mark.services

SUBJECT = "deployment:chat"


def make_part(source: str, at: float, **values: float | None) -> SamplePart:
    return SamplePart(SUBJECT, source, at, values)


@pytest.fixture
async def store(valkey_server: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = valkey.connect_async(valkey_server)
    yield client
    await client.aclose()


async def test_parts_of_two_producers_become_one_sample(store: redis.asyncio.Redis, valkey_server: str) -> None:
    now = time.time()
    await sample_store.write(store, [make_part("collector:n1", now, running=2, kv_usage=0.5)], now)
    await sample_store.write(
        store, [SamplePart(SUBJECT, "gateway:g1", now, {"requests_per_s": 3}, {"ttft": {100: 4}})], now
    )
    sample = sample_store.newest(valkey.connect(valkey_server), [SUBJECT, "node:silent"], now)
    assert set(sample) == {SUBJECT}
    assert set(sample[SUBJECT]) == {"t", *SAMPLE_FIELDS}
    assert (sample[SUBJECT]["running"], sample[SUBJECT]["requests_per_s"]) == (2, 3)
    assert sample[SUBJECT]["ttft_p95"] == pytest.approx(0.0642, rel=0.01)
    assert sample[SUBJECT]["waiting"] is None and sample[SUBJECT]["t"] == int(now)


async def test_a_stale_part_counts_for_nothing(store: redis.asyncio.Redis) -> None:
    now = time.time()
    await sample_store.write(store, [make_part("collector:n1", now - 6, running=2)], now)
    assert await sample_store.newest_async(store, [SUBJECT], now) == {}
    await sample_store.write(store, [make_part("collector:n2", now, waiting=1)], now)
    found = await sample_store.newest_async(store, [SUBJECT], now)
    assert (found[SUBJECT]["running"], found[SUBJECT]["waiting"]) == (None, 1)


async def test_history_has_every_second_and_shows_gaps_as_none(store: redis.asyncio.Redis, valkey_server: str) -> None:
    now = float(int(time.time()))
    for at in (now - 30, now - 29, now - 10, now):
        await sample_store.write(store, [make_part("collector:n1", at, running=at - now + 30)], at)
    samples = sample_store.history(valkey.connect(valkey_server), SUBJECT, now - 60, now)
    assert [s["t"] for s in samples] == list(range(int(now) - 30, int(now) + 1))
    by_time = {s["t"]: s["running"] for s in samples}
    assert by_time[int(now) - 28] == 1  # a part stays good for some seconds
    assert by_time[int(now) - 20] is None
    assert by_time[int(now)] == 30


async def test_a_subject_that_nobody_writes_expires(store: redis.asyncio.Redis) -> None:
    now = time.time()
    await sample_store.write(store, [make_part("collector:n1", now, running=1)], now)
    await sample_store.write_rollups(store, [Rollup(SUBJECT, "collector:n1", int(now) // 10 * 10)])
    for key, longest_s in (
        (keys.newest(SUBJECT), 60),
        (keys.ring(SUBJECT), 1200),
        (keys.rollup_10s(SUBJECT), 90_000),
    ):
        assert 0 < await store.ttl(key) <= longest_s


async def test_a_rollup_of_a_slot_is_found_by_its_start_even_when_written_late(
    store: redis.asyncio.Redis, valkey_server: str
) -> None:
    start = int(time.time()) // 10 * 10 - 600
    await sample_store.write_rollups(
        store, [Rollup(SUBJECT, "gateway:g1", start, {"requests": 2}, {"running": (1, 3)})]
    )
    found = sample_store.rollups(valkey.connect(valkey_server), SUBJECT, start, start + 10)
    assert [(r.counters, r.gauges) for r in found] == [({"requests": 2}, {"running": (1, 3)})]
    assert sample_store.rollups(valkey.connect(valkey_server), SUBJECT, start - 60, start) == []


async def test_sources_that_are_gone_leave_the_hash(store: redis.asyncio.Redis) -> None:
    now = time.time()
    await sample_store.write(store, [make_part("gateway:old", now - 120, running=1)], now)
    await sample_store.write(store, [make_part("gateway:new", now, running=1)], now)
    assert await sample_store.drop_stale_sources(store, now) == 1
    assert await store.hkeys(keys.newest(SUBJECT)) == [b"gateway:new"]


async def test_foreign_values_do_not_hide_the_good_ones(store: redis.asyncio.Redis) -> None:
    now = time.time()
    await sample_store.write(store, [make_part("collector:n1", now, running=1)], now)
    await store.hset(keys.newest(SUBJECT), "other", b"not a part")
    await store.xadd(keys.ring(SUBJECT), {"sample": b"neither"})
    assert (await sample_store.newest_async(store, [SUBJECT], now))[SUBJECT]["running"] == 1


async def test_a_sum_is_over_those_that_somebody_writes_now(store: redis.asyncio.Redis, valkey_server: str) -> None:
    now = time.time()
    parts = [
        SamplePart("deployment:a", "collector:n1", now, {"running": 2.0}),
        SamplePart("deployment:b", "collector:n1", now, {"running": 3.0, "waiting": 1.0}),
        SamplePart("deployment:old", "collector:n1", now - 30, {"running": 9.0}),
        SamplePart("node:a", "collector:n1", now, {"running": 9.0}),
    ]
    await sample_store.write(store, parts, now)
    client = valkey.connect(valkey_server)
    found = sample_store.sums(client, "deployment", ("running", "waiting", "tokens_per_s"), now)
    assert found == {"running": 5.0, "waiting": 1.0, "tokens_per_s": None}
    assert sample_store.sums(client, "replica", ("running",), now) == {"running": None}
