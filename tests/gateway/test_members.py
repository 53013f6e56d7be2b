"""Who is there, told by Valkey and by sockets: several machines, a Valkey that is gone, deployments that move."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from controlplane.domain.routing import RoutedDeployment, RoutingSnapshot
from controlplane.embedded import valkey as embedded_valkey
from controlplane.lib import gateway_members, valkey
from controlplane.lib.gateway_members import Member
from tests.gateway.conftest import make_deployment, make_request, make_snapshot, until
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, answer, chunk, event, head
from tests.gateway.several import Line, figure, owner_first, several
from tests.gateway.test_owners import CHAT
from tests.gateway.test_process import process_of

pytestmark = pytest.mark.services


async def test_a_member_that_says_nothing_is_forgotten_and_one_that_slept_is_told_so(valkey_server: str) -> None:
    client = valkey.connect_async(valkey_server)
    first, second = Member("a", group="g"), Member("b", held={"r0": (1, 20)})
    assert (await gateway_members.beat(client, first)).members == []
    beaten = await gateway_members.beat(client, second)
    assert beaten.members == [first]
    assert not beaten.on_time
    beaten = await gateway_members.beat(client, first)
    assert beaten.members == [second]
    assert beaten.on_time
    await asyncio.sleep(gateway_members.TTL_MS / 1000 + 0.1)
    beaten = await gateway_members.beat(client, first)
    assert beaten.members == []
    assert not beaten.on_time
    await gateway_members.leave(client, "a")
    assert (await gateway_members.beat(client, second)).members == []
    await client.aclose()


@asynccontextmanager
async def machines(
    folder: Path, snapshot: RoutingSnapshot, redis_url: str, count: int = 2
) -> AsyncIterator[list[tuple[asyncio.subprocess.Process, int]]]:
    """Gateways that share nothing but Valkey and the network."""
    environment = {"REDIS_URL": redis_url, "HEADWORKS_GATEWAY_ADDRESS": "127.0.0.1"}
    if count == 0:
        yield []
        return
    async with (
        process_of(folder / f"machine{count}", snapshot, **environment) as one,
        machines(folder, snapshot, redis_url, count - 1) as others,
    ):
        yield [one, *others]


async def line_to(port: int) -> Line:
    return Line(*await asyncio.open_connection("127.0.0.1", port))


async def members_seen(port: int) -> float:
    line = await line_to(port)
    try:
        return figure((await line.ask(path="/metrics")).body, "headworks_gateway_members")
    finally:
        line.close()


async def until_members(ports: list[int], count: int) -> None:
    async with asyncio.timeout(10):
        while [await members_seen(port) for port in ports] != [count] * len(ports):
            await asyncio.sleep(0.05)


async def admitted(port: int) -> float:
    line = await line_to(port)
    text = (await line.ask(path="/metrics")).body
    line.close()
    return figure(text, 'headworks_gateway_admitted_total{deployment="chat",model="chat",tier="standard"}')


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_gateways_of_several_machines_have_one_owner_and_take_over_from_one_that_dies_or_hangs(
    tmp_path: Path, valkey_server: str, how: signal.Signals
) -> None:
    async with Engine() as engine, machines(tmp_path, make_snapshot(make_deployment(engine.url)), valkey_server) as two:
        ports = [port for _, port in two]
        await until_members(ports, 2)
        for port in ports:
            line = await line_to(port)
            assert (await line.ask({**CHAT, "stream": True})).body.endswith(DONE)
            line.close()
        decided = [await admitted(port) for port in ports]
        assert sorted(decided) == [0, 2]
        owning = decided.index(2)
        left = ports[1 - owning]
        two[owning][0].send_signal(how)
        line = await line_to(left)
        answered = await asyncio.wait_for(line.ask(CHAT), 20)
        line.close()
        assert answered.status == 200
        await until_members([left], 1)
        if how is signal.SIGSTOP:
            two[owning][0].send_signal(signal.SIGCONT)
            await until_members(ports, 2)


async def test_the_address_for_other_machines_asks_for_the_token(tmp_path: Path, valkey_server: str) -> None:
    async with machines(tmp_path, make_snapshot(), valkey_server, 1) as one:
        await until_members([one[0][1]], 1)
        client = valkey.connect_async(valkey_server)
        (member,) = (await gateway_members.beat(client, Member("test", "leaving"))).members
        await client.aclose()
        assert member.address is not None
        for token, status in (("", 403), ("wrong", 403), (member.token, 200)):
            line = Line(*await asyncio.open_connection(*member.address))
            assert (await line.ask(path="/healthz", x_headworks_peer=token)).status == status
            line.close()


@contextmanager
def own_valkey(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A Valkey that may be killed."""
    path = folder / "v.sock"
    process = subprocess.Popen(embedded_valkey.server_command(folder, path, durable=False), stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            time.sleep(0.02)
        yield embedded_valkey.url(path), process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_without_valkey_the_processes_go_on_and_take_over(tmp_path: Path, how: signal.Signals) -> None:
    with own_valkey(tmp_path) as (url, server):
        async with (
            Engine() as engine,
            several(tmp_path, make_snapshot(make_deployment(engine.url)), REDIS_URL=url) as group,
        ):
            owning, other = owner_first(await group.workers(), "chat")
            server.send_signal(how)
            for worker in (owning, other):
                assert (await (await group.line_to(worker)).ask(CHAT)).status == 200
            line = await group.line_to(other)
            await asyncio.sleep(2.5)  # longer than anybody is remembered in Valkey
            assert figure((await line.ask(path="/metrics")).body, "headworks_gateway_members") == 2
            owning.kill()
            assert (await asyncio.wait_for(line.ask(CHAT), 20)).status == 200
            workers = await group.workers()  # the new one is found by its socket
            assert other.id in {worker.id for worker in workers}
            for worker in workers:
                assert (await (await group.line_to(worker)).ask(CHAT)).status == 200
            server.send_signal(signal.SIGCONT)


async def test_a_deployment_that_moves_is_never_oversold_and_who_waited_goes_on_waiting(
    tmp_path: Path, valkey_server: str
) -> None:
    """One seat each, taken by a stream that runs on at the old owner while the new one decides."""
    go_on = asyncio.Event()
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()

    async def one_at_a_time(request: Request, peer: Peer) -> None:
        name = request.json["model"]
        running[name] += 1
        most[name] = max(most[name], running[name])
        if request.json.get("stream"):
            await peer.send(head(kind="text/event-stream"), chunk(event("one")))
            await go_on.wait()
            running[name] -= 1
            await peer.send(chunk(DONE), LAST_CHUNK)
        else:
            await asyncio.sleep(0.05)
            running[name] -= 1
            await answer(request, peer)

    names = [f"chat{number}" for number in range(10)]
    async with Engine(one_at_a_time) as engine:
        snapshot = make_snapshot(*(with_one_seat(engine.url, name) for name in names))
        async with several(tmp_path, snapshot, REDIS_URL=valkey_server) as group:
            first, second = await group.workers()
            group.process.send_signal(signal.SIGSTOP)  # nothing is started again before all is prepared
            second.kill()
            streams, waiting = [], []
            for name in names:
                line = await group.line_to(first)
                line.writer.write(make_request({**CHAT, "model": name, "stream": True}))
                await line.reader.readuntil(b"one")
                streams.append(line)
                waiting.append(asyncio.create_task((await group.line_to(first)).ask({**CHAT, "model": name})))
            await until_queued(await group.inside(first), names)
            group.process.send_signal(signal.SIGCONT)
            workers = await group.workers()
            (new,) = [worker for worker in workers if worker.id != first.id]
            moved = [name for name in names if owner_first(workers, name)[0] is new]
            assert moved
            await until_queued(await group.inside(new), moved)
            assert not any(task.done() for task in waiting)
            go_on.set()
            answered = await asyncio.wait_for(asyncio.gather(*waiting), 15)
            assert [one.status for one in answered] == [200] * len(names)
            assert set(most.values()) == {1}


def with_one_seat(url: str, name: str) -> RoutedDeployment:
    deployment = make_deployment(url, name=name, model=name)
    replica = dataclasses.replace(deployment.replicas[0], id=f"r-{name}", max_num_seqs=1, kv_capacity_tokens=100_000)
    return dataclasses.replace(deployment, replicas=(replica,))


async def until_queued(line: Line, names: list[str]) -> None:
    async with asyncio.timeout(10):
        while True:
            text = (await line.ask(path="/metrics")).body
            series = 'headworks_gateway_queue{{deployment="{0}",model="{0}",tier="standard"}}'
            if all(figure(text, series.format(name)) == 1 for name in names):
                return
            await asyncio.sleep(0.05)


async def test_a_killed_parent_takes_its_processes_along_and_a_new_one_finds_the_port_free(tmp_path: Path) -> None:
    async with Engine() as engine:
        snapshot = make_snapshot(make_deployment(engine.url))
        async with several(tmp_path, snapshot) as group:
            workers = await group.workers()
            group.process.kill()
            await group.process.wait()
            await until(lambda: not any(is_alive(worker.pid) for worker in workers))
            port = group.port
        async with several(tmp_path, snapshot, HEADWORKS_GATEWAY_PORT=str(port)) as group:
            await group.workers()
            assert not workers[0].socket.parent.exists()  # what the killed one left is tidied up


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
