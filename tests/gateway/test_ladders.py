"""The degradation ladder for real requests: what is done to them, for whom, and what they are told."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from controlplane.domain.admission.tiers import DEFAULT_TIERS
from controlplane.domain.degradation import Ladder, Step
from controlplane.domain.routing import RoutedKey, RoutingSnapshot
from controlplane.gateway.gate import Gate
from controlplane.gateway.signals import NOTHING
from controlplane.lib import wire
from controlplane.lib.ids import secret_hash
from tests.gateway.conftest import KEY, Answer, Running, StartGateway, make_deployment, make_snapshot, until
from tests.gateway.engine import Engine, make_no
from tests.gateway.test_admission import ask_some, gate_of, is_at_rest, make_held, make_seats

OPTS_OUT = {"x-headworks-degrade": "never"}
CAP = Step("cap_tokens", max_tokens=512)
SHED = Step("shed", tiers=("batch",))
DIVERT = Step("divert", deployment="small")


def make_ladder(url: str, *steps: Step, other: str = "", tier: str = "standard") -> RoutingSnapshot:
    chat = replace(make_seats(url, seats=8), ladder=Ladder(steps))
    small = make_deployment(*([other] if other else []), name="small", model="small-engine")
    small = replace(small, replicas=tuple(replace(one, id=f"small-{one.id}") for one in small.replicas))
    keys = {secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme", tier=tier)}
    return make_snapshot(chat, small, keys=keys)


def put_on(gate: Gate, level: int) -> None:
    """Puts all tiers of a deployment on a level of its ladder."""
    gate.degrader.level = level
    for one in gate.degrader.by_tier.values():
        one.level, one.climbed_at = level, [0.0] * level


async def degraded(gateway: Running, level: int, headers: dict[str, str] | None = None, **fields: object) -> Answer:
    put_on(gate_of(gateway), level)
    return await gateway.ask({"model": "chat", "messages": [], **fields}, headers=headers)


async def test_answers_are_capped_and_the_client_is_told(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_ladder(engine.url, CAP))
        untouched = await degraded(gateway, 0, max_tokens=2048)
        assert "x-headworks-degraded" not in untouched.headers
        for fields, sent in (
            ({"max_tokens": 2048}, {"max_tokens": 512}),
            ({"max_completion_tokens": 2048, "max_tokens": 9}, {"max_completion_tokens": 512, "max_tokens": 9}),
            ({}, {"max_tokens": 512}),
            ({"max_tokens": 2048, "min_tokens": 1000}, {"max_tokens": 512, "min_tokens": 512}),
        ):
            one = await degraded(gateway, 1, None, **fields)
            assert (one.status, one.headers["x-headworks-degraded"]) == (200, "max_tokens=512")
            asked = engine.requests[-1].json
            assert {name: asked[name] for name in sent} == sent
        short = await degraded(gateway, 1, max_tokens=100)
        assert "x-headworks-degraded" not in short.headers
        whole = await degraded(gateway, 1, OPTS_OUT, max_tokens=2048)
        assert "x-headworks-degraded" not in whole.headers
        assert engine.requests[-1].json["max_tokens"] == 2048
        text = (await gateway.get("/metrics")).body.decode()
        assert 'headworks_gateway_degraded_total{deployment="chat",model="chat",action="cap_tokens"} 4' in text
        assert 'headworks_gateway_degradation_level{deployment="chat",model="chat"} 1' in text


async def test_the_lowest_tier_is_shed_and_told_so(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_ladder(engine.url, SHED, tier="batch"))
        for headers in (None, OPTS_OUT):
            one = await degraded(gateway, 1, headers)
            assert (one.status, one.code) == (503, "overloaded")
            assert one.headers["x-headworks-degraded"] == "shed"
            assert one.headers["retry-after"] == "15", "so long the step is not left"
        assert not engine.requests
        assert gate_of(gateway).refused["batch", "shed"] == 2
        gateway = await start_gateway(make_ladder(engine.url, SHED))
        assert (await degraded(gateway, 1)).status == 200, "standard is not concerned"


async def test_requests_go_to_another_deployment_that_the_key_may_use(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        gateway = await start_gateway(make_ladder(engine.url, CAP, DIVERT, other=other.url))
        one = await degraded(gateway, 2, max_tokens=2048)
        assert (one.status, one.headers["x-headworks-degraded"]) == (200, "model=small, max_tokens=512")
        assert (len(engine.requests), len(other.requests)) == (0, 1)
        assert (other.requests[0].json["model"], other.requests[0].json["max_tokens"]) == ("small-engine", 512)
        assert (await degraded(gateway, 2, OPTS_OUT)).status == 200
        assert len(engine.requests) == 1
        await gateway.until_idle()
        assert {one.deployment for one in gateway.usage()} == {"small", "chat"}, "it counts where it was answered"
    is_at_rest(gateway)


async def put_small_on(
    start_gateway: StartGateway, snapshot: RoutingSnapshot, level: int, *steps: Step, **fields: object
) -> Running:
    """A gateway whose deployment `small` has these steps and is on this level."""
    small = replace(snapshot.deployments["small"], ladder=Ladder(steps), **fields)  # type: ignore[arg-type]
    gateway = await start_gateway(replace(snapshot, deployments={**snapshot.deployments, "small": small}))
    put_on(gateway.process.gates.by_name["small"], level)
    return gateway


async def test_where_a_request_is_sent_to_that_ones_ladder_holds_too(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        snapshot = make_ladder(engine.url, CAP, DIVERT, other=other.url)
        tighter = Step("cap_tokens", max_tokens=64)
        gateway = await put_small_on(start_gateway, snapshot, 1, tighter)
        one = await degraded(gateway, 2, max_tokens=2048)
        assert (one.status, one.headers["x-headworks-degraded"]) == (200, "model=small, max_tokens=64")
        assert other.requests[0].json["max_tokens"] == 64
        short = await degraded(gateway, 2, max_tokens=9)
        assert short.headers["x-headworks-degraded"] == "model=small"
        assert not engine.requests
        assert gateway.process.gates.by_name["small"].degraded == {"cap_tokens": 1}
        assert gate_of(gateway).degraded == {"cap_tokens": 1, "divert": 2}
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_nobody_is_sent_to_where_its_tier_is_shed(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        snapshot = make_ladder(engine.url, DIVERT, other=other.url, tier="batch")
        gateway = await put_small_on(start_gateway, snapshot, 1, SHED)
        one = await degraded(gateway, 1)
        assert one.status == 200 and "x-headworks-degraded" not in one.headers
        assert (len(engine.requests), len(other.requests)) == (1, 0)


async def test_nobody_is_sent_to_where_it_could_never_fit(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        snapshot = make_ladder(engine.url, DIVERT, other=other.url)
        tiny = tuple(replace(one, kv_capacity_tokens=100) for one in snapshot.deployments["small"].replicas)
        gateway = await put_small_on(start_gateway, snapshot, 0, replicas=tiny)
        long = await degraded(gateway, 1, messages=[{"role": "user", "content": "a" * 4000}])
        assert long.status == 200 and "x-headworks-degraded" not in long.headers
        assert (await degraded(gateway, 1)).headers["x-headworks-degraded"] == "model=small"
        assert (len(engine.requests), len(other.requests)) == (1, 1)


async def test_nobody_is_sent_to_an_engine_that_would_refuse_the_length(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        snapshot = make_ladder(engine.url, DIVERT, other=other.url)
        short = tuple(replace(one, max_model_len=500) for one in snapshot.deployments["small"].replicas)
        gateway = await put_small_on(start_gateway, snapshot, 0, replicas=short)
        long = [{"role": "user", "content": "a" * 4000}]
        for fields in ({"messages": long}, {"max_tokens": 600}):
            one = await degraded(gateway, 1, None, **fields)
            assert one.status == 200 and "x-headworks-degraded" not in one.headers
        assert (await degraded(gateway, 1, max_tokens=400)).headers["x-headworks-degraded"] == "model=small"
        assert (len(engine.requests), len(other.requests)) == (2, 1)


async def test_an_error_says_too_what_was_done_to_the_request(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_ladder("http://127.0.0.1:1", CAP))
    one = await degraded(gateway, 1, max_tokens=2048)
    assert (one.status, one.headers["x-headworks-degraded"]) == (503, "max_tokens=512")


@pytest.mark.parametrize("status", ["400 Bad Request", "429 Too Many Requests", "503 Service Unavailable"])
async def test_who_is_turned_away_there_is_answered_by_the_model_it_asked_for(
    start_gateway: StartGateway, status: str
) -> None:
    async with Engine() as engine, Engine(make_no(status)) as other:
        snapshot = make_ladder(engine.url, CAP, DIVERT, other=other.url)
        gateway = await put_small_on(start_gateway, snapshot, 1, Step("cap_tokens", max_tokens=64))
        for stream in (False, True):
            one = await degraded(gateway, 2, max_tokens=2048, stream=stream)
            assert (one.status, one.headers["x-headworks-degraded"]) == (200, "max_tokens=512")
            assert "x-headworks-ignored" not in one.headers
        assert (len(engine.requests), len(other.requests)) == (2, 2)
        asked = engine.requests[0].json
        assert (asked["model"], asked["max_tokens"]) == ("engine-model", 512), "not the other ladder's cap"
        assert gateway.process.gates.by_name["small"].degraded["turned_away"] == 2
    is_at_rest(gateway)


async def test_who_finds_nobody_there_is_answered_by_the_model_it_asked_for(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_ladder(engine.url, DIVERT, other="http://127.0.0.1:1"))
        one = await degraded(gateway, 1)
        assert one.status == 200 and "x-headworks-degraded" not in one.headers
    is_at_rest(gateway)


async def test_who_gets_no_seat_there_is_answered_by_the_model_it_asked_for(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        snapshot = make_ladder(engine.url, DIVERT, other=other.url)
        nobody_waits = tuple(replace(one, queue_most=0, longest_wait_s=0.0) for one in DEFAULT_TIERS)
        no_room = tuple(replace(one, max_num_seqs=1) for one in snapshot.deployments["small"].replicas)
        free, hold = make_held()
        async with Engine(hold) as slow:
            full = tuple(replace(one, url=slow.url) for one in no_room)
            gateway = await put_small_on(start_gateway, snapshot, 0, replicas=full, tiers=nobody_waits)
            first = asyncio.create_task(degraded(gateway, 1))
            await until(lambda: bool(slow.requests))
            one = await degraded(gateway, 1)
            assert one.status == 200 and "x-headworks-degraded" not in one.headers
            free.set()
            assert (await first).headers["x-headworks-degraded"] == "model=small"
    is_at_rest(gateway)


async def test_an_error_of_the_model_it_asked_for_is_the_last_word(start_gateway: StartGateway) -> None:
    async with Engine(make_no("400 Bad Request")) as engine, Engine(make_no("400 Bad Request")) as other:
        gateway = await start_gateway(make_ladder(engine.url, DIVERT, other=other.url))
        assert (await degraded(gateway, 1)).status == 400
        assert (len(engine.requests), len(other.requests)) == (1, 1)
    is_at_rest(gateway)


async def test_who_opts_out_is_never_sent_elsewhere_and_waits_or_is_refused(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine, Engine() as other:
        snapshot = make_ladder(engine.url, DIVERT, other=other.url)
        chat = snapshot.deployments["chat"]
        one_seat = tuple(replace(one, max_num_seqs=1) for one in chat.replicas)
        chat = replace(chat, replicas=one_seat)
        gateway = await start_gateway(replace(snapshot, deployments={**snapshot.deployments, "chat": chat}))
        put_on(gate_of(gateway), 1)
        body = {"model": "chat", "messages": []}
        asked = [asyncio.create_task(gateway.ask(dict(body), headers=OPTS_OUT)) for _ in range(2)]
        await until(lambda: gate_of(gateway).admission.queue.count == 1)
        assert (await gateway.ask(dict(body))).headers["x-headworks-degraded"] == "model=small"
        free.set()
        answers = [await one for one in asked]
        assert {(one.status, one.headers["x-headworks-replica"]) for one in answers} == {(200, "r0")}
        assert not any("x-headworks-degraded" in one.headers for one in answers)
        assert (len(engine.requests), len(other.requests)) == (2, 1)
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_no_key_reaches_by_the_ladder_what_it_may_not_use(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        snapshot = make_ladder(engine.url, DIVERT, other=other.url)
        narrow = {secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme", deployments=("chat",))}
        gateway = await start_gateway(replace(snapshot, keys=narrow))
        assert "x-headworks-degraded" not in (await degraded(gateway, 1)).headers
        assert (len(engine.requests), len(other.requests)) == (1, 0)


async def test_a_deployment_without_replicas_is_passed_over(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_ladder(engine.url, DIVERT))
        assert (await degraded(gateway, 1)).status == 200
        assert len(engine.requests) == 1


async def test_a_request_is_sent_on_once_only(start_gateway: StartGateway) -> None:
    async with Engine() as engine, Engine() as other:
        snapshot = make_ladder(engine.url, DIVERT, other=other.url)
        small = replace(snapshot.deployments["small"], ladder=Ladder((Step("divert", deployment="chat"),)))
        gateway = await start_gateway(replace(snapshot, deployments={**snapshot.deployments, "small": small}))
        put_on(gateway.process.gates.by_name["small"], 1)
        one = await degraded(gateway, 1)
        assert (one.status, one.headers["x-headworks-degraded"]) == (200, "model=small")
        assert (len(engine.requests), len(other.requests)) == (0, 1)


async def test_waiting_for_too_long_climbs_the_ladder_and_calm_comes_down(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        snapshot = make_ladder(engine.url, CAP)
        chat = replace(snapshot.deployments["chat"], replicas=make_seats(engine.url, seats=1).replicas)
        gateway = await start_gateway(replace(snapshot, deployments={"chat": chat}))
        tasks = await ask_some(gateway, 2)
        gate, ladders = gate_of(gateway), gateway.process.gates.ladders
        await until(lambda: gate.admission.queue.count == 1)
        begin = time.monotonic() + 60
        for second in range(15):
            ladders.look_at(gate, {}, begin + second)
        assert gate.degrader.level == 1
        [change] = ladders.news.untold
        assert (change.deployment, change.before, change.after, change.kind) == ("chat", 0, 1, "cap_tokens")
        assert change.tiers == ("standard", "batch"), "interactive is above the tier that waits"
        text = (await gateway.get("/metrics")).body.decode()
        for tier, level in (("interactive", 0), ("standard", 1), ("batch", 1)):
            own = f'deployment="chat",model="chat",tier="{tier}"'
            assert f"headworks_gateway_tier_degradation_level{{{own}}} {level}" in text
        free.set()
        await asyncio.gather(*tasks)
        for second in range(60):
            ladders.look_at(gate, {}, begin + 15 + second)
        assert gate.degrader.level == 0
        assert [one.after for one in ladders.news.untold] == [1, 0]
        await gateway.until_idle()
    is_at_rest(gateway)


@pytest.mark.parametrize("is_frozen", [True, False])
async def test_seats_of_a_frozen_deployment_stay_too(start_gateway: StartGateway, is_frozen: bool) -> None:
    async with Engine() as engine:
        snapshot = make_ladder(engine.url, CAP)
        chat = replace(
            snapshot.deployments["chat"], frozen=is_frozen, replicas=make_seats(engine.url, seats=8).replicas
        )
        gateway = await start_gateway(replace(snapshot, deployments={"chat": chat}))
        gate, gates = gate_of(gateway), gateway.process.gates
        [(replica_id, seats)] = gate.seats.items()
        before = seats.now
        full = {replica_id: replace(NOTHING, kv_usage=0.99)}
        for second in range(30):
            gates._look_at(gate, {}, full, time.monotonic() + 60 + second)
        assert (seats.now == before) == is_frozen
        assert gate.admission.places[replica_id].seats == seats.now


async def test_a_frozen_deployment_stays_where_it_is(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        snapshot = make_ladder(engine.url, CAP)
        frozen = replace(snapshot.deployments["chat"], frozen=True, replicas=make_seats(engine.url).replicas)
        gateway = await start_gateway(replace(snapshot, deployments={"chat": frozen}))
        tasks = await ask_some(gateway, 2)
        gate = gate_of(gateway)
        await until(lambda: gate.admission.queue.count == 1)
        for second in range(15):
            gateway.process.gates.ladders.look_at(gate, {}, time.monotonic() + 60 + second)
        assert gate.degrader.level == 0
        assert gate.degrader.value > 0.5
        free.set()
        await asyncio.gather(*tasks)


async def test_a_changed_ladder_holds_at_once(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_ladder(engine.url, CAP, SHED))
        put_on(gate_of(gateway), 2)
        shorter = replace(make_ladder(engine.url, Step("cap_tokens", max_tokens=64)), version=2)
        gateway.process.snapshots._take(wire.encode(shorter), "valkey")
        assert gate_of(gateway).degrader.level == 1
        assert (await gateway.chat()).headers["x-headworks-degraded"] == "max_tokens=64"
