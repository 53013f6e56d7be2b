"""A table of processes as the launcher keeps it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.embedded.layout import ROOT, Layout
from controlplane.embedded.stack import Stack

MakeStack = Callable[[Path], Stack]


@pytest.fixture
def make_stack() -> Iterator[MakeStack]:
    """Makes stacks with their data below a folder; their processes and signal handlers are gone after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    made: list[Stack] = []

    def make(folder: Path) -> Stack:
        layout = Layout(ROOT, folder / "home", folder / "cache")
        layout.make_home()
        made.append(Stack(layout))
        return made[-1]

    yield make
    for child in [child for one in made for child in one.children.values()]:
        child.kill()
    for number, handler in before.items():
        signal.signal(number, handler)
