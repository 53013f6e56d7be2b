"""One running stack for all tests that need one. A test may kill parts of it, but leaves it running and ready."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stack.stack_process import RunningStack


@pytest.fixture(scope="session")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack started with `make up DETACH=1` at first use and ended with `make down` after the last test."""
    started = RunningStack(tmp_path_factory.mktemp("stack") / "home")
    try:
        started.up()
        yield started
    finally:
        started.make("down", limit_s=200)
