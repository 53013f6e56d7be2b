"""Several processes behind one port: one of them decides about a deployment, whichever a client reaches."""

from __future__ import annotations

import asyncio
import functools
import random
import signal
from pathlib import Path

import openai
import pytest

from tests.gateway.conftest import KEY, make_deployment, make_request, make_snapshot, until
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, answer, chunk, event, head
from tests.gateway.several import Line, Several, figure, owner_first, several

CHAT = {"model": "chat", "messages": []}
ADMITTED = 'headworks_gateway_admitted_total{deployment="chat",model="chat",tier="standard"}'
AT_REST = (
    'headworks_gateway_in_flight{deployment="chat",model="chat",replica="r0"}',
    'headworks_gateway_kv_tokens_reserved{deployment="chat",model="chat",replica="r0"}',
    'headworks_gateway_queue{deployment="chat",model="chat",tier="standard"}',
)
ANSWERED = 'headworks_gateway_requests_total{deployment="chat",model="chat",status="200"}'


async def own_figures(group: Several, worker: object) -> bytes:
    return (await (await group.inside(worker)).ask(path="/metrics")).body  # type: ignore[arg-type]


async def test_all_requests_of_a_deployment_are_decided_by_one_process(tmp_path: Path) -> None:
    async with Engine() as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        owning, other = owner_first(await group.workers(), "chat")
        for worker in (owning, other):
            line = await group.line_to(worker)
            for stream in (False, True):
                answered = await line.ask({**CHAT, "stream": stream})
                assert (answered.status, answered.whole) == (200, True)
        assert figure(await own_figures(group, owning), ADMITTED) == 4
        assert figure(await own_figures(group, other), ADMITTED) == 0
        assert figure(await own_figures(group, other), "headworks_gateway_in_flight") == 0


async def test_an_answer_through_another_process_is_the_same_to_the_byte(tmp_path: Path) -> None:
    async with Engine() as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        owning, other = owner_first(await group.workers(), "chat")
        lines = [await group.line_to(owning), await group.line_to(other)]
        for body in (
            {**CHAT, "stream": True},
            CHAT,
            {**CHAT, "stream": True, "stream_options": {"include_usage": True}},
        ):
            direct, passed = [await line.ask(body, x_request_id="the-same") for line in lines]
            assert passed.body == direct.body
            assert passed.headers == direct.headers
            assert passed.status == direct.status
        refused = [await line.ask({**CHAT, "model": "none"}) for line in lines]
        assert [one.status for one in refused] == [404, 404]


async def test_the_openai_sdk_streams_through_a_process_that_is_not_the_owner(tmp_path: Path) -> None:
    async with Engine() as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        await group.workers()
        for _ in range(6):  # each on a connection of its own, so both processes are met
            base = f"http://127.0.0.1:{group.port}/v1"
            async with openai.AsyncOpenAI(base_url=base, api_key=KEY, max_retries=0) as client:
                stream = await client.chat.completions.create(model="chat", messages=[], stream=True)
                assert [one.choices[0].delta.content async for one in stream] == ["tok0", "tok1", "tok2"]


async def test_a_client_that_leaves_a_passed_on_stream_aborts_it_at_the_engine(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def endless(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await peer.wait_until_closed()
        left.set()

    async with Engine(endless) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        owning, other = owner_first(await group.workers(), "chat")
        line = await group.line_to(other)
        line.writer.write(make_request({**CHAT, "stream": True}))
        await line.reader.readuntil(b"one")
        in_flight = 'headworks_gateway_in_flight{deployment="chat",model="chat",replica="r0"}'
        assert figure(await own_figures(group, owning), in_flight) == 1
        line.close()
        await asyncio.wait_for(left.wait(), 10)
        await until_figure(group, in_flight, 0)
        assert figure(await group.metrics(), ANSWERED) == 1


async def until_figure(group: Several, series: str, value: float) -> None:
    async with asyncio.timeout(10):
        while figure(await group.metrics(), series) != value:
            await asyncio.sleep(0.05)


async def test_a_reader_who_is_slow_slows_the_engine_down_through_both_processes(tmp_path: Path) -> None:
    sent = 0

    async def flood(_: Request, peer: Peer) -> None:
        nonlocal sent
        await peer.send(head(kind="text/event-stream"))
        for _number in range(1500):
            await peer.send(chunk(event("x" * 20_000)))
            sent += 1
        await peer.send(chunk(DONE), LAST_CHUNK)

    async with Engine(flood) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        _, other = owner_first(await group.workers(), "chat")
        line = await group.line_to(other)
        line.writer.transport.pause_reading()  # type: ignore[attr-defined]
        line.writer.write(make_request({**CHAT, "stream": True}))
        last = -1
        while sent != last:
            last = sent
            await asyncio.sleep(0.5)
        assert 0 < sent < 1500
        line.writer.transport.resume_reading()  # type: ignore[attr-defined]
        got, size = b"", 0
        while not got.endswith(LAST_CHUNK):
            piece = await line.reader.read(1 << 20)
            got, size = (got + piece)[-len(LAST_CHUNK) :], size + len(piece)
        assert size > 1500 * 20_000


async def test_requests_go_on_when_the_owner_is_killed_and_waiting_ones_are_taken_over(tmp_path: Path) -> None:
    """Those that nothing has been answered to are answered by the next owner; a stream that has begun ends with an
    error event."""
    release = asyncio.Event()

    async def patient(request: Request, peer: Peer) -> None:
        if request.json.get("stream"):
            await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        if not release.is_set():
            await asyncio.wait({asyncio.create_task(release.wait()), asyncio.create_task(peer.wait_until_closed())},
                               return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
        if not request.json.get("stream"):
            await answer(request, peer)

    async with Engine(patient) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        owning, other = owner_first(await group.workers(), "chat")
        streaming, plain = await group.line_to(other), await group.line_to(other)
        streaming.writer.write(make_request({**CHAT, "stream": True}))
        await streaming.reader.readuntil(b"one")
        asked = asyncio.create_task(plain.ask(CHAT))
        await until(lambda: len(engine.requests) == 2)
        release.set()
        owning.kill()
        rest = await asyncio.wait_for(streaming.reader.read(), 5)
        assert b'"code":"upstream_failed"' in rest
        assert rest.endswith(LAST_CHUNK)
        answered = await asyncio.wait_for(asked, 5)
        assert answered.status == 200
        assert len(engine.requests) == 3
        fresh = await group.line_to(other)
        assert (await asyncio.wait_for(fresh.ask(CHAT), 20)).status == 200


async def load(group: Several, statuses: list[object], stop: asyncio.Event, pause_s: float = 0.005) -> None:
    line: Line | None = None
    while not stop.is_set():
        try:
            line = line or await group.open()
            answered = await line.ask({**CHAT, "stream": len(statuses) % 2 == 0})
            statuses.append(answered.status if answered.whole and b"error" not in answered.body else "broken")
            await asyncio.sleep(pause_s)
        except (OSError, asyncio.IncompleteReadError):  # its own connection went with the killed process
            statuses.append("cut")
            line = None


@pytest.mark.services
async def test_killing_the_owner_in_mid_load_costs_its_own_connections_only(tmp_path: Path, valkey_server: str) -> None:
    async with Engine() as engine:
        deployments = [make_deployment(engine.url)]
        async with several(tmp_path, make_snapshot(*deployments), REDIS_URL=valkey_server) as group:
            statuses: list[object] = []
            stop = asyncio.Event()
            tasks = [asyncio.create_task(load(group, statuses, stop)) for _ in range(8)]
            before = b""
            for _ in range(3):
                workers = await group.workers()
                owner_first(workers, "chat")[0].kill()
                for _ in range(20):
                    metrics = await metrics_or_cut(group)
                    if metrics:
                        assert_never_backwards(before, metrics)
                        before = metrics
                    await asyncio.sleep(0.05)
            stop.set()
            await asyncio.gather(*tasks)
            assert statuses.count(200) > 100
            wrong = [one for one in statuses if one not in (200, "cut")]
            assert len(wrong) <= 8 * 3, wrong  # streams that had begun at a killed owner
            assert "broken" in wrong or not wrong
            assert statuses.count("cut") <= 8 * 3
            await group.workers()
            for name in ("in_flight", "kv_tokens_reserved"):
                await until_figure(group, f'headworks_gateway_{name}{{deployment="chat",model="chat",replica="r0"}}', 0)
            assert figure(await group.metrics(), ANSWERED) >= statuses.count(200) - 8 * 3


async def metrics_or_cut(group: Several) -> bytes:
    try:
        return await group.metrics()
    except (OSError, asyncio.IncompleteReadError):
        return b""


def assert_never_backwards(before: bytes, after: bytes) -> None:
    kinds, old = {}, {}
    for line in before.decode().splitlines():
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        elif not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            old[series] = value
    counters = {name for name, kind in kinds.items() if kind != "gauge"}
    for series, value in old.items():
        name = series.partition("{")[0]
        for ending in ("_bucket", "_sum", "_count"):
            if name.removesuffix(ending) in counters:
                name = name.removesuffix(ending)
        if name in counters:
            assert figure(after, series) >= float(value), series


async def test_clients_that_leave_at_any_moment_leave_nothing_behind_in_any_process(tmp_path: Path) -> None:
    chance = random.Random(7)

    async def unsteady(request: Request, peer: Peer) -> None:
        await asyncio.sleep(chance.random() * 0.02)
        if chance.random() < 0.1:
            peer.cut()
        else:
            await answer(request, peer)

    async def leave_early(group: Several) -> None:
        line = await group.open()
        raw = make_request({**CHAT, "stream": chance.random() < 0.5}, headers={"connection": "keep-alive"})
        line.writer.write(raw[: chance.randint(1, len(raw))] if chance.random() < 0.2 else raw)
        await asyncio.sleep(chance.random() * 0.04)
        if chance.random() < 0.5:
            line.writer.transport.abort()
        line.close()

    async with Engine(unsteady) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        workers = await group.workers()
        for _ in range(20):
            await asyncio.gather(*(leave_early(group) for _ in range(25)))
        for worker in workers:
            async with asyncio.timeout(10):
                while any(map(functools.partial(figure, await own_figures(group, worker)), AT_REST)):
                    await asyncio.sleep(0.05)
        passed_on = figure(await group.metrics(), 'headworks_gateway_passed_on_total{deployment="chat",model="chat"}')
        assert passed_on > 20
        for worker in workers:
            answered = await (await group.line_to(worker)).ask(path="/healthz")
            assert answered.status == 200


async def test_sigterm_ends_the_parent_with_0_after_what_runs(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def patient(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await go_on.wait()
        await peer.send(chunk(event("two")), chunk(DONE), LAST_CHUNK)

    async with Engine(patient) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        workers = owner_first(await group.workers(), "chat")
        lines = [await group.line_to(worker) for worker in workers]
        for line in lines:
            line.writer.write(make_request({**CHAT, "stream": True}))
            await line.reader.readuntil(b"one")
        group.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        go_on.set()
        for line in lines:
            assert (await asyncio.wait_for(line.reader.read(), 10)).endswith(LAST_CHUNK)
        assert await asyncio.wait_for(group.process.wait(), 10) == 0
        assert not workers[0].socket.parent.exists()


async def test_a_passed_on_stream_that_outlasts_the_drain_limit_ends_with_an_error_event(tmp_path: Path) -> None:
    async def endless(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await peer.wait_until_closed()

    async with Engine(endless) as engine:
        snapshot = make_snapshot(make_deployment(engine.url))
        async with several(tmp_path, snapshot, HEADWORKS_GATEWAY_DRAIN_S="1") as group:
            _, other = owner_first(await group.workers(), "chat")
            line = await group.line_to(other)
            line.writer.write(make_request({**CHAT, "stream": True}))
            await line.reader.readuntil(b"one")
            group.process.send_signal(signal.SIGTERM)
            rest = await asyncio.wait_for(line.reader.read(), 10)
            assert b'"code":"gateway_stopping"' in rest
            assert rest.endswith(LAST_CHUNK)
            assert await asyncio.wait_for(group.process.wait(), 10) == 0


async def test_a_restarted_process_takes_deployments_and_the_old_owner_finishes_what_runs(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def patient(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await go_on.wait()
        await peer.send(chunk(event("two")), chunk(DONE), LAST_CHUNK)

    names = [f"chat{number}" for number in range(12)]
    async with Engine(patient) as engine:
        snapshot = make_snapshot(*(make_deployment(engine.url, name=name) for name in names))
        async with several(tmp_path, snapshot) as group:
            first, second = await group.workers()
            second.kill()
            await until(lambda: second.pid not in group.pids())
            lines = []
            for name in names:
                line = await group.line_to(first)
                line.writer.write(make_request({**CHAT, "model": name, "stream": True}))
                await line.reader.readuntil(b"one")
                lines.append(line)
            workers = await group.workers()
            assert first.id in {worker.id for worker in workers}
            go_on.set()
            for line in lines:
                rest = await asyncio.wait_for(line.reader.read(), 10)
                assert b"two" in rest
                assert rest.endswith(LAST_CHUNK)
            moved = [name for name in names if owner_first(workers, name)[0].id != first.id]
            assert moved
            fresh = await group.line_to(next(one for one in workers if one.id == first.id))
            assert (await fresh.ask({**CHAT, "model": moved[0]})).status == 200


async def test_no_client_can_pass_for_another_gateway_process(tmp_path: Path) -> None:
    async with Engine() as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        for worker in await group.workers():
            line = await group.line_to(worker)
            forged = {
                "x_headworks_passed_again": "1",
                "x_headworks_passed": "999999",
                "x_headworks_diverted_from": "big",
            }
            answered = await line.ask(CHAT, **forged)
            assert answered.status == 200
            assert "x-headworks-degraded" not in answered.headers
        assert all("x-headworks-passed" not in request.headers for request in engine.requests)
