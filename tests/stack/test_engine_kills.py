"""kill -9 of a part of a real engine, of its leader, and of the whole: told to clients, restarted, explained."""

from __future__ import annotations

import html
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.embedded import proc
from controlplane.embedded.engines import Engine
from tests.stack.stack_process import RunningStack
from tests.stack.streams import Plain, Stream, is_openai_error
from tests.stack.visitor import Visitor

pytestmark = pytest.mark.stack


def kill_leader(engine: Engine) -> None:
    os.kill(engine.process.pid, signal.SIGKILL)


def kill_core(engine: Engine) -> None:
    (core,) = [one for one in proc.group_members(engine.group) if "EngineCore" in proc.command_line(one.pid)]
    os.kill(core.pid, signal.SIGKILL)


def kill_group(engine: Engine) -> None:
    os.killpg(engine.group, signal.SIGKILL)


def last_failure(stack: RunningStack, replica_id: str) -> dict[str, Any]:
    status, page = stack.rest(f"/replicas/{replica_id}/transitions")
    assert status == 200, page
    rows = page["results"] if isinstance(page, dict) else page
    found: dict[str, Any] = [row for row in rows if row["to_state"] == "failed"][-1]
    return found


@pytest.mark.parametrize("kill", [kill_leader, kill_core, kill_group])
def test_a_killed_engine_is_told_restarted_and_explained(
    running_stack: RunningStack, kill: Callable[[Engine], None]
) -> None:
    replica, (engine,) = running_stack.replica(), running_stack.engines()
    members = proc.group_members(engine.group)
    stream, plain = Stream(running_stack), Plain(running_stack)
    assert running_stack.wait(stream.has_begun, 60), stream
    kill(engine)
    assert stream.ended(30), "the stream hangs after its engine died"
    assert is_openai_error(stream.error), stream
    assert plain.ended(30), "the request hangs after its engine died"
    assert plain.status >= 500
    assert is_openai_error(plain.answer), plain.answer
    assert "stack trace" not in f"{stream.error} {plain.answer}"

    def restarted() -> bool:
        now = running_stack.replica()
        return now["state"] == "ready" and now["pid"] not in (None, replica["pid"])

    assert running_stack.wait(restarted, 240), running_stack.replica()
    assert not any(map(proc.is_alive, members)), "a part of the killed engine lives"
    assert running_stack.replica()["attempt"] == replica["attempt"] + 1, "the back-off grows with each"
    failed = last_failure(running_stack, replica["id"])
    assert (failed["code"], failed["message"]) == ("killed", "The engine was killed.")
    assert failed["log_tail"]
    page = Visitor(running_stack).page(f"/replicas/{replica['id']}/")
    assert "The engine was killed." in page
    assert html.escape(failed["log_tail"][-1]) in page
    assert "Paris" in running_stack.ask()[1]
