"""The process that holds the port: what it does at its end, and with a process that hangs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.gateway.parent import Parent
from controlplane.gateway.server import SAME_WISH_S
from controlplane.gateway.silence import HUNG_AFTER_S, LOOK_S
from controlplane.lib import cpu_time
from tests.gateway.conftest import make_deployment, make_request, make_settings, make_snapshot
from tests.gateway.engine import DONE, LAST_CHUNK, Engine, Peer, Request, chunk, event, head
from tests.gateway.several import several
from tests.gateway.test_owners import CHAT
from tests.gateway.test_process import until_refused


async def test_told_to_end_it_closes_the_port_at_once_and_what_runs_goes_on(tmp_path: Path) -> None:
    go_on = asyncio.Event()

    async def patient(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await go_on.wait()
        await peer.send(chunk(event("two")), chunk(DONE), LAST_CHUNK)

    async with Engine(patient) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        lines = [await group.line_to(worker) for worker in await group.workers()]
        for line in lines:
            line.writer.write(make_request({**CHAT, "stream": True}))
            await line.reader.readuntil(b"one")
        group.process.send_signal(signal.SIGTERM)
        await until_refused(group.port)
        go_on.set()
        for line in lines:
            assert (await asyncio.wait_for(line.reader.read(), 10)).endswith(LAST_CHUNK)
        assert await asyncio.wait_for(group.process.wait(), 10) == 0


@contextmanager
def parent_of_one(folder: Path) -> Iterator[tuple[Parent, subprocess.Popen[bytes], Path]]:
    """A parent whose one process sleeps; yields the file of its figures too."""
    parent = Parent(make_settings(folder, processes=1))
    sleeper = "import time; print(flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", sleeper], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    while (cpu := cpu_time.read(process.pid)) is not None and cpu.wants_cpu:
        time.sleep(0.01)  # one that wants a CPU and gets none is spared
    place = parent._places[0]
    place.process, place.id = process, "one"
    figures = folder / "one.prom"
    figures.write_text("")
    try:
        yield parent, process, figures
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def look_for(parent: Parent, folder: Path, since: float, seconds: float) -> float:
    """Has it look as often as it does in so many seconds; returns when that is over."""
    until = since + seconds
    while since < until:
        since += LOOK_S
        parent._end_hung(since, folder)
    return since


def test_a_process_that_writes_no_figures_is_killed_in_the_end(tmp_path: Path) -> None:
    with parent_of_one(tmp_path) as (parent, process, figures):
        now = look_for(parent, tmp_path, parent._looked_at, HUNG_AFTER_S)
        assert process.poll() is None
        os.utime(figures, ns=(1, 1))
        now = look_for(parent, tmp_path, now, HUNG_AFTER_S)
        assert process.poll() is None, "it has written meanwhile"
        look_for(parent, tmp_path, now, HUNG_AFTER_S)
        assert process.wait(10) == -signal.SIGKILL


def test_while_the_parent_itself_did_not_run_nobody_else_may_have_either(tmp_path: Path) -> None:
    with parent_of_one(tmp_path) as (parent, process, _):
        now = look_for(parent, tmp_path, parent._looked_at, 2 * LOOK_S)
        now += 10 * HUNG_AFTER_S
        parent._end_hung(now, tmp_path)
        look_for(parent, tmp_path, now, 2 * LOOK_S)
        assert process.poll() is None


async def test_a_second_signal_ends_the_waiting_of_all_its_processes(tmp_path: Path) -> None:
    async def endless(_: Request, peer: Peer) -> None:
        await peer.send(head(kind="text/event-stream"), chunk(event("one")))
        await peer.wait_until_closed()

    async with Engine(endless) as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        lines = [await group.line_to(worker) for worker in await group.workers()]
        for line in lines:
            line.writer.write(make_request({**CHAT, "stream": True}))
            await line.reader.readuntil(b"one")
        group.process.send_signal(signal.SIGTERM)
        await until_refused(group.port)
        await asyncio.sleep(SAME_WISH_S + 0.2)
        group.process.send_signal(signal.SIGTERM)
        for line in lines:
            assert b"gateway_stopping" in await asyncio.wait_for(line.reader.read(), 10)
        assert await asyncio.wait_for(group.process.wait(), 10) == 0
