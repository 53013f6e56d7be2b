"""What one gateway process says to another: requests passed on, moved, diverted; two of them in one event loop."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from controlplane.domain.degradation import Ladder, Step
from controlplane.domain.ownership import owner
from controlplane.domain.routing import RoutedDeployment
from controlplane.gateway.settings import Worker
from tests.gateway.conftest import Running, StartGateway, make_deployment, make_request, make_snapshot, until
from tests.gateway.engine import DONE, Engine, Peer, Request, chunk, event, head, make_no
from tests.gateway.several import Line, owner_first, several
from tests.gateway.test_ladders import put_on
from tests.gateway.test_owners import CHAT

Pair = Callable[..., Awaitable[list[Running]]]


@pytest.fixture
async def start_pair(start_gateway: StartGateway, tmp_path: Path) -> AsyncIterator[Pair]:
    """`await start_pair(*deployments)`: two processes that know each other, in the order of their ids."""

    async def start(*deployments: RoutedDeployment, **settings: object) -> list[Running]:
        folder = tmp_path / "w"
        folder.mkdir()
        pair = []
        for slot, own_id in enumerate(("a", "b")):
            worker = Worker(own_id, slot, -1, folder)
            snapshot = make_snapshot(*deployments)
            pair.append(await start_gateway(snapshot, worker=worker, processes=2, **settings))
        await until(lambda: all(ids_of(one) == ("a", "b") for one in pair))
        return pair

    yield start


def ids_of(one: Running) -> tuple[str, ...]:
    members = one.process.owners.members
    assert members is not None
    return members.ids


def name_of(wanted: str, prefix: str) -> str:
    """Returns a deployment's name that the process `wanted` owns."""
    return next(name for number in range(99) if owner(name := f"{prefix}{number}", ("a", "b")) == wanted)


async def ask_inside(one: Running, body: dict, **headers: str) -> tuple[int, dict[str, str]]:
    members = one.process.owners.members
    assert members is not None
    line = Line(*await asyncio.open_unix_connection(members.me.path))
    answered = await line.ask(body, **headers)
    line.close()
    return answered.status, answered.headers


async def test_a_process_that_is_wrongly_asked_says_so_and_serves_when_it_is_asked_again(start_pair: Pair) -> None:
    name = name_of("b", "chat")
    async with Engine() as engine:
        first, _ = await start_pair(make_deployment(engine.url, name=name))
        status, headers = await ask_inside(first, {**CHAT, "model": name}, x_headworks_passed="5")
        assert (status, headers["x-headworks-moved"]) == (421, "1")
        assert not engine.requests
        status, _ = await ask_inside(
            first, {**CHAT, "model": name}, x_headworks_passed="5", x_headworks_passed_again="1"
        )
        assert status == 200


async def test_a_process_whose_view_is_old_finds_the_owner_nevertheless(start_pair: Pair) -> None:
    name = name_of("a", "chat")
    async with Engine() as engine:
        first, second = await start_pair(make_deployment(engine.url, name=name))
        wrong = first.process.owners.members
        right = second.process.owners.members
        assert wrong is not None
        assert right is not None
        # the owner believes that the other one owns it, and the other one believes the opposite
        wrong.ids = ("b",)
        first.process.owners.changed()
        answered = await second.ask({**CHAT, "model": name, "stream": True})
        assert answered.body.endswith(DONE)


async def test_a_new_process_hears_of_the_others_before_it_takes_requests(
    start_gateway: StartGateway, tmp_path: Path
) -> None:
    """Else it would take itself for the only one, and sell seats that are taken."""
    first = await start_gateway(make_snapshot(), worker=Worker("a", 0, -1, tmp_path), processes=2)
    answer = first.process.app._answer

    async def late(*args: Any, **named: Any) -> None:
        await asyncio.sleep(0.4)
        await answer(*args, **named)

    first.process.app._answer = late  # type: ignore[method-assign]
    second = await start_gateway(make_snapshot(), worker=Worker("b", 1, -1, tmp_path), processes=2)
    assert ids_of(second) == ("a",)


async def test_how_long_a_request_has_waited_goes_with_it(start_pair: Pair) -> None:
    name = name_of("a", "chat")
    async with Engine() as engine:
        first, second = await start_pair(make_deployment(engine.url, name=name))
        assert (await second.ask({**CHAT, "model": name, "stream": True})).status == 200
        await ask_inside(first, {**CHAT, "model": name, "stream": True}, x_headworks_passed="7000")
        first.process._turn()
        ttft = first.process.sampler.lifetime[name].seconds["ttft"]
        assert 7 < ttft < 8


async def test_the_ladder_sends_requests_to_a_deployment_of_another_process(start_pair: Pair) -> None:
    """Whichever process is asked, and although the key's request is passed on twice then."""
    big, small = name_of("a", "big"), name_of("b", "small")
    async with Engine() as large, Engine() as little:
        ladder = Ladder((Step("cap_tokens", max_tokens=512), Step("divert", deployment=small)))
        diverting = dataclasses.replace(make_deployment(large.url, name=big), ladder=ladder)
        other = make_deployment(little.url, name=small, model="little-model")
        other = dataclasses.replace(other, replicas=(dataclasses.replace(other.replicas[0], id="other"),))
        pair = await start_pair(diverting, other)
        put_on(pair[0].process.gates.by_name[big], 2)
        for number, one in enumerate(pair, start=1):
            answered = await one.ask({**CHAT, "model": big, "stream": True})
            assert answered.status == 200
            assert answered.headers["x-headworks-degraded"] == f"model={small}, max_tokens=512"
            assert len(little.requests) == number
        assert not large.requests
        assert (little.requests[0].json["model"], little.requests[0].json["max_tokens"]) == ("little-model", 512)
        for one in pair:
            await one.until_idle()
        assert pair[0].process.gates.by_name[small].admission.admitted["standard"] == 0


async def test_who_is_turned_away_by_another_process_is_answered_by_the_model_it_asked_for(start_pair: Pair) -> None:
    big, small = name_of("a", "big"), name_of("b", "small")

    async with Engine() as large, Engine(make_no("400 Bad Request")) as little:
        ladder = Ladder((Step("cap_tokens", max_tokens=512), Step("divert", deployment=small)))
        diverting = dataclasses.replace(make_deployment(large.url, name=big), ladder=ladder)
        other = make_deployment(little.url, name=small, model="little-model")
        other = dataclasses.replace(other, replicas=(dataclasses.replace(other.replicas[0], id="other"),))
        pair = await start_pair(diverting, other)
        put_on(pair[0].process.gates.by_name[big], 2)
        for number, one in enumerate(pair, start=1):
            answered = await one.ask({**CHAT, "model": big, "stream": True})
            assert (answered.status, answered.headers["x-headworks-degraded"]) == (200, "max_tokens=512")
            assert (len(large.requests), len(little.requests)) == (number, number)
        for one in pair:
            await one.until_idle()
        assert pair[1].process.gates.by_name[big].admission.admitted["standard"] == 0


async def test_nothing_is_lost_when_one_process_is_told_to_end(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def patient(request: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await go_on.wait()
        await peer.send(chunk(DONE), b"0\r\n\r\n")

    async with Engine(patient) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        owning, other = owner_first(await group.workers(), "chat")
        lines = [await group.line_to(other) for _ in range(4)]
        for line in lines:
            line.writer.write(make_request({**CHAT, "stream": True}))
            await line.reader.readuntil(b"one")
        owning.kill(signal.SIGTERM)
        await until(lambda: not owning.socket.exists())
        fresh = await group.line_to(other)
        fresh.writer.write(make_request({**CHAT, "stream": True}))  # the other one decides by now
        await fresh.reader.readuntil(b"one")
        go_on.set()
        for line in [*lines, fresh]:
            rest = await asyncio.wait_for(line.reader.read(), 10)
            assert b"error" not in rest
            assert rest.endswith(b"0\r\n\r\n")
        await until(lambda: owning.pid not in group.pids())
        assert len(await group.workers()) == 2
