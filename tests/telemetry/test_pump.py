from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from channels.layers import get_channel_layer

from controlplane.lib import keys, valkey
from controlplane.telemetry import pump
from controlplane.telemetry.pump import Pump

pytestmark = pytest.mark.services

# A console that tests in a browser started ticks on the same Valkey until the session ends: these tick for themselves.
LEASE, TICKS = "tick-of-this-test", "ticks-of-this-test"


@pytest.fixture
async def channel(valkey_server: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setattr(pump, "LEASE", LEASE)
    monkeypatch.setattr(pump, "TICKS", TICKS)
    layer = get_channel_layer()
    name = await layer.new_channel()
    await layer.group_add(TICKS, name)
    yield name
    await layer.group_discard(TICKS, name)
    await layer.flush()


async def ticks(channel: str, count: int) -> list[int]:
    layer = get_channel_layer()
    async with asyncio.timeout(20):
        return [(await layer.receive(channel))["t"] for _ in range(count)]


async def test_of_two_processes_one_ticks_and_the_other_takes_over(channel: str, valkey_server: str) -> None:
    first, second = Pump(), Pump()
    first.start()
    await ticks(channel, 1)
    second.start()
    seconds = await ticks(channel, 3)
    assert seconds == sorted(set(seconds))  # not twice a second
    client = valkey.connect(valkey_server)
    holder = client.get(keys.telemetry_lease(LEASE))
    if holder == second._id.encode():  # a machine that stood still for the length of the lease
        first, second = second, first
    await first.stop()
    async with asyncio.timeout(20):
        while client.get(keys.telemetry_lease(LEASE)) in (None, holder):
            await ticks(channel, 1)
    await second.stop()
    assert client.get(keys.telemetry_lease(LEASE)) is None
    client.close()


async def test_a_lease_that_is_not_given_back_runs_out(
    channel: str, valkey_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pump, "LEASE_MS", 500)
    client = valkey.connect(valkey_server)
    client.set(keys.telemetry_lease(LEASE), "somebody that was killed", px=1500)
    client.close()
    one = Pump()
    one.start()
    await ticks(channel, 1)
    await one.stop()
