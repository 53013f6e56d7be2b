"""The rules that people set, in the snapshot: tiers, shares and targets hold for real requests, and change live."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from controlplane.domain.admission.policy import TenantShare
from controlplane.domain.admission.tiers import BATCH, INTERACTIVE, STANDARD
from controlplane.domain.routing import RoutedKey, RoutingSnapshot
from controlplane.gateway.asks import CHAT, read_ask
from controlplane.lib import wire
from controlplane.lib.ids import secret_hash
from tests.gateway.conftest import KEY, Running, StartGateway, make_snapshot, until
from tests.gateway.engine import Engine
from tests.gateway.test_admission import ask_some, gate_of, is_at_rest, make_held, make_seats

OTHER = "hw-other-key"


def make_rules(
    url: str, *, version: int = 1, seats: int = 4, tier: str = "standard", **fields: object
) -> RoutingSnapshot:
    keys = {
        secret_hash(KEY): RoutedKey("key-1", "tenant-1", "acme", tier=tier),
        secret_hash(OTHER): RoutedKey("key-2", "tenant-2", "other"),
    }
    return make_snapshot(make_seats(url, seats=seats, **fields), version=version, keys=keys)  # type: ignore[arg-type]


def take(gateway: Running, snapshot: RoutingSnapshot) -> None:
    gateway.process.snapshots._take(wire.encode(snapshot), "valkey")


async def test_a_tiers_own_bounds_hold_and_change_live(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    tiers = (INTERACTIVE, replace(STANDARD, queue_most=2), BATCH)
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_rules(engine.url, seats=1, tiers=tiers))
        tasks = await ask_some(gateway, 3)
        await until(lambda: gate_of(gateway).admission.queue.count == 2)
        refused = await gateway.chat()
        assert (refused.status, refused.code) == (503, "overloaded")
        tiers = (INTERACTIVE, replace(STANDARD, queue_most=3, weight=1.0), BATCH)
        take(gateway, make_rules(engine.url, seats=1, tiers=tiers, version=2))
        tasks += await ask_some(gateway, 1)
        await until(lambda: gate_of(gateway).admission.queue.count == 3)
        assert gate_of(gateway).admission.queue.tiers["standard"].weight == 1.0
        free.set()
        assert [(await one).status for one in tasks] == [200] * 4, "nobody who waited was lost"
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_tier_that_is_taken_away_ends_with_those_that_wait_in_it(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    gold = replace(INTERACTIVE, name="gold", longest_wait_s=20.0)
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_rules(engine.url, seats=1, tier="gold", tiers=(STANDARD, gold)))
        tasks = await ask_some(gateway, 2)
        await until(lambda: gate_of(gateway).admission.queue.count == 1)
        take(gateway, make_rules(engine.url, seats=1, tier="gold", tiers=(STANDARD,), version=2))
        tasks += await ask_some(gateway, 1)
        await until(lambda: gate_of(gateway).admission.queue.count == 2)
        assert gate_of(gateway).admission.queue.tiers["standard"].count == 1, "nobody new is let in as gold"
        free.set()
        assert [(await one).status for one in tasks] == [200] * 3
        await gateway.until_idle()
        await until(lambda: set(gate_of(gateway).admission.policy.tiers) == {"standard"})
        text = (await gateway.get("/metrics")).body.decode()
        assert 'headworks_gateway_admitted_total{deployment="chat",model="chat",tier="gold"} 2' in text
    is_at_rest(gateway)


async def test_a_tier_may_be_taken_away_between_a_request_s_ticket_and_its_seat(start_gateway: StartGateway) -> None:
    """While a request waits for its quotas, the rows may change."""
    gold = replace(INTERACTIVE, name="gold")
    async with Engine() as engine:
        gateway = await start_gateway(make_rules(engine.url, tier="gold", tiers=(STANDARD, gold)))
        gate, now = gate_of(gateway), time.monotonic()
        ticket = gate.ticket(read_ask(b'{"model": "chat", "messages": []}', CHAT), "acme", "gold", now)
        take(gateway, make_rules(engine.url, tier="gold", tiers=(STANDARD,), version=2))
        assert gate.seat_at_once(ticket, now) or await gate.seat(ticket, now)
        gate.leave(ticket)
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_tenant_gets_no_more_seats_than_its_share_until_that_changes(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_rules(engine.url, shares={"acme": TenantShare(most=0.5)}))
        tasks = await ask_some(gateway, 4)
        await until(lambda: gate_of(gateway).admission.queue.count == 2)
        assert gate_of(gateway).admission.tenants.running == {"acme": 2}
        other = asyncio.create_task(
            gateway.ask({"model": "chat", "messages": []}, headers={"authorization": f"Bearer {OTHER}"})
        )
        await until(lambda: len(engine.requests) == 3)
        take(gateway, make_rules(engine.url, shares={"acme": TenantShare(most=0.75)}, version=2))
        await until(lambda: gate_of(gateway).admission.tenants.running == {"acme": 2, "other": 1})
        free.set()
        assert [(await one).status for one in (*tasks, other)] == [200] * 5
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_a_guarantee_is_lent_while_it_is_idle_and_called_back(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        shares = {"other": TenantShare(guaranteed=0.5)}
        gateway = await start_gateway(make_rules(engine.url, seats=4, tier="interactive", shares=shares))
        policy = gate_of(gateway).admission.policy
        assert policy.shares == shares
        tasks = await ask_some(gateway, 6)
        await until(lambda: gate_of(gateway).admission.queue.count == 3)  # one seat is kept for those without any
        own = [
            asyncio.create_task(
                gateway.ask({"model": "chat", "messages": []}, headers={"authorization": f"Bearer {OTHER}"})
            )
            for _ in range(2)
        ]
        await until(lambda: gate_of(gateway).admission.tenants.running.get("other") == 1)
        free.set()
        assert {(await one).status for one in (*tasks, *own)} == {200}
        await gateway.until_idle()
    is_at_rest(gateway)


async def test_batch_holds_no_more_of_the_cache_than_its_tier_may(start_gateway: StartGateway) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        tiers = (INTERACTIVE, STANDARD, replace(BATCH, kv_share=0.5))
        gateway = await start_gateway(make_rules(engine.url, seats=8, tier="batch", tokens=1000, tiers=tiers))
        tasks = await ask_some(gateway, 3, max_tokens=200)
        await until(lambda: gate_of(gateway).admission.queue.count == 1)
        assert gate_of(gateway).admission.places["r0"].ledger.by_tier["batch"] <= 500
        free.set()
        assert {(await one).status for one in tasks} == {200}
        await gateway.until_idle()
    is_at_rest(gateway)


@pytest.mark.parametrize(("tier", "priority"), [("interactive", 0), ("standard", 1), ("batch", 2)])
async def test_an_engine_that_goes_by_priority_gets_the_tiers(
    start_gateway: StartGateway, tier: str, priority: int
) -> None:
    async with Engine() as engine:
        snapshot = make_rules(engine.url, tier=tier)
        gateway = await start_gateway(snapshot)
        one = await gateway.chat(priority=-9)
        assert one.headers["x-headworks-ignored"] == "priority"
        assert "priority" not in engine.requests[-1].json
        chat = snapshot.deployments["chat"]
        by_priority = replace(chat, replicas=tuple(replace(one, takes_priority=True) for one in chat.replicas))
        take(gateway, replace(snapshot, deployments={"chat": by_priority}, version=2))
        await gateway.chat(priority=-9)
        assert engine.requests[-1].json["priority"] == priority


async def test_media_are_fetched_from_allowed_hosts_only(start_gateway: StartGateway) -> None:
    def make_messages(url: str) -> list:
        return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]

    async with Engine() as engine:
        gateway = await start_gateway(make_rules(engine.url))
        refused = await gateway.chat(messages=make_messages("https://cdn.example.com/a.png"))
        assert (refused.status, refused.code) == (400, "invalid_request")
        assert refused.json["error"]["param"] == "messages[0].content[0].image_url"
        assert not engine.requests
        assert (await gateway.chat(messages=make_messages("data:image/png;base64,AAAA"))).status == 200
        gateway = await start_gateway(make_rules(engine.url), media_domains=("cdn.example.com",))
        assert (await gateway.chat(messages=make_messages("https://cdn.example.com/a.png"))).status == 200
        assert (await gateway.chat(messages=make_messages("https://other.example.com/a.png"))).status == 400
        await gateway.until_idle()
    is_at_rest(gateway)
