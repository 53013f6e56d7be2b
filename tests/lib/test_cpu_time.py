"""What the kernel counts of processes that run, sleep, are stopped, or are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from controlplane.lib import cpu_time

pytestmark = pytest.mark.skipif(cpu_time.read(os.getpid()) is None, reason="the kernel keeps no such statistics")


@contextmanager
def running(program: str) -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def times(pid: int) -> cpu_time.CpuTime:
    found = cpu_time.read(pid)
    assert found is not None
    return found


def test_a_busy_process_runs_or_waits_and_wants_to_go_on() -> None:
    with running("print(flush=True)\nwhile True: pass") as pid:
        before = times(pid)
        while times(pid).ran_s <= before.ran_s:
            time.sleep(0.01)
        assert times(pid).wants_cpu


def test_a_stopped_process_neither_runs_nor_waits() -> None:
    with running("print(flush=True)\nwhile True: pass") as pid:
        os.kill(pid, signal.SIGSTOP)
        while times(pid).wants_cpu:
            time.sleep(0.01)
        before = times(pid)
        time.sleep(0.1)
        assert times(pid) == before


def test_of_one_that_is_gone_nothing_is_known() -> None:
    with running("print(flush=True)") as pid:
        pass
    assert cpu_time.read(pid) is None
