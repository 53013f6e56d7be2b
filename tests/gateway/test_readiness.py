"""`/readyz` of several processes: the same from each, and what is wrong with any of them."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from pathlib import Path

from tests.gateway.conftest import make_deployment, make_snapshot
from tests.gateway.several import owner_first, several
from tests.gateway.test_hanging import stopped, until_alone
from tests.gateway.test_passing import Pair, start_pair

__all__ = ["start_pair"]


async def test_a_process_that_can_not_serve_makes_the_port_unready_whichever_is_asked(start_pair: Pair) -> None:
    first, second = await start_pair(make_deployment("http://127.0.0.1:1"))
    assert [(await one.get("/readyz")).body for one in (first, second)] == [b"ready\n"] * 2
    second.process.snapshots.routes = None
    for one in (first, second):
        answer = await one.get("/readyz")
        assert (answer.status, answer.code) == (503, "no_snapshot")
        assert "1 of 2 gateway processes" in answer.json["error"]["message"]


async def test_what_is_wrong_in_any_process_is_told_once_by_each(start_pair: Pair) -> None:
    first, second = await start_pair(make_deployment("http://127.0.0.1:1"))
    for one, notes in ((first, ("a",)), (second, ("a", "b"))):
        one.process.app._readiness = replace(one.process.app._readiness, notes=functools.partial(tuple, notes))
    for one in (first, second):
        answer = await one.get("/readyz")
        assert answer.status == 200
        assert answer.body == b"ready\na\nb\n"


async def test_a_hung_process_is_told_of_and_the_others_take_requests(tmp_path: Path) -> None:
    async with several(tmp_path, make_snapshot()) as group:
        owning, other = owner_first(await group.workers(), "chat")
        line = await group.line_to(other)
        assert (await line.ask(path="/readyz")).body == b"ready\n"
        with stopped(owning):
            await until_alone(group, other)
            answer = await asyncio.wait_for(line.ask(path="/readyz"), 5)
            assert answer.status == 200
            assert b"processes: 1 of 2 answer" in answer.body
