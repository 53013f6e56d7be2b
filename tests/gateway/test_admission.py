"""Who gets a seat, who waits, who is told no, and that everything is given back."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from controlplane.domain.admission.breaker import FAILURES_IN_A_ROW
from controlplane.domain.routing import RoutedDeployment, RoutedKey
from controlplane.domain.sequence_kv import SequenceKv
from controlplane.gateway.gate import Gate
from controlplane.gateway.signals import EngineSample
from controlplane.lib.ids import secret_hash
from tests.gateway.conftest import (
    KEY,
    Answer,
    Running,
    StartGateway,
    make_deployment,
    make_request,
    make_snapshot,
    read_answer,
    until,
)
from tests.gateway.engine import DONE, LAST_CHUNK, USAGE, Engine, Peer, Request, Script, answer, chunk, event, head

STREAM_HEAD = head(kind="text/event-stream")
OTHER = "hw-other-key"


def make_seats(*urls: str, seats: int = 1, tokens: int | None = None, **fields: object) -> RoutedDeployment:
    made = make_deployment(*urls)
    known = tuple(replace(one, max_num_seqs=seats, kv_capacity_tokens=tokens) for one in made.replicas)
    return replace(made, replicas=known, **fields)  # type: ignore[arg-type]


def make_held() -> tuple[asyncio.Event, Callable]:
    """An engine's script that answers when the event is set."""
    free = asyncio.Event()

    async def hold(request: Request, peer: Peer) -> None:
        await free.wait()
        await answer(request, peer)

    return free, hold


def gate_of(gateway: Running) -> Gate:
    return gateway.process.gates.by_name["chat"]


def is_at_rest(gateway: Running) -> None:
    gateway.process.gates.check_invariants()
    for gate in gateway.process.gates.by_name.values():
        admission = gate.admission
        assert not admission.seated and not admission.waiting and not admission.queue.count and not gate._waiters
        assert not admission.tenants.running and not admission.tenants.kv
        for place in admission.places.values():
            assert (place.running, place.ledger.reserved_tokens, place.ledger.by_tier) == (0, 0, {})


async def ask_some(gateway: Running, count: int, **fields: object) -> list[asyncio.Task[Answer]]:
    return [asyncio.create_task(gateway.chat(**fields)) for _ in range(count)]


async def test_no_more_than_its_seats_reach_an_engine_and_the_others_wait(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=3)))
        tasks = await ask_some(gateway, 10)
        await until(lambda: gate_of(gateway).admission.queue.count == 8)
        gateway.process.gates.check_invariants()
        await until(lambda: len(engine.requests) == 2)  # the third seat is kept for another tenant
        free.set()
        answers = await asyncio.gather(*tasks)
        await gateway.until_idle()
    assert [one.status for one in answers] == [200] * 10
    waited = sorted(int(one.headers["x-headworks-queue-ms"]) for one in answers)
    assert waited[:2] == [0, 0]
    is_at_rest(gateway)


async def test_the_tokens_of_a_request_are_held_before_it_is_sent_and_given_back(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8, tokens=1000)))
        tasks = await ask_some(gateway, 3, max_tokens=200, n=2)
        await until(lambda: engine.requests)
        place = gate_of(gateway).admission.places["r0"]
        await until(lambda: gate_of(gateway).admission.queue.count == 1)
        assert 800 <= place.ledger.reserved_tokens <= 900, "two of them fit into 1000 tokens"
        text = (await gateway.get("/metrics")).body.decode()
        assert re.search(r'headworks_gateway_kv_tokens_reserved{.*replica="r0"} 8\d\d\n', text)
        assert 'headworks_gateway_queue{deployment="chat",model="chat",tier="standard"} 1' in text
        free.set()
        await asyncio.gather(*tasks)
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_each_answer_of_a_request_takes_a_seat(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8, tokens=9000)))
        several = asyncio.create_task(gateway.chat(n=6, max_tokens=10))
        await until(lambda: engine.requests)
        assert gate_of(gateway).admission.places["r0"].running == 6
        tasks = await ask_some(gateway, 2)
        await until(lambda: gate_of(gateway).admission.queue.count == 1)  # one more runs, and the last seat is kept
        free.set()
        assert [one.status for one in await asyncio.gather(several, *tasks)] == [200] * 3
        await gateway.until_idle()
        refused = await gateway.chat(n=100, max_tokens=100)
    assert (refused.status, refused.code) == (400, "context_length_exceeded")
    assert "100 answers" in refused.json["error"]["message"] and "9000 tokens" in refused.json["error"]["message"]
    is_at_rest(gateway)


async def test_a_long_list_of_texts_to_embed_takes_the_seats_that_there_are(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8, tokens=9000)))
        body = {"model": "chat", "input": ["some text"] * 2000}
        several = asyncio.create_task(gateway.ask(body, path="/v1/embeddings"))
        await until(lambda: engine.requests)
        assert gate_of(gateway).admission.places["r0"].running == 8
        (waits,) = await ask_some(gateway, 1)
        await until(lambda: gate_of(gateway).admission.queue.count == 1)
        free.set()
        assert ((await several).status, (await waits).status) == (200, 200)
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_how_many_answers_a_request_may_ask_for_is_a_setting(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8)), sequences_most=3)
        refused = await gateway.ask({"model": "chat", "prompt": ["a"] * 4}, path="/v1/completions")
        assert (refused.status, refused.json["error"]["param"]) == (400, "prompt")
        assert (await gateway.ask({"model": "chat", "prompt": ["a"] * 3}, path="/v1/completions")).status == 200
        await gateway.until_idle()
    assert len(engine.requests) == 1
    is_at_rest(gateway)


@pytest.mark.parametrize("status", [503, 429])
async def test_what_can_not_wait_long_enough_is_told_with_the_status_of_the_setting(
    start_gateway: StartGateway, status: int
) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        snapshot = make_snapshot(
            make_seats(engine.url, ttft_target_s=0.3),
            keys={secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme", tier="interactive")},
        )
        gateway = await start_gateway(snapshot, overload_status=status)
        first = asyncio.create_task(gateway.chat())
        await until(lambda: engine.requests)
        late = await gateway.chat()
        assert (late.status, late.code, late.json["error"]["type"]) == (status, "overloaded", "server_error")
        assert int(late.headers["retry-after"]) >= 1
        assert 250 <= int(late.headers["x-headworks-queue-ms"]) <= 2000
        free.set()
        assert (await first).status == 200
        await gateway.until_idle()
        text = (await gateway.get("/metrics")).body.decode()
    assert len(engine.requests) == 1, "an expired request reached the engine"
    assert (
        'headworks_gateway_refused_total{deployment="chat",model="chat",tier="interactive",reason="expired"} 1' in text
    )
    is_at_rest(gateway)


async def test_who_leaves_while_waiting_never_reaches_the_engine(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url)))
        first = asyncio.create_task(gateway.chat())
        await until(lambda: engine.requests)
        _, writer = await gateway.open()
        writer.write(make_request({"model": "chat", "messages": []}))
        await until(lambda: gate_of(gateway).admission.queue.count == 1)
        writer.close()
        await until(lambda: gate_of(gateway).admission.queue.count == 0)
        free.set()
        await first
        await gateway.until_idle()
    assert len(engine.requests) == 1
    is_at_rest(gateway)


async def test_a_prompt_longer_than_any_cache_is_a_400(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8, tokens=1000)))
        got = await gateway.chat(messages=[{"role": "user", "content": "word " * 4000}])
        assert (got.status, got.code) == (400, "context_length_exceeded")
        close = await gateway.chat(messages=[{"role": "user", "content": "word " * 1200}])
        assert close.status == 200, "an estimate that may be wrong by half must not refuse"
    is_at_rest(gateway)


async def test_who_asks_for_more_than_the_context_does_not_wait_for_an_empty_replica(
    start_gateway: StartGateway,
) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        made = make_seats(engine.url, seats=8, tokens=9000)
        made = replace(made, replicas=tuple(replace(one, max_model_len=2000) for one in made.replicas))
        gateway = await start_gateway(make_snapshot(made))
        tasks = await ask_some(gateway, 2, max_tokens=1_000_000)
        await until(lambda: len(engine.requests) == 2)  # the engine is the one to say no
        assert 4000 <= gate_of(gateway).admission.places["r0"].ledger.reserved_tokens < 4200
        free.set()
        await asyncio.gather(*tasks)
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_picture_is_not_counted_by_its_bytes(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8, tokens=4000)))
        image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBO" * 20_000}}
        got = await gateway.chat(messages=[{"role": "user", "content": [image]}])
    assert got.status == 200


async def test_what_the_engine_counts_teaches_the_estimates(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8, tokens=10_000)))
        for _ in range(30):
            await gateway.chat()
        await gateway.until_idle()
        gate = gate_of(gateway)
        prompts = gate.sizes.prompts["/chat/completions"]
        text = (await gateway.get("/metrics")).body.decode()
    assert gate.sizes.outputs.high("acme") <= USAGE["completion_tokens"] + 1
    assert prompts.error_count == 30
    assert 'headworks_gateway_prompt_estimate_error_count{deployment="chat",model="chat"} 30' in text


def make_long_stream(more: asyncio.Event) -> Script:
    """600 tokens, and the end when there is `more`."""

    async def long(_: Request, peer: Peer) -> None:
        await peer.send(STREAM_HEAD, chunk(event() * 600))
        await more.wait()
        await peer.send(chunk(DONE), LAST_CHUNK)

    return long


async def test_a_stream_that_grows_beyond_its_estimate_holds_more_and_is_never_cut(
    start_gateway: StartGateway,
) -> None:
    more = asyncio.Event()
    async with Engine(make_long_stream(more)) as engine:
        keys = {secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme", tier="batch")}
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=8, tokens=600), keys=keys))
        task = asyncio.create_task(gateway.chat(stream=True))
        gate = gate_of(gateway)
        await until(lambda: gate.overbooked)
        text = (await gateway.get("/metrics")).body.decode()
        assert re.search(r'headworks_gateway_beyond_share_total{deployment="chat",model="chat"} [1-9]', text)
        gateway.process.gates.check_invariants()
        assert gate.admission.places["r0"].ledger.reserved_tokens > 600
        more.set()
        got = await task
        await gateway.until_idle()
    assert got.body.count(b"data:") == 601
    is_at_rest(gateway)


async def test_a_stream_of_a_model_with_windows_holds_what_its_layers_keep(start_gateway: StartGateway) -> None:
    more = asyncio.Event()
    async with Engine(make_long_stream(more)) as engine:
        deployment = make_seats(engine.url, seats=8, tokens=600)
        replica = replace(deployment.replicas[0], sequence_kv=SequenceKv(64, 0.125, 10))
        gateway = await start_gateway(make_snapshot(replace(deployment, replicas=(replica,))))
        task = asyncio.create_task(gateway.chat(stream=True))
        gate = gate_of(gateway)
        await until(lambda: any(one.covered_tokens > 600 for one in gate.admission.seated.values()))
        (ticket,) = gate.admission.seated.values()
        assert ticket.held_tokens == 10 + 64 + (ticket.covered_tokens - 64) // 8
        assert not gate.overbooked
        more.set()
        await task
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_request_that_takes_too_long_is_ended(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.gateway.gates.total_limit_s", lambda tier, tokens: 0.2)
    _, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url)))
        got = await gateway.chat()
        await gateway.until_idle()
    assert (got.status, got.code) == (504, "request_timeout")
    is_at_rest(gateway)


async def test_a_plain_answer_that_nothing_limits_may_take_as_long_as_the_longest(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.gateway.gates.total_limit_s", lambda tier, tokens: tokens / 20_000)
    free, hold = make_held()
    async with Engine(hold) as engine:
        made = make_seats(engine.url, seats=8, tokens=900_000)
        replicas = tuple(replace(one, max_model_len=600_000) for one in made.replicas)
        gateway = await start_gateway(make_snapshot(replace(made, replicas=replicas)))
        unlimited = asyncio.create_task(gateway.chat())
        limited, stream = await asyncio.gather(gateway.chat(max_tokens=600), gateway.chat(stream=True))
        assert (limited.code, stream.code) == ("request_timeout", "request_timeout")
        (live,) = gateway.process.meter.live
        assert live.ends_at == live.arrived_at + 30
        free.set()
        assert (await unlimited).status == 200
    is_at_rest(gateway)


async def test_a_deployment_that_is_removed_tells_those_that_wait(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url)))
        tasks = await ask_some(gateway, 2)
        await until(lambda: gate_of(gateway).admission.queue.count == 1)
        gate_of(gateway).close(0.0)
        free.set()
        answers = sorted(one.status for one in await asyncio.gather(*tasks))
        await gateway.until_idle()
    assert answers == [200, 503]


async def test_a_replica_that_fails_again_and_again_is_left_alone(start_gateway: StartGateway) -> None:
    body = b'{"error":{}}'

    async def fail(_: Request, peer: Peer) -> None:
        await peer.send(head(length=len(body), status="500 Internal Server Error") + body)

    async with Engine(fail) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        answers = [(await gateway.chat()).status for _ in range(40)]
    assert answers == [200] * 40 and len(bad.requests) == FAILURES_IN_A_ROW
    is_at_rest(gateway)


async def test_wrong_requests_that_a_broken_replica_refuses_well_do_not_keep_it_in(start_gateway: StartGateway) -> None:
    body = b'{"error":{}}'

    async def fail(request: Request, peer: Peer) -> None:
        status = "400 Bad Request" if request.json.get("seed") == "wrong" else "500 Internal Server Error"
        await peer.send(head(length=len(body), status=status) + body)

    async with Engine(fail) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        for number in range(60):
            await gateway.chat(**({"seed": "wrong"} if number % 3 == 0 else {}))
    failed = [one for one in bad.requests if one.json.get("seed") != "wrong"]
    assert len(failed) == FAILURES_IN_A_ROW
    is_at_rest(gateway)


async def test_a_replica_behind_which_nobody_answers_in_time_is_left_alone(start_gateway: StartGateway) -> None:
    async def fail(_: Request, peer: Peer) -> None:
        await peer.send(head(length=2, status="504 Gateway Timeout") + b"{}")

    async with Engine(fail) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        answers = [(await gateway.chat()).status for _ in range(40)]
    assert answers.count(504) == len(bad.requests) == FAILURES_IN_A_ROW, "what took too long is not tried again"
    is_at_rest(gateway)


@pytest.mark.parametrize("status", ["401 Unauthorized", "302 Found"])
async def test_a_replica_whose_answers_are_of_no_use_is_left_alone(start_gateway: StartGateway, status: str) -> None:
    async def refuse(_: Request, peer: Peer) -> None:
        await peer.send(head(length=2, status=status) + b"{}")

    async with Engine(refuse) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        answers = [(await gateway.chat()).status for _ in range(40)]
    assert answers == [200] * 40 and len(bad.requests) == FAILURES_IN_A_ROW
    is_at_rest(gateway)


async def test_a_client_that_leaves_tells_nothing_of_the_replica(start_gateway: StartGateway) -> None:
    answer = b'{"error":{}}'

    async def fail(request: Request, peer: Peer) -> None:
        if request.json.get("stream"):
            await peer.send(head(kind="text/event-stream"), chunk(event()))
            await peer.wait_until_closed()
        else:
            await peer.send(head(length=len(answer), status="500 Internal Server Error") + answer)

    async with Engine(fail) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        breaker = gate_of(gateway).breaker
        while len(bad.requests) < FAILURES_IN_A_ROW - 1:
            await gateway.chat()
        while not any(request.json.get("stream") for request in bad.requests):
            reader, writer = await gateway.open()
            writer.write(make_request({"model": "chat", "messages": [], "stream": True}))
            await reader.readuntil(b"data: ")
            writer.close()
            await gateway.until_idle()
        assert breaker.failed("r0") is not None or breaker.failed("r1") is not None


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "503 Service Unavailable"])
async def test_clients_errors_and_back_pressure_open_no_breaker(start_gateway: StartGateway, status: str) -> None:
    body = b'{"error":{}}'

    async def refuse(_: Request, peer: Peer) -> None:
        await peer.send(head(length=len(body), status=status) + body)

    async with Engine(refuse) as one, Engine(refuse) as two:
        gateway = await start_gateway(make_snapshot(make_deployment(one.url, two.url)))
        for _ in range(40):
            await gateway.chat()
    each = 20 if status.startswith("400") else 40  # what one has no room for is asked of the other
    assert len(one.requests) == len(two.requests) == each


async def test_a_replica_without_progress_gets_nothing_new(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.domain.admission.breaker.STREAM_STALL_S", 0.5)
    never = asyncio.Event()

    async def stall(_: Request, peer: Peer) -> None:
        await peer.send(STREAM_HEAD, chunk(event()))
        await never.wait()

    async with Engine(stall) as bad, Engine() as good:
        gateway = await start_gateway(make_snapshot(make_deployment(bad.url, good.url)))
        tasks = await ask_some(gateway, 2, stream=True)
        await until(lambda: gate_of(gateway).progress["r0"].is_stalled)
        for _ in range(10):
            assert (await gateway.chat()).headers["x-headworks-replica"] == "r1"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(bad.requests) == 1


async def test_the_only_replica_goes_on_while_its_engine_works_on_a_long_prompt(
    start_gateway: StartGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.domain.admission.breaker.STREAM_STALL_S", 0.5)
    free = asyncio.Event()
    usages = [0.1, 0.2, 0.3]  # by second; the last one stands still

    async def prefill(request: Request, peer: Peer) -> None:
        if request.json.get("stream"):
            await free.wait()
        await answer(request, peer)

    async with Engine(prefill) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        monkeypatch.setattr(
            gateway.process.engine_samples,
            "newest",
            lambda: {"r0": EngineSample(kv_usage=usages.pop(0) if len(usages) > 1 else usages[0])},
        )
        (waits,) = await ask_some(gateway, 1, stream=True)
        await until(lambda: len(usages) == 1)
        assert not gate_of(gateway).progress["r0"].is_stalled
        assert (await gateway.chat()).status == 200
        await until(lambda: gate_of(gateway).progress["r0"].is_stalled)
        free.set()
        assert (await waits).status == 200
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_greedy_tenant_hardly_delays_another(start_gateway: StartGateway) -> None:
    async def slow(request: Request, peer: Peer) -> None:
        await asyncio.sleep(0.05)
        await answer(request, peer)

    async with Engine(slow) as engine:
        snapshot = make_snapshot(
            make_seats(engine.url, seats=8),
            keys={
                secret_hash(KEY): RoutedKey("key-1", "tenant-1", "greedy"),
                secret_hash(OTHER): RoutedKey("key-2", "tenant-2", "small"),
            },
        )
        gateway = await start_gateway(snapshot)
        tasks = await ask_some(gateway, 300)
        await until(lambda: gate_of(gateway).admission.queue.count > 200)
        waits = []
        for _ in range(10):
            got = await gateway.ask({"model": "chat", "messages": []}, headers={"authorization": f"Bearer {OTHER}"})
            waits.append(int(got.headers["x-headworks-queue-ms"]))
        answers = await asyncio.gather(*tasks)
        await gateway.until_idle()
    assert max(waits) <= 150, waits
    assert {one.status for one in answers} == {200}
    assert max(int(one.headers["x-headworks-queue-ms"]) for one in answers) > 1000
    is_at_rest(gateway)


async def abort_somewhere(gateway: Running, chance: random.Random) -> None:
    """A client that leaves at some stage, or stays."""
    reader, writer = await gateway.open()
    body = {"model": "chat", "messages": [], "stream": chance.random() < 0.5}
    if chance.random() < 0.5:
        body["max_tokens"] = chance.randrange(1, 400)
    raw = make_request(body)
    stage = chance.random()
    try:
        if stage < 0.1:
            writer.write(raw[: chance.randrange(1, len(raw))])
            return
        writer.write(raw)
        if stage < 0.6:
            await asyncio.sleep(chance.random() * 0.05)
        elif stage < 0.75:
            await reader.read(1)
        else:
            await read_answer(reader)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.transport.abort()


async def test_after_thousands_of_aborts_at_every_stage_every_counter_is_0(start_gateway: StartGateway) -> None:
    chance = random.Random(5)

    async def moody(request: Request, peer: Peer) -> None:
        luck = chance.random()
        await asyncio.sleep(chance.random() * 0.02)
        if luck < 0.1:
            peer.cut()
        elif luck < 0.2 and request.json["stream"]:
            await peer.send(STREAM_HEAD, chunk(event()))
            await asyncio.sleep(chance.random() * 0.05)
            peer.cut()
        else:
            await answer(request, peer)

    async with Engine(moody) as one, Engine(moody) as two:
        gateway = await start_gateway(make_snapshot(make_seats(one.url, two.url, seats=12, tokens=4000)))
        for _ in range(20):
            await asyncio.gather(*(abort_somewhere(gateway, chance) for _ in range(150)))
            gateway.process.gates.check_invariants()
        await gateway.until_idle()
        await until(lambda: not gate_of(gateway).admission.queue.count)
    assert sum(gate_of(gateway).admission.admitted.values()) > 1000
    is_at_rest(gateway)


async def test_a_gateway_that_is_stopped_gives_back_what_waited(start_gateway: StartGateway) -> None:
    _, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url)), drain_s=0)
        tasks = await ask_some(gateway, 5)
        await until(lambda: gate_of(gateway).admission.queue.count == 4)
        gateway.server.should_exit = True
        answers = await asyncio.gather(*tasks)
        await gateway.until_idle()
    assert {one.status for one in answers} == {503}
    is_at_rest(gateway)


async def test_a_deployment_that_is_removed_while_a_body_comes_is_a_503(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url)))
        raw = make_request({"model": "chat", "messages": []})
        reader, writer = await gateway.open()
        writer.write(raw[:-5])
        await asyncio.sleep(0.1)
        gateway.process.gates.by_name.clear()
        writer.write(raw[-5:])
        got = await read_answer(reader)
        writer.close()
    assert (got.status, got.code) == (503, "no_replica")
