"""One running stack for all tests that need one, with two gateway processes, in a folder with a blank in its name.

The files run in the order of their names: a test may kill parts of the stack and leaves it running and ready, the last
file ends it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.stack.stack_process import RunningStack


@pytest.fixture(scope="session")
def running_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack started at first use and ended after the last test, if one runs then."""
    started = RunningStack(
        tmp_path_factory.mktemp("stack") / "data of headworks", more={"HEADWORKS_GATEWAY_PROCESSES": "2"}
    )
    try:
        started.up_twice_at_once()
        yield started
    finally:
        started.make("down", limit_s=200)
