"""What one gateway process has found of a replica's knee is where the next one goes on from."""

from __future__ import annotations

from dataclasses import replace

import pytest
import redis
import redis.asyncio

from controlplane.domain.admission.seats import SETTLED_S, Seats, Signals
from controlplane.domain.routing import RoutedReplica
from controlplane.gateway.gates import Gates
from controlplane.gateway.knees import Knees
from controlplane.gateway.metering import Meter
from controlplane.gateway.routes import compile_routes
from controlplane.gateway.seating import limits_of
from controlplane.lib import keys, valkey
from controlplane.lib.upstream import Pools
from tests.gateway.conftest import StartGateway, make_deployment, make_snapshot, until
from tests.gateway.test_admission import gate_of, make_seats

NOW = 5000.0


def make_gates() -> Gates:
    gates = Gates(Meter(), 503)
    snapshot = make_snapshot(make_seats("http://127.0.0.1:1", seats=256, tokens=900_000))
    gates.update(compile_routes(snapshot, Pools()))
    return gates


def seats_of(gates: Gates) -> Seats:
    return gates.by_name["chat"].seats["r0"]


def find_knee(seats: Seats, knee: int, now: float) -> None:
    """More than `knee` seats bring no more tokens."""
    for second in range(60):
        tokens = float(min(seats.now, knee) * 50)
        seats.adjust(Signals(seats.now, tokens_per_s=tokens), now + second)


@pytest.mark.services
async def test_the_next_process_goes_on_from_the_knee_of_the_one_before(valkey_server: str) -> None:
    first, second = make_gates(), make_gates()
    find_knee(seats_of(first), 96, NOW - 100)
    assert seats_of(first).proven == 96
    async with valkey.connect_async(valkey_server) as client:
        await Knees(first, lambda _: False).look(client, NOW)
        before = Knees(second, lambda _: True)
        await before.look(client, NOW)
        assert seats_of(second).knee is None, "the deployment is not its own yet"
        await Knees(second, lambda _: False).look(client, NOW)
    gate, seats = second.by_name["chat"], seats_of(second)
    seats.adjust(Signals(0), NOW)
    assert (seats.knee, seats.now) == (96, 96)
    gate.set_limits(NOW)
    assert seats.limits.ceiling == 96
    gate.set_limits(NOW + SETTLED_S)
    assert seats.limits.ceiling == 256, "a knee is questioned from time to time"


@pytest.mark.services
async def test_a_knee_is_written_when_it_is_found_and_only_then(valkey_server: str) -> None:
    gates = make_gates()
    knees = Knees(gates, lambda _: False)
    with redis.Redis.from_url(valkey_server) as told:
        async with valkey.connect_async(valkey_server) as client:
            await knees.look(client, NOW)
            assert told.get(keys.knee("r0")) is None, "nothing was measured"
            find_knee(seats_of(gates), 96, NOW)
            await knees.look(client, NOW + 60)
            assert told.get(keys.knee("r0")) == b"96" and told.ttl(keys.knee("r0")) > 3600
            told.delete(keys.knee("r0"))
            await knees.look(client, NOW + 61)
            assert told.get(keys.knee("r0")) is None


@pytest.mark.services
@pytest.mark.parametrize("odd", ["many", "0", "-3", "9" * 40, ""])
async def test_what_is_no_knee_is_not_believed(valkey_server: str, odd: str) -> None:
    gates = make_gates()
    with redis.Redis.from_url(valkey_server) as told:
        told.set(keys.knee("r0"), odd)
    async with valkey.connect_async(valkey_server) as client:
        await Knees(gates, lambda _: False).look(client, NOW)
    assert seats_of(gates).knee is None


@pytest.mark.services
async def test_a_gateway_that_begins_reads_the_knees(start_gateway: StartGateway, valkey_server: str) -> None:
    with redis.Redis.from_url(valkey_server) as told:
        told.set(keys.knee("r0"), 24)
    gateway = await start_gateway(make_snapshot(make_seats("http://127.0.0.1:1", seats=64)), valkey_server)
    await until(lambda: gate_of(gateway).seats["r0"].now == 24)
    assert gate_of(gateway).admission.places["r0"].seats == 24


def test_the_ceiling_is_the_knee_and_until_there_is_one_the_ledgers() -> None:
    replica = RoutedReplica("r0", "http://x", "k", "m", kv_capacity_tokens=46_000, max_num_seqs=256)
    deployment = make_deployment("http://x")
    assert limits_of(replica, deployment, 1000.0).ceiling == 46
    assert limits_of(replica, deployment, 1000.0, 60).ceiling == 60
    assert limits_of(replica, deployment, 1000.0, 8).floor == 8
    assert limits_of(replace(replica, max_num_seqs=32), deployment, 1000.0, 60).ceiling == 32
    unknown = replace(replica, kv_capacity_tokens=None, max_num_seqs=None)
    assert (limits_of(unknown, deployment, 0.0).ceiling, limits_of(unknown, deployment, 0.0, 90).ceiling) == (1024, 90)


def test_the_bounds_follow_what_requests_take_without_a_new_snapshot() -> None:
    gates = make_gates()
    gate = gates.by_name["chat"]
    assert seats_of(gates).limits.ceiling == 256
    gate.sizes.mean_tokens = 45_000.0
    gates.second({}, NOW)
    assert seats_of(gates).limits.ceiling == 20
