"""The figures of several processes as one text."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from controlplane.gateway import summing
from tests.gateway.conftest import make_deployment, make_snapshot
from tests.gateway.engine import Engine
from tests.gateway.several import figure, owner_first, several
from tests.gateway.test_owners import ANSWERED, CHAT, assert_never_backwards


def make_text(requests: int, *, running: int = 0, version: str = "7", up: int = 1) -> bytes:
    return f"""# HELP headworks_gateway_requests_total Answers.
# TYPE headworks_gateway_requests_total counter
headworks_gateway_requests_total{{deployment="chat",status="200"}} {requests}
# HELP headworks_gateway_in_flight Running.
# TYPE headworks_gateway_in_flight gauge
headworks_gateway_in_flight{{replica="r0"}} {running}
# HELP headworks_gateway_e2e_seconds Time.
# TYPE headworks_gateway_e2e_seconds histogram
headworks_gateway_e2e_seconds_bucket{{le="1"}} {requests}
headworks_gateway_e2e_seconds_bucket{{le="+Inf"}} {requests}
headworks_gateway_e2e_seconds_sum {requests / 4}
headworks_gateway_e2e_seconds_count {requests}
# HELP headworks_gateway_snapshot_version Version.
# TYPE headworks_gateway_snapshot_version gauge
headworks_gateway_snapshot_version {version}
# HELP headworks_gateway_valkey_up Up.
# TYPE headworks_gateway_valkey_up gauge
headworks_gateway_valkey_up {up}
""".encode()


def test_counters_histograms_and_gauges_are_added_up_and_some_gauges_are_not() -> None:
    text = summing.summed([make_text(1, running=2, version="NaN"), make_text(4, running=3, up=0)])
    assert figure(text, 'headworks_gateway_requests_total{deployment="chat",status="200"}') == 5
    assert figure(text, 'headworks_gateway_in_flight{replica="r0"}') == 5
    assert figure(text, 'headworks_gateway_e2e_seconds_bucket{le="+Inf"}') == 5
    assert figure(text, "headworks_gateway_e2e_seconds_sum") == 1.25
    assert figure(text, "headworks_gateway_snapshot_version") == 7
    assert figure(text, "headworks_gateway_valkey_up") == 0
    assert text.count(b"# TYPE headworks_gateway_requests_total counter\n") == 1


def test_what_a_dead_process_counted_stays_and_what_it_ran_does_not() -> None:
    text = summing.summed([make_text(1, running=2)], [make_text(4, running=3)])
    assert figure(text, 'headworks_gateway_requests_total{deployment="chat",status="200"}') == 5
    assert figure(text, 'headworks_gateway_in_flight{replica="r0"}') == 2


def test_many_files_of_dead_processes_become_one_with_the_same_sum(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"dead{number}.prom").write_bytes(make_text(number))
        summing.fold(tmp_path, ["living"])
    (tmp_path / "living.prom").write_bytes(make_text(1000))
    summing.fold(tmp_path, ["living"])
    assert len(list(tmp_path.glob("*.prom"))) < 10
    dead = [path.read_bytes() for path in tmp_path.glob("*.prom") if path.stem != "living"]
    text = summing.summed([], dead)
    assert figure(text, 'headworks_gateway_requests_total{deployment="chat",status="200"}') == sum(range(20))
    for ending, value in (('bucket{le="1"}', 190), ('bucket{le="+Inf"}', 190), ("count", 190), ("sum", 47.5)):
        assert figure(text, f"headworks_gateway_e2e_seconds_{ending}") == value


@pytest.mark.parametrize("victim", ["owner", "other"])
async def test_the_sum_is_the_same_whichever_process_answers_and_survives_a_kill(tmp_path: Path, victim: str) -> None:
    async with Engine() as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        workers = owner_first(await group.workers(), "chat")
        lines = [await group.line_to(worker) for worker in workers]
        before = b""
        for count in range(1, 9):
            await lines[count % 2].ask(CHAT)
            for line in lines:
                text = (await line.ask(path="/metrics")).body
                assert figure(text, ANSWERED) == count
                assert_never_backwards(before, text)
                before = text
        killed, left = workers if victim == "owner" else workers[::-1]
        killed.kill()
        line = await group.line_to(left)
        text = (await line.ask(path="/metrics")).body
        assert_never_backwards(before, text)
        assert figure(text, ANSWERED) == 8
        await line.ask(CHAT)
        for worker in await group.workers():
            text = (await (await group.line_to(worker)).ask(path="/metrics")).body
            assert figure(text, ANSWERED) == 9
            assert_never_backwards(before, text)


async def test_figures_are_shown_although_a_process_hangs(tmp_path: Path) -> None:
    async with Engine() as engine, several(tmp_path, make_snapshot(make_deployment(engine.url))) as group:
        owning, other = owner_first(await group.workers(), "chat")
        await (await group.line_to(owning)).ask(CHAT)
        line = await group.line_to(other)
        before = (await line.ask(path="/metrics")).body
        owning.kill(signal.SIGSTOP)
        try:
            text = (await asyncio.wait_for(line.ask(path="/metrics"), 5)).body
            assert figure(text, ANSWERED) == 1
            assert_never_backwards(before, text)
        finally:
            owning.kill(signal.SIGCONT)
