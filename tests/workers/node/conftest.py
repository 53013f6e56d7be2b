from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.node.bench import Bench, eventually
from tests.workers.node.worker_process import Worker


def open_descriptors() -> set[str]:
    found: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{entry.name} {entry.readlink()}")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """No descriptor and no thread may be left after the test."""
    gc.collect()
    before = open_descriptors()
    threads = set(threading.enumerate())
    yield

    def clean() -> bool:
        gc.collect()
        return open_descriptors() <= before and set(threading.enumerate()) <= threads

    try:
        eventually(clean, "descriptors and threads are back")
    except AssertionError:
        raise AssertionError(f"left: {open_descriptors() - before} {set(threading.enumerate()) - threads}") from None


@pytest.fixture
def bench(tmp_path: Path, valkey_server: str, nothing_is_left: None) -> Iterator[Bench]:
    """A node with an own folder and a real Valkey; no engine process may be left after the test."""
    one = Bench(tmp_path / "node", valkey_server)
    yield one
    one.stop()
    left = one.kill_leftovers()
    assert not left, f"engine processes were left: {left}"


@pytest.fixture
def worker(tmp_path: Path, bench: Bench) -> Iterator[Worker]:
    bench.folder = tmp_path / "home" / "node" / "bench"
    one = Worker(tmp_path / "home", bench.url)
    yield one
    if one.process is not None:
        one.end(signal.SIGKILL)
    if one.log.exists():  # a test that was skipped has started none
        assert "Traceback" not in one.log.read_text()
