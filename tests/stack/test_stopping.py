"""`make down`, Ctrl-C, and what they leave: nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.stack.stack_process import RunningStack
from tests.stack.streams import Stream, is_openai_error

pytestmark = pytest.mark.stack


def test_down_lets_short_requests_finish_and_leaves_nothing(running_stack: RunningStack) -> None:
    short, long = Stream(running_stack, 150), Stream(running_stack, 1900)
    assert running_stack.wait(lambda: short.has_begun() and long.has_begun(), 60)
    before = running_stack.everything()
    running_stack.down()
    assert running_stack.leftovers(before) == []
    assert not running_stack.layout.sockets.exists()
    assert short.ended(5) and long.ended(5)
    assert short.is_whole() or is_openai_error(short.error), short
    assert is_openai_error(long.error), long
    assert running_stack.make("down").stdout.strip() == "Headworks is not running here."


def started(stack: RunningStack, output: Path) -> bool:
    """Returns whether an engine is being started."""
    return bool(stack.engines()) and "Waiting for" in output.read_text(encoding="utf-8")


def test_two_ctrl_c_while_it_starts_leave_nothing(running_stack: RunningStack) -> None:
    begun, output = running_stack.begin("up")
    assert running_stack.wait(lambda: started(running_stack, output), 120), output.read_text()
    before = running_stack.everything()
    for _ in range(2):
        os.killpg(begun.pid, signal.SIGINT)
    begun.wait(120)
    assert running_stack.leftovers(before) == []
    assert "Traceback" not in output.read_text(encoding="utf-8")


def test_down_ends_what_a_killed_launcher_has_left(running_stack: RunningStack) -> None:
    begun, output = running_stack.begin("up")
    assert running_stack.wait(lambda: started(running_stack, output), 120), output.read_text()
    before, launcher = running_stack.everything(), running_stack.launcher()
    assert launcher is not None
    os.kill(launcher.pid, signal.SIGKILL)
    begun.wait(20)
    assert running_stack.leftovers(before), "the engine goes on"
    running_stack.down()
    assert running_stack.leftovers(before) == []
