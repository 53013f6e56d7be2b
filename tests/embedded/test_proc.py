from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace

from controlplane.embedded import proc


def start_sleeper(**environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "600"], env={**os.environ, **environ}, start_new_session=True)


def test_a_process_is_known_by_pid_and_start() -> None:
    me = proc.identify(os.getpid())
    assert me is not None
    assert proc.is_alive(me)
    assert not proc.is_alive(replace(me, start_ticks=me.start_ticks + 1))


def test_a_zombie_is_dead() -> None:
    process = start_sleeper()
    identity = proc.identify(process.pid)
    assert identity is not None
    process.kill()
    assert proc.wait_until(lambda: not proc.is_alive(identity), 10)  # not waited for yet
    process.wait()


def test_no_signal_reaches_a_later_process_with_the_same_pid() -> None:
    process = start_sleeper()
    identity = proc.identify(process.pid)
    assert identity is not None
    proc.send(replace(identity, start_ticks=identity.start_ticks - 5), signal.SIGKILL)
    assert process.poll() is None
    assert proc.end([identity], 10) == []
    process.wait()


def test_a_process_that_ignores_sigterm_is_killed() -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    identity = proc.identify(process.pid)
    assert identity is not None
    assert proc.end([identity], 0.2) == []
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()


def test_processes_are_found_by_a_variable() -> None:
    process = start_sleeper(HEADWORKS_TEST_MARK="/some/where")
    try:
        found = proc.wait_until(lambda: bool(proc.with_variable("HEADWORKS_TEST_MARK", "/some/where")), 10)
        assert found
        assert [one.pid for one in proc.with_variable("HEADWORKS_TEST_MARK", "/some/where")] == [process.pid]
        assert proc.with_variable("HEADWORKS_TEST_MARK", "/some") == []
    finally:
        process.kill()
        process.wait()


def test_the_members_of_a_group_are_found() -> None:
    process = start_sleeper()
    try:
        assert [one.pid for one in proc.group_members(process.pid)] == [process.pid]
    finally:
        process.kill()
        process.wait()
