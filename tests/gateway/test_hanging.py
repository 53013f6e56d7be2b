"""A gateway process that hangs: it is given up, stays so until it answers, and what runs there is remembered."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from controlplane.gateway.members import BEAT_S
from tests.gateway.conftest import make_deployment, make_request, make_snapshot
from tests.gateway.engine import Engine, Peer, Request, answer, chunk, event, head
from tests.gateway.several import Several, Worker, figure, owner_first, several
from tests.gateway.test_members import until_queued, with_one_seat
from tests.gateway.test_owners import CHAT

MEMBERS = "headworks_gateway_members"


@contextmanager
def stopped(worker: Worker) -> Iterator[None]:
    worker.kill(signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            worker.kill(signal.SIGCONT)


async def until_alone(group: Several, worker: Worker) -> None:
    line = await group.inside(worker)
    async with asyncio.timeout(15):
        while figure((await line.ask(path="/metrics")).body, MEMBERS) != 1:
            await asyncio.sleep(0.05)


@pytest.mark.services
@pytest.mark.parametrize("has_valkey", [True, False])
async def test_what_a_hung_owner_does_not_answer_is_answered_by_the_next(
    tmp_path: Path, valkey_server: str, has_valkey: bool
) -> None:
    address = valkey_server if has_valkey else f"unix://{tmp_path}/nobody"
    async with Engine() as engine:
        snapshot = make_snapshot(make_deployment(engine.url))
        async with several(tmp_path, snapshot, REDIS_URL=address) as group:
            owning, other = owner_first(await group.workers(), "chat")
            lines = [await group.line_to(other) for _ in range(5)]
            with stopped(owning):
                answers = await asyncio.wait_for(asyncio.gather(*(line.ask(CHAT) for line in lines)), 15)
                assert [one.status for one in answers] == [200] * 5
            await group.workers()


async def test_one_that_hangs_on_is_asked_for_nothing_until_it_answers_again(tmp_path: Path) -> None:
    """It takes connections as long as its queue of them has room."""
    async with Engine() as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        owning, other = owner_first(await group.workers(), "chat")
        line, inside = await group.line_to(other), await group.inside(other)
        with stopped(owning):
            await until_alone(group, other)
            for _ in range(30):
                assert (await line.ask(CHAT)).status == 200
                assert figure((await inside.ask(path="/metrics")).body, MEMBERS) == 1
                await asyncio.sleep(0.05)
            metrics = (await line.ask(path="/metrics")).body
            assert figure(metrics, "headworks_gateway_processes") == 1
            assert figure(metrics, "headworks_gateway_hung_total") == 1
        await group.workers()
        assert figure(await group.metrics(), "headworks_gateway_processes") == 2
        assert (await line.ask(CHAT)).status == 200


async def test_what_a_hung_owner_runs_keeps_its_seat_until_that_owner_is_dead(tmp_path: Path) -> None:
    async def endless(request: Request, peer: Peer) -> None:
        if not request.json.get("stream"):
            await answer(request, peer)
            return
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await peer.wait_until_closed()

    async with (
        Engine(endless) as engine,
        several(tmp_path, make_snapshot(with_one_seat(engine.url, "chat"))) as group,
    ):
        owning, other = owner_first(await group.workers(), "chat")
        running, waiting = await group.line_to(owning), await group.line_to(other)
        running.writer.write(make_request({**CHAT, "stream": True}))
        await running.reader.readuntil(b"one")
        inside = await group.inside(other)
        await asyncio.sleep(5 * BEAT_S)  # so that the other has heard of it
        with stopped(owning):
            await until_alone(group, other)
            asked = asyncio.create_task(waiting.ask(CHAT))
            await until_queued(inside, ["chat"])
            await asyncio.sleep(0.5)
            assert len(engine.requests) == 1
            assert not asked.done()
            owning.kill()
            assert (await asyncio.wait_for(asked, 10)).status == 200
