"""Everything is killed at once, and files are left as a power failure leaves them."""

from __future__ import annotations

import os
import signal

import pytest

from controlplane.embedded import proc
from tests.stack.stack_process import RunningStack
from tests.stack.streams import Stream

pytestmark = pytest.mark.stack


def damage_files(stack: RunningStack) -> None:
    """Ends Valkey's newest file in the middle of a command and in zeros, and names this very process in lock files."""
    newest = sorted((stack.home / "valkey" / "appendonlydir").glob("*.incr.aof"))[-1]
    with newest.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$1\r\na" + bytes(4096))
    lock = stack.home / "postgres" / "postmaster.pid"
    _pid, *rest = lock.read_text().splitlines()
    lock.write_text("\n".join([str(os.getpid()), *rest]) + "\n")


def test_make_up_after_a_power_failure_brings_everything_back(running_stack: RunningStack) -> None:
    first, deployments = running_stack.first_run, running_stack.rest("/deployments")[1]["results"]
    stream = Stream(running_stack)
    assert running_stack.wait(stream.has_begun, 60), stream
    everything = running_stack.everything()
    for process in everything:
        proc.send(process, signal.SIGKILL)
    assert running_stack.wait(lambda: not any(map(proc.is_alive, everything)), 20)
    assert stream.ended(20), "the client was not told"
    damage_files(running_stack)
    running_stack.up()
    assert running_stack.first_run == first
    assert [one["name"] for one in running_stack.rest("/deployments")[1]["results"]] == [
        one["name"] for one in deployments
    ]
    assert "Paris" in running_stack.ask()[1]
    assert len(running_stack.engines()) == 1
    assert running_stack.is_well()
