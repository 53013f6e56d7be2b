"""A page that is open while what it lives on is killed: its data come again, and what is missing is null."""

from __future__ import annotations

import pytest

from tests.stack.stack_process import RunningStack
from tests.stack.streams import Load
from tests.stack.visitor import LiveView, Visitor

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("name", ["valkey", "console"])
def test_live_data_come_again(running_stack: RunningStack, name: str) -> None:
    load = Load(running_stack)
    view = LiveView(Visitor(running_stack), f"deployment:{running_stack.first_run['model']}")
    try:
        assert view.next_frame()["type"] == "history"
        before = view.next_sample()
        killed = running_stack.kill(name)
        after = view.next_sample(after=before["t"] + 2)
        assert running_stack.process(name) != killed
        assert after["values"].keys() == before["values"].keys()
        assert after["values"]["gpu_power_w"] is None, "nothing measures power here, and that is not 0"
        while not view.next_sample()["values"]["tokens_per_s"]:
            pass
        assert (view.connects > 1) == (name == "console"), "a page keeps its socket over a restart of Valkey"
    finally:
        view.close()
        assert set(load.stop()) == {200}


def test_the_history_has_a_gap_where_nothing_was_measured(running_stack: RunningStack) -> None:
    view = LiveView(Visitor(running_stack), f"deployment:{running_stack.first_run['model']}")
    try:
        samples = view.next_frame()["samples"]
    finally:
        view.close()
    seconds = [sample["t"] for sample in samples]
    assert seconds == sorted(set(seconds))
    assert any(sample["tokens_per_s"] for sample in samples)
    assert all(value is None or value >= 0 for sample in samples for value in sample.values())
