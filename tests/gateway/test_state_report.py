"""What a gateway tells of itself, from the gateway to the reader."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.tiers import DEFAULT_TIERS
from controlplane.domain.gateway_state import GatewayState, Heard, QuotaRefusedState
from controlplane.domain.quotas.quota import Quota, Who
from controlplane.gateway.gate import Gate
from controlplane.gateway.gates import Gates
from controlplane.gateway.metering import Meter
from controlplane.gateway.state_report import StateReport
from controlplane.lib import gateway_state, keys, sample_store, valkey, wire
from tests.gateway.conftest import StartGateway, make_snapshot, until
from tests.gateway.engine import Engine
from tests.gateway.test_admission import ask_some, gate_of, make_held, make_seats

ONE_WAITS = {tier.name: replace(tier, queue_most=1) for tier in DEFAULT_TIERS}


@pytest.mark.services
async def test_who_waits_and_what_was_refused_is_told_once_a_second(
    start_gateway: StartGateway, valkey_server: str
) -> None:
    free, hold = make_held()
    async with Engine(hold) as engine:
        gateway = await start_gateway(make_snapshot(make_seats(engine.url, seats=2, tokens=4000)), valkey_server)
        gate_of(gateway).admission.policy = Policy(tiers=ONE_WAITS)
        tasks = await ask_some(gateway, 3, max_tokens=100)
        await until(lambda: gate_of(gateway).refused)
        (heard,) = await until_told(valkey_server, lambda state: state.deployments and state.deployments[0].refused)
        (chat,) = heard.state.deployments
        tier = {one.name: one for one in chat.tiers}["standard"]
        assert heard.is_fresh and heard.state.pid and heard.state.version
        assert (tier.waiting, tier.queue_most, tier.admitted) == (1, 1, 1)
        assert tier.wait_limit_s == pytest.approx(30.0)
        assert tier.waiting_bytes > 0 and tier.oldest_wait_s is not None and tier.oldest_wait_s < 30
        (waiting,) = chat.waiting
        assert (waiting.tenant, waiting.tier, waiting.requests) == ("acme", "standard", 1)
        assert waiting.tokens > 100
        (refused,) = chat.refused
        assert (refused.tier, refused.why, refused.requests) == ("standard", "queue_full", 1)
        (replica,) = chat.replicas
        assert (replica.id, replica.running, replica.seats) == ("r0", 1, 2)
        assert replica.reserved_tokens > 100 and replica.capacity_tokens == 4000
        sample = sample_store.newest(valkey.connect(valkey_server), ["gateway:chat"])["gateway:chat"]
        assert (sample["queued_standard"], sample["queued_batch"]) == (1, 0)
        free.set()
        await asyncio.gather(*tasks)
        await gateway.until_idle()
        gateway.server.should_exit = True
        await until(lambda: not gateway_state.read(valkey.connect(valkey_server)))


@pytest.mark.services
async def test_a_gateway_without_routes_tells_that_it_is_there(start_gateway: StartGateway, valkey_server: str) -> None:
    await start_gateway(None, valkey_server)
    (heard,) = await until_told(valkey_server, lambda state: not state.deployments)
    assert heard.is_fresh


def test_rates_are_over_the_last_seconds_and_unknown_in_the_first() -> None:
    report, gates = make_report()
    gate = gates.by_name["chat"]
    tell(report, 0.0)
    assert tell(report, 0.0).deployments[0].admitted_per_s is None
    gate.admission.admitted["batch"] += 30
    gate.refused["batch", "shed"] = 5
    told = tell(report, 10.0).deployments[0]
    assert (told.admitted_per_s, told.refused_per_s) == (3.0, 0.5)
    for second in range(11, 30):
        told = tell(report, float(second)).deployments[0]
    assert (told.admitted_per_s, told.refused_per_s, told.refused[0].requests) == (0.0, 0.0, 5)


def test_slices_that_are_held_and_refusals_of_quotas_are_told() -> None:
    report, gates = make_report()
    book = gates.quotas.book
    book.set_quotas([Quota("1", "fair", "shop", limits={"tokens_per_day": 1000, "money_per_day": 5})])
    assert tell(report, 0.0).leases == ()
    book.failed(50.0)
    book.reserve("a", Who("shop", "k", "chat"), 10, 1, 55.0)
    gates.quotas.refused["shop", "fair", "tokens_per_day"] = 3
    told = tell(report, 1.0)
    assert {(one.quota, one.measure, one.reserved) for one in told.leases} == {
        ("fair", "tokens_per_day", 10), ("fair", "money_per_day", 1),
    }  # fmt: skip
    assert told.cut_off_s == 51.0 and all(one.left is None for one in told.leases)
    assert told.quotas_refused == (QuotaRefusedState("shop", "fair", "tokens_per_day", 3, 3.0),)


def test_a_gateway_of_several_tells_of_what_it_owns() -> None:
    report, _ = make_report()
    report.owners = Owned()
    told = tell(report, 0.0)
    assert (told.deployments, told.owns) == ((), ())
    report.owners = Owned("chat")
    told = tell(report, 1.0)
    assert ([one.name for one in told.deployments], told.owns) == (["chat"], ("chat",))


class Owned:
    """Who owns what, without other processes."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def elsewhere(self, deployment: str) -> str | None:
        return None if deployment in self.names else "another"


@pytest.mark.services
def test_what_can_not_be_read_is_left_out_and_silence_is_seen(valkey_server: str) -> None:
    client = valkey.connect(valkey_server)
    for number, (name, word) in enumerate({"new": b"{}", "old": wire.encode(GatewayState("old", 1.0))}.items()):
        client.zadd(keys.gateways(), {name: number})
        client.set(keys.gateway_state(name), word, px=int((gateway_state.KEPT_S - 8) * 1000))
    (heard,) = gateway_state.read(client)
    assert (heard.state.id, heard.is_fresh) == ("old", False) and 8 <= heard.age_s < 12


def make_report() -> tuple[StateReport, Gates]:
    gates = Gates(Meter(), 503)
    gates.by_name["chat"] = Gate(make_seats("http://127.0.0.1:1"), Policy(), 503, 256)
    return StateReport(gates, "g1"), gates


def tell(report: StateReport, clock: float) -> GatewayState:
    report.turn(100.0 + clock if clock else 100.0, clock)
    assert report._turned is not None
    return report._turned[0]


async def until_told(url: str, told: Callable[[GatewayState], object]) -> list[Heard]:
    client = valkey.connect(url)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        heard = gateway_state.read(client)
        if heard and told(heard[0].state):
            return heard
        await asyncio.sleep(0.05)
    raise AssertionError("nothing was told")
