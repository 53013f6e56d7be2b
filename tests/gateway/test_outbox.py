"""Nothing that was used is lost without a word."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
import redis
import redis.asyncio

from controlplane.domain.routing import RoutedKey
from controlplane.gateway import outbox as outbox_module
from controlplane.gateway.gates import Gates
from controlplane.gateway.metering import Meter
from controlplane.gateway.outbox import Outbox
from controlplane.gateway.sampling import Sampler
from controlplane.lib import keys, sample_store, valkey
from tests.gateway.conftest import StartGateway, make_deployment, make_snapshot, until
from tests.gateway.engine import Engine

KEY = RoutedKey("key-1", "tenant-1", "acme")


def make_outbox(folder: Path) -> tuple[Meter, Sampler, Outbox]:
    meter = Meter()
    return meter, Sampler(meter, Gates(meter, 503), "gateway:g"), Outbox(meter, "g", folder)


def use(meter: Meter, outbox: Outbox, *, minute: int = 60, deployment: str = "chat") -> None:
    meter.minute = minute
    meter.refused(KEY, deployment, 503)
    outbox._take_usage()


def read_batches(url: str) -> list[list[dict]]:
    with redis.Redis.from_url(url) as client:
        entries: list = client.xrange(keys.usage())
    return [json.loads(fields[b"usage"]) for _, fields in entries]


@pytest.mark.services
async def test_usage_reaches_the_stream_with_each_seconds_write(tmp_path: Path, valkey_server: str) -> None:
    meter, _, outbox = make_outbox(tmp_path)
    use(meter, outbox)
    use(meter, outbox)
    use(meter, outbox, minute=120)
    async with valkey.connect_async(valkey_server) as client:
        await outbox._write(client, 1000.0)
        use(meter, outbox, minute=120)
        await outbox._write(client, 1001.0)
        await outbox._write(client, 1002.0)  # nothing was used since
    batches = read_batches(valkey_server)
    assert [[(row["minute"], row["requests"]) for row in batch] for batch in batches] == [
        [(60, 2), (120, 1)],
        [(120, 1)],
    ]
    assert len({row["batch_id"] for batch in batches for row in batch}) == 2
    assert set(batches[0][0]) == {
        "minute", "tenant", "key_id", "deployment", "requests", "errors", "prompt_tokens", "completion_tokens",
        "batch_id",
    }  # fmt: skip
    assert outbox.usage_backlog == 0


async def test_while_valkey_is_down_usage_adds_up_and_the_sent_batch_stays_as_it_is(tmp_path: Path) -> None:
    meter, _, outbox = make_outbox(tmp_path)
    async with valkey.connect_async(f"unix://{tmp_path}/nobody.sock") as client:
        for number in range(5):
            use(meter, outbox)
            with pytest.raises(valkey.ERRORS):
                await outbox._write(client, 1000.0 + 10 * number)
    sent = outbox._batches[0]
    assert [row.requests for row in sent] == [1]
    assert [used.requests for used in outbox._pending.values()] == [4]
    assert outbox.usage_backlog == 2


@pytest.mark.services
async def test_what_could_not_be_delivered_is_delivered_by_the_next_process(tmp_path: Path, valkey_server: str) -> None:
    meter, _, outbox = make_outbox(tmp_path)
    use(meter, outbox)
    async with valkey.connect_async(f"unix://{tmp_path}/nobody.sock") as client:
        await outbox.close(client)
    assert stat.S_IMODE((tmp_path / "usage-backlog.json").stat().st_mode) == 0o600
    _, _, following = make_outbox(tmp_path)
    following.load()
    async with valkey.connect_async(valkey_server) as client:
        await following._write(client, 1000.0)
    assert [row["requests"] for batch in read_batches(valkey_server) for row in batch] == [1]
    assert not (tmp_path / "usage-backlog.json").exists()


def test_rows_beyond_the_limit_are_lost_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "USAGE_ROWS_MAX", 2)
    meter, _, outbox = make_outbox(tmp_path)
    for number in range(5):
        use(meter, outbox, deployment=f"d{number}")
    use(meter, outbox, deployment="d0")
    assert (outbox.usage_backlog, outbox.rows_lost) == (2, 3)


def test_a_sample_that_is_overtaken_is_dropped_and_counted(tmp_path: Path) -> None:
    _, sampler, outbox = make_outbox(tmp_path)
    snapshot = make_snapshot(make_deployment("http://x"))
    outbox.add(sampler.turn(100.0, snapshot))
    outbox.add(sampler.turn(101.0, snapshot))
    assert outbox.samples_dropped == 2


@pytest.mark.services
async def test_a_running_gateway_writes_samples_a_sign_of_life_and_usage(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    with redis.Redis.from_url(valkey_server) as client:
        client.zadd(keys.gateways(), {"one that was killed long ago": 1000.0})
        async with Engine() as engine:
            gateway = await start_gateway(make_snapshot(make_deployment(engine.url)), valkey_server)
            await gateway.chat(stream=True)

            def seen() -> bool:
                sample = sample_store.newest(client, ["deployment:chat"]).get("deployment:chat")
                return sample is not None and sample["ttft_p50"] is not None

            await until(seen)
        assert client.zcard(keys.gateways()) == 1
        await until(lambda: read_batches(valkey_server))
    assert read_batches(valkey_server)[0][0]["completion_tokens"] == 3
