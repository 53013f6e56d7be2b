"""Nothing that was used is lost without a word."""

from __future__ import annotations

import asyncio
import json
import stat
from functools import partial
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
from controlplane.lib import keys, sample_store, tasks, valkey
from tests.gateway.conftest import StartGateway, make_deployment, make_request, make_snapshot, read_answer, until
from tests.gateway.engine import Engine
from tests.gateway.test_process import process_of

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
    [sent] = outbox._batches
    assert [row["requests"] for row in json.loads(sent.encoded)] == [1]
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
    keeping = asyncio.create_task(following.keep())
    async with valkey.connect_async(valkey_server) as client:
        await following._write(client, 1000.0)
    assert [row["requests"] for batch in read_batches(valkey_server) for row in batch] == [1]
    await until(lambda: not (tmp_path / "usage-backlog.json").exists())
    await tasks.end(keeping)


def kept(folder: Path) -> dict[str, int]:
    """Requests by batch, as they lie on disk."""
    path = folder / "usage-backlog.json"
    batches = json.loads(path.read_bytes()) if path.exists() else []
    return {rows[0]["batch_id"]: sum(row["requests"] for row in rows) for rows in batches}


def is_kept(folder: Path, requests: int) -> bool:
    return sum(kept(folder).values()) == requests


def sent(url: str) -> dict[str, int]:
    """Requests by batch, as they are counted: a batch once."""
    return {rows[0]["batch_id"]: sum(row["requests"] for row in rows) for rows in read_batches(url)}


def second(sampler: Sampler, outbox: Outbox, meter: Meter, requests: int = 0) -> None:
    for _ in range(requests):
        meter.refused(KEY, "chat", 503)
    outbox.add(sampler.turn(float(meter.minute), None))


@pytest.mark.services
async def test_what_valkey_does_not_take_lies_on_disk_under_the_ids_under_which_it_is_sent(
    tmp_path: Path, valkey_server: str
) -> None:
    meter, sampler, outbox = make_outbox(tmp_path)
    meter.minute = 60
    keeping = asyncio.create_task(outbox.keep())
    async with valkey.connect_async(f"unix://{tmp_path}/nobody.sock") as client:
        running = asyncio.create_task(outbox.run(client))
        for total in (2, 4, 6):
            second(sampler, outbox, meter, requests=2)
            await until(lambda: outbox._is_away)
            second(sampler, outbox, meter)
            await until(partial(is_kept, tmp_path, total))
        await tasks.end(running)
    seen = kept(tmp_path)
    async with valkey.connect_async(valkey_server) as client:
        running = asyncio.create_task(outbox.run(client))
        for _ in range(3):
            second(sampler, outbox, meter)
            await asyncio.sleep(0.05)
        await until(lambda: not (tmp_path / "usage-backlog.json").exists())
        await tasks.end(running, keeping)
    assert sent(valkey_server) == seen


@pytest.mark.services
async def test_a_gateway_that_is_killed_while_valkey_is_away_leaves_its_usage_to_the_next(
    tmp_path: Path, valkey_server: str
) -> None:
    async with Engine() as engine:
        snapshot = make_snapshot(make_deployment(engine.url))
        async with process_of(tmp_path, snapshot) as (process, port):
            for _ in range(5):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(make_request({"model": "chat"}))
                assert (await read_answer(reader)).status == 200
                writer.close()
            await until(lambda: sum(kept(tmp_path / "gateway").values()) == 5)
            process.kill()
            await process.wait()
        async with process_of(tmp_path, snapshot, REDIS_URL=valkey_server):
            await until(lambda: sum(sent(valkey_server).values()) == 5)
            await until(lambda: not kept(tmp_path / "gateway"))


async def test_what_was_left_is_kept_until_it_is_delivered(tmp_path: Path) -> None:
    meter, _, outbox = make_outbox(tmp_path)
    use(meter, outbox)
    async with valkey.connect_async(f"unix://{tmp_path}/nobody.sock") as client:
        await outbox.close(client)
    seen = kept(tmp_path)
    _, _, following = make_outbox(tmp_path)
    following.load()  # and is killed
    assert kept(tmp_path) == seen


def test_what_places_that_are_no_more_have_left_is_taken_over_and_lies_in_one_file(tmp_path: Path) -> None:
    for slot in (1, 2):
        meter = Meter()
        gone = Outbox(meter, "g", tmp_path, slot, 3)
        use(meter, gone)
        gone._backlog.replace(1, gone._owed())
    _, _, outbox = make_outbox(tmp_path)
    outbox.load()
    assert outbox.usage_backlog == 2
    assert sum(kept(tmp_path).values()) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["usage-backlog.json"]


def test_of_two_writings_the_newer_one_stays(tmp_path: Path) -> None:
    meter, _, outbox = make_outbox(tmp_path)
    use(meter, outbox)
    assert outbox._backlog.replace(2, outbox._owed())
    assert outbox._backlog.replace(1, [])  # a thread that was slow
    assert sum(kept(tmp_path).values()) == 1


def test_what_cannot_be_read_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "usage-backlog.json").write_text("[[")
    _, _, outbox = make_outbox(tmp_path)
    outbox.load()
    assert outbox.usage_backlog == 0
    assert (tmp_path / "usage-backlog.json.unreadable").read_text() == "[["


def test_many_rows_are_not_copied_for_the_disk_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "BATCH_ROWS", 10)
    meter, _, outbox = make_outbox(tmp_path)
    for number in range(35):
        use(meter, outbox, deployment=f"d{number}")
    assert (len(outbox._batches), len(outbox._pending), outbox.usage_backlog) == (3, 5, 35)
    assert outbox._owed()[0] is outbox._owed()[0]
    ids = [json.loads(batch.encoded)[0]["batch_id"] for batch in outbox._owed()]
    assert len(set(ids)) == 4


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
