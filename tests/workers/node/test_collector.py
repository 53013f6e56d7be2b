from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis.asyncio

from benchmarks.collector import make_record
from controlplane.domain.desired import AssignedAccelerator, EngineSpec, ReplicaDesired
from controlplane.domain.observed import AcceleratorObserved
from controlplane.lib import keys, sample_store, valkey, wire
from workers.node import inventory, records
from workers.node.collector import Collector
from workers.node.collector_outbox import KEPT_SECONDS, Outbox, Second
from workers.node.collector_parts import NodeSeen, parts_of

pytestmark = pytest.mark.services

KEY = "hwr-secret-of-the-replica-0001"


class FakeEngine:
    """Answers /metrics with counters that grow by 10 tokens a scrape; `is_stuck` makes it silent."""

    def __init__(self) -> None:
        self.tokens = 0
        self.is_stuck = False
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.tokens += 10
                body = (
                    f"vllm:num_requests_running 2\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 0.5\n"
                    f"vllm:generation_tokens_total {self.tokens}\n"
                ).encode()
                if not self.is_stuck:
                    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def engines(count: int) -> AsyncIterator[list[FakeEngine]]:
    made = [FakeEngine() for _ in range(count)]
    servers = [await asyncio.start_server(one.serve, "127.0.0.1", 0) for one in made]
    for one, server in zip(made, servers, strict=True):
        one.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        for server in servers:
            server.close()


def keep_record(
    folder: Path, replica_id: str, port: int, log: Path | None = None, cards: tuple[AssignedAccelerator, ...] = ()
) -> None:
    desired = ReplicaDesired(replica_id, "d", "chat", 1, "h", "run", EngineSpec("vllm", "/m", "m"), cards, KEY)
    record = make_record(desired, port)
    records.write_record(folder, replace(record, log_path=str(log)) if log else record)


@pytest.fixture
async def store(valkey_server: str) -> AsyncIterator[redis.asyncio.Redis]:
    client = valkey.connect_async(valkey_server)
    yield client
    await client.aclose()


async def until(ready: Callable[[], Awaitable[object]], what: str) -> object:
    deadline = time.monotonic() + 20
    while True:
        found = await ready()
        if found:
            return found
        assert time.monotonic() < deadline, f"never: {what}"
        await asyncio.sleep(0.1)


@asynccontextmanager
async def collecting(folder: Path) -> AsyncIterator[Collector]:
    stop = asyncio.Event()
    collector = Collector((folder,))
    running = asyncio.create_task(collector.run(stop))
    try:
        yield collector
    finally:
        stop.set()
        await asyncio.wait_for(running, 10)


async def test_a_nodes_engines_become_samples(store: redis.asyncio.Redis, tmp_path: Path) -> None:
    folder = tmp_path / "n1"
    async with engines(2) as [first, second]:
        keep_record(folder, "r1", first.port)
        keep_record(folder, "r2", second.port)
        async with collecting(folder):

            async def chat() -> object:
                found = await sample_store.newest_async(store, ["deployment:chat", "node:n1", "replica:r1"])
                rate = found.get("deployment:chat", {}).get("tokens_per_s")
                return found if rate else None

            found = await until(chat, "tokens of the deployment")
    assert isinstance(found, dict)
    assert (found["deployment:chat"]["running"], found["deployment:chat"]["kv_usage"]) == (4, 0.5)
    assert found["replica:r1"]["waiting"] == 1
    assert found["node:n1"]["running"] == 4
    assert found["node:n1"]["gpu_memory_total_bytes"] > 0
    assert found["deployment:chat"]["requests_per_s"] is None


async def test_an_error_that_nobody_expected_makes_no_collector_mute(
    store: redis.asyncio.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object) -> bool:
        raise AttributeError("'NoneType' object has no attribute 'writelines'")

    with monkeypatch.context() as broken:
        broken.setattr(Outbox, "send", fails)
        async with collecting(tmp_path / "n1"):

            async def failed() -> bool:
                return "writing samples has failed" in caplog.text

            await until(failed, "the error")
            broken.undo()

            async def sampled() -> object:
                return (await sample_store.newest_async(store, ["node:n1"])).get("node:n1")

            await until(sampled, "a sample")


async def test_a_stuck_engine_delays_nobody_and_is_said(store: redis.asyncio.Redis, tmp_path: Path) -> None:
    folder = tmp_path / "n1"
    async with engines(2) as [good, stuck]:
        stuck.is_stuck = True
        keep_record(folder, "good", good.port)
        keep_record(folder, "stuck", stuck.port)
        async with collecting(folder):

            async def both() -> object:
                found = await sample_store.newest_async(store, ["replica:good", "replica:stuck"])
                return found if found.get("replica:stuck", {}).get("problems") else None

            found = await until(both, "the problem of the stuck engine")
            assert isinstance(found, dict)
            assert found["replica:stuck"]["problems"] == ["no_answer"]
            assert found["replica:stuck"]["running"] is None
            assert found["replica:good"]["running"] == 2
            stuck.is_stuck = False

            async def again() -> object:
                found = await sample_store.newest_async(store, ["replica:stuck"])
                return found["replica:stuck"]["running"]

            await until(again, "values of the engine that answers again")


async def test_log_lines_arrive_without_the_key(store: redis.asyncio.Redis, tmp_path: Path) -> None:
    folder, log = tmp_path / "n1", tmp_path / "engine.log"
    log.write_text(f"started with {KEY}\n")
    async with engines(1) as [one]:
        keep_record(folder, "r1", one.port, log)
        async with collecting(folder):
            await until(lambda: store.xlen(keys.engine_log("r1")), "the first line")
            with log.open("a") as file:
                file.write("second\n")

            async def two() -> object:
                return await store.xlen(keys.engine_log("r1")) == 2

            await until(two, "the second line")
    entries: Any = await store.xrange(keys.engine_log("r1"))
    assert [(fields[b"n"], fields[b"line"].decode()) for _, fields in entries] == [
        (b"1", "started with •••"),
        (b"2", "second"),
    ]


async def test_after_a_restart_of_the_collector_a_log_goes_on(store: redis.asyncio.Redis, tmp_path: Path) -> None:
    folder, log = tmp_path / "n1", tmp_path / "engine.log"
    log.write_text("one\ntwo\n")

    async def numbers() -> list[tuple[int, str]]:
        entries: Any = await store.xrange(keys.engine_log("r1"))
        return [(int(fields[b"n"]), fields[b"line"].decode()) for _, fields in entries]

    async with engines(1) as [one]:
        keep_record(folder, "r1", one.port, log)
        async with collecting(folder):
            await until(numbers, "the first lines")
        log.write_text("one\ntwo\nthree\n")
        async with collecting(folder):

            async def three() -> object:
                return len(await numbers()) >= 3

            await until(three, "the line after the restart")
    assert await numbers() == [(1, "one"), (2, "two"), (3, "three")]


async def test_while_valkey_is_away_a_bounded_number_of_seconds_waits(
    store: redis.asyncio.Redis, tmp_path: Path
) -> None:
    outbox = Outbox()
    now = time.time()
    away = redis.asyncio.Redis.from_url(f"unix://{tmp_path}/nobody.sock")
    for second in range(KEPT_SECONDS + 40):
        at = now - KEPT_SECONDS - 40 + second
        outbox.put(Second(at, parts_of(NodeSeen("n1", at))))
        if second % 20 == 0:
            assert not await outbox.send(away)
    await away.aclose()
    assert len(outbox) == KEPT_SECONDS
    while len(outbox):
        assert await outbox.send(store)
    entries: Any = await store.xrange(keys.ring("node:n1"))
    assert len(entries) == KEPT_SECONDS
    samples = sample_store.merge_ring(entries, now - 900, now)
    assert samples[0]["t"] == int(now) - KEPT_SECONDS


async def test_one_process_serves_every_simulated_node_of_a_folder(store: redis.asyncio.Redis, tmp_path: Path) -> None:
    card = AcceleratorObserved("sim-0", 0, "simulated", "H100", "0", 80, None, None)
    async with engines(2) as made:
        for name, one in zip(("sim-1", "sim-2"), made, strict=True):
            folder = tmp_path / name
            keep_record(folder, f"r-{name}", one.port, cards=(AssignedAccelerator("sim-0", "simulated", "0"),))
            (folder / inventory.SIMULATED_FILE).write_bytes(wire.encode((card,)))
        keep_record(tmp_path / "real", "r-real", 1)
        stop = asyncio.Event()
        running = asyncio.create_task(Collector((), tmp_path).run(stop))

        async def both() -> object:
            found = await sample_store.newest_async(store, ["node:sim-1", "node:sim-2", "deployment:chat", "node:real"])
            busy = [found.get(f"node:sim-{n}", {}).get("gpu_memory_used_bytes") == 72 for n in (1, 2)]
            return found if all(busy) and found["deployment:chat"]["running"] == 4 else None

        found = await until(both, "samples of both nodes")
        stop.set()
        await running
    assert isinstance(found, dict)
    assert "node:real" not in found
    assert found["node:sim-1"]["gpu_utilization"] == 1.0


async def test_sigterm_ends_the_process_and_the_last_slot_is_kept(
    store: redis.asyncio.Redis, valkey_server: str, tmp_path: Path
) -> None:
    environment = {**os.environ, "HEADWORKS_HOME": str(tmp_path), "REDIS_URL": valkey_server}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.node.collector", "--node", "n1", env=environment
    )

    async def sampled() -> object:
        found = await sample_store.newest_async(store, ["node:n1"])
        return found.get("node:n1", {}).get("gpu_memory_total_bytes")

    try:
        await until(sampled, "a sample")
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert not psutil.pid_exists(process.pid)
    assert await store.xlen(keys.rollup_10s("node:n1")) >= 1
