"""One of two gateway processes ends under load: killed, or told to; nothing that it did not work on notices."""

from __future__ import annotations

import os
import signal
import urllib.request

import pytest

from benchmarks.events import figures, went_backwards
from benchmarks.kills import gateway_workers
from controlplane.domain.ownership import owner
from tests.stack.stack_process import RunningStack
from tests.stack.streams import Load, Stream

pytestmark = pytest.mark.stack

AT_REST = ("in_flight", "kv_tokens_reserved", "queue")


def workers(stack: RunningStack) -> dict[str, int]:
    parent = stack.process("gateway")
    return {} if parent is None else gateway_workers(parent.pid)


def victim(stack: RunningStack, which: str) -> int:
    """Returns the pid of the process that decides about the model, or of the other one."""
    assert stack.wait(lambda: len(workers(stack)) == 2, 60)
    found = workers(stack)
    owning = owner(stack.first_run["model"], found)
    return next(pid for one, pid in found.items() if (one == owning) == (which == "owner"))


def page(stack: RunningStack, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.gateway_port}{path}", timeout=20) as answer:
        return str(answer.read().decode())


def is_at_rest(stack: RunningStack) -> bool:
    names = tuple(f"headworks_gateway_{name}" for name in AT_REST)
    return not any(value for series, value in figures(page(stack, "/metrics")).items() if series.startswith(names))


@pytest.mark.parametrize("which", ["owner", "other"])
def test_one_that_is_killed_costs_what_it_worked_on_and_nothing_else(running_stack: RunningStack, which: str) -> None:
    assert running_stack.wait(lambda: page(running_stack, "/readyz") == "ready\n", 60)
    streams = [Stream(running_stack) for _ in range(4)]
    assert running_stack.wait(lambda: all(stream.has_begun() for stream in streams), 60)
    before, engines = figures(page(running_stack, "/metrics")), running_stack.engines()
    killed = victim(running_stack, which)
    os.kill(killed, signal.SIGKILL)
    assert running_stack.ask(max_tokens=2)[0] in (200, 0)  # 0: the connection was still with the killed one
    assert running_stack.ask(max_tokens=2)[0] == 200
    for stream in streams:
        assert stream.ended(90), stream
        assert stream.done == stream.is_whole(), stream
    assert running_stack.wait(
        lambda: len(workers(running_stack)) == 2 and killed not in workers(running_stack).values()
    )
    assert running_stack.wait(lambda: page(running_stack, "/readyz") == "ready\n", 60)
    assert running_stack.wait(lambda: is_at_rest(running_stack), 60), "something is still held"
    assert went_backwards(before, figures(page(running_stack, "/metrics"))) == []
    assert running_stack.engines() == engines


@pytest.mark.parametrize("which", ["owner", "other"])
def test_one_that_is_told_to_end_finishes_its_streams_and_no_request_is_refused(
    running_stack: RunningStack, which: str
) -> None:
    assert running_stack.wait(lambda: page(running_stack, "/readyz") == "ready\n", 60)
    streams, load = [Stream(running_stack, 60) for _ in range(4)], Load(running_stack)
    assert running_stack.wait(lambda: all(stream.has_begun() for stream in streams), 60)
    told = victim(running_stack, which)
    os.kill(told, signal.SIGTERM)
    assert running_stack.wait(lambda: len(workers(running_stack)) == 2 and told not in workers(running_stack).values())
    for stream in streams:
        assert stream.ended(90), stream
        assert stream.is_whole(), stream
    assert set(load.stop()) == {200}
    assert running_stack.wait(lambda: is_at_rest(running_stack), 60), "something is still held"
