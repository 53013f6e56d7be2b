"""`make up` beside another one, on ports that are taken, and after its launcher was killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from controlplane.embedded import proc
from tests.stack.stack_process import RunningStack

pytestmark = pytest.mark.stack


def test_a_second_make_up_is_calm(running_stack: RunningStack) -> None:
    before = running_stack.launcher()
    for arguments in (("up",), ("up", "DETACH=1")):
        done = running_stack.make(*arguments)
        assert done.returncode == 0
        assert "already running" in done.stdout
    assert running_stack.launcher() == before


@pytest.mark.parametrize("variable", ["HEADWORKS_CONSOLE_PORT", "HEADWORKS_GATEWAY_PORT"])
def test_a_port_that_is_taken_is_one_sentence_and_starts_nothing(
    running_stack: RunningStack, tmp_path: Path, variable: str
) -> None:
    other = RunningStack(tmp_path / "other", more={variable: str(running_stack.console_port)})
    done = other.make("up", "DETACH=1")
    assert done.returncode != 0
    assert f"Port {running_stack.console_port}" in done.stdout
    assert "is in use by process" in done.stdout
    assert f"choose another port with {variable}=" in done.stdout
    assert "Traceback" not in done.stdout
    assert other.leftovers() == []


def test_engines_outlive_a_killed_launcher_and_are_adopted(running_stack: RunningStack) -> None:
    before, everything = running_stack.engines(), running_stack.everything()
    launcher = running_stack.launcher()
    assert before
    assert launcher is not None
    engine_processes = {member for engine in before for member in proc.group_members(engine.group)}
    os.kill(launcher.pid, signal.SIGKILL)
    assert running_stack.wait(lambda: not any(map(proc.is_alive, everything - engine_processes)))
    assert all(map(proc.is_alive, engine_processes))
    running_stack.up()
    assert running_stack.engines() == before
    assert "Paris" in running_stack.ask()[1]
