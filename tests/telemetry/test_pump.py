from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from redis.asyncio.client import PubSub

from controlplane.lib import keys, sample_store, valkey
from controlplane.telemetry import pump
from controlplane.telemetry.pump import Pump

pytestmark = pytest.mark.services

# A console that tests in a browser started ticks on the same Valkey until the session ends: these tick for themselves.
LEASE, TICKS = "tick-of-this-test", "ticks-of-this-test"


@pytest.fixture
async def ticking(valkey_server: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PubSub]:
    monkeypatch.setattr(pump, "LEASE", LEASE)
    monkeypatch.setattr(pump, "TICKS", TICKS)
    client = valkey.connect_async(valkey_server)
    async with client.pubsub() as heard:
        await heard.subscribe(keys.announced(TICKS))
        yield heard
    await client.aclose()


async def ticks(heard: PubSub, count: int) -> list[int]:
    seconds: list[int] = []
    async with asyncio.timeout(20):
        while len(seconds) < count:
            message = await heard.get_message(ignore_subscribe_messages=True, timeout=20)
            if message is not None:
                seconds.append(json.loads(message["data"])["t"])
    return seconds


async def test_of_two_processes_one_ticks_and_the_other_takes_over(ticking: PubSub, valkey_server: str) -> None:
    first, second = Pump(), Pump()
    first.start()
    await ticks(ticking, 1)
    second.start()
    seconds = await ticks(ticking, 3)
    assert seconds == sorted(set(seconds))  # not twice a second
    client = valkey.connect(valkey_server)
    holder = client.get(keys.telemetry_lease(LEASE))
    if holder == second._id.encode():  # a machine that stood still for the length of the lease
        first, second = second, first
    await first.stop()
    async with asyncio.timeout(20):
        while client.get(keys.telemetry_lease(LEASE)) in (None, holder):
            await ticks(ticking, 1)
    await second.stop()
    assert client.get(keys.telemetry_lease(LEASE)) is None
    client.close()


async def test_a_lease_that_is_not_given_back_runs_out(
    ticking: PubSub, valkey_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump, "LEASE_MS", 500)
    client = valkey.connect(valkey_server)
    client.set(keys.telemetry_lease(LEASE), "somebody that was killed", px=1500)
    client.close()
    one = Pump()
    one.start()
    await ticks(ticking, 1)
    await one.stop()


async def test_an_error_that_nobody_expected_ends_no_ticking(
    ticking: PubSub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object) -> int:
        raise AttributeError("'NoneType' object has no attribute 'writelines'")

    with monkeypatch.context() as broken:
        broken.setattr(sample_store, "drop_stale_sources", fails)
        one = Pump()
        one.start()
        await ticks(ticking, 2)
    assert "the ticking has failed" in caplog.text
    await one.stop()
