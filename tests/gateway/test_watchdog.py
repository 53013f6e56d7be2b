"""A single gateway process whose event loop hangs ends itself, so that whoever started it starts it again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from controlplane.gateway import silence
from controlplane.gateway.silence import HUNG_AFTER_S, STARVED_AFTER_S, Silence
from controlplane.gateway.watchdog import Watchdog
from controlplane.lib.cpu_time import CpuTime
from tests.gateway.conftest import make_snapshot, write_snapshot
from tests.gateway.test_failures import free_port

# hangs in the turn that is made each second, as soon as the file is there
HANGS = textwrap.dedent("""
    import sys, time
    from pathlib import Path
    from controlplane.gateway import main, process, silence

    silence.LOOK_S, silence.HUNG_AFTER_S = 0.2, 3.0
    turn = process.Process._turn

    def hangs(self):
        turn(self)
        while Path(sys.argv[1]).exists():
            {how}

    process.Process._turn = hangs
    sys.exit(main.main([]))
""")


def make_cpu(ran_s: float = 0.0, waited_s: float = 0.0, *, wants_cpu: bool = False) -> CpuTime:
    return CpuTime(ran_s, waited_s, wants_cpu)


@pytest.mark.parametrize("how", ["time.sleep(0.01)", "pass"], ids=["sleeping", "spinning"])
def test_a_loop_that_hangs_ends_the_process_and_tells_where(tmp_path: Path, how: str) -> None:
    write_snapshot(tmp_path, make_snapshot())
    there = tmp_path / "hang"
    environment = {
        "HEADWORKS_HOME": str(tmp_path),
        "HEADWORKS_GATEWAY_PORT": str(free_port()),
        "REDIS_URL": f"unix://{tmp_path}/no",
    }
    command = [sys.executable, "-c", HANGS.format(how=how), str(there)]
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(timeout=5)  # as long as it turns it lives
        there.touch()
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL
    assert "the event loop has hung" in said and "in hangs" in said


async def test_a_loop_that_turns_or_that_is_no_longer_watched_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []
    monkeypatch.setattr(silence, "LOOK_S", 0.01)
    monkeypatch.setattr(silence, "HUNG_AFTER_S", 0.1)
    monkeypatch.setattr(os, "kill", lambda pid, _: ended.append(pid))
    dog = Watchdog()
    dog.start()
    for _ in range(50):
        dog.turn()
        await asyncio.sleep(0.01)
    dog.stop()
    dog._thread.join()
    time.sleep(0.2)
    assert ended == []


@pytest.mark.parametrize(
    ("silent_s", "then", "now", "hangs"),
    [
        (HUNG_AFTER_S + 1, make_cpu(), make_cpu(), True),  # it slept, and nothing kept it from waking
        (HUNG_AFTER_S - 1, make_cpu(), make_cpu(), False),
        (HUNG_AFTER_S + 1, make_cpu(), make_cpu(HUNG_AFTER_S + 1, wants_cpu=True), True),  # it spins
        (HUNG_AFTER_S + 1, make_cpu(), make_cpu(waited_s=5.0), False),  # a busy machine
        (HUNG_AFTER_S + 1, make_cpu(), make_cpu(wants_cpu=True), False),
        (STARVED_AFTER_S + 1, make_cpu(), make_cpu(wants_cpu=True), True),
        (HUNG_AFTER_S + 1, None, None, False),  # a kernel that does not say
        (STARVED_AFTER_S + 1, None, None, True),
    ],
)
def test_a_silent_process_hangs_only_if_it_could_have_spoken(
    silent_s: float, then: CpuTime | None, now: CpuTime | None, hangs: bool
) -> None:
    assert Silence(1, 100.0, then).is_too_long(100.0 + silent_s, now) is hangs
