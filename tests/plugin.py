"""Real PostgreSQL and Valkey for the tests that ask for them, started once a run, on first use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controlplane.embedded import postgres, valkey

_FOLDER = Path(tempfile.mkdtemp(prefix="hwt-"))
_RUNNING: dict[str, subprocess.Popen[bytes]] = {}

# Django reads its settings before any fixture runs, so the addresses are fixed here and the servers follow.
os.environ.setdefault("HEADWORKS_DEBUG", "1")
os.environ.setdefault("HEADWORKS_SHARED", str(Path(__file__).resolve().parents[2] / "shared"))
os.environ["DATABASE_URL"] = postgres.url(_FOLDER / "s", "postgres")
os.environ["REDIS_URL"] = valkey.url(_FOLDER / "v.sock")
os.environ["HEADWORKS_HOME"] = str(_FOLDER / "home")
(_FOLDER / "home" / "static").mkdir(parents=True)  # where collected files would lie; the finders serve them here
os.environ["HEADWORKS_NAMESPACE"] = "hwtest"


def start_postgres() -> None:
    if "postgres" in _RUNNING:
        return
    data, sockets = _FOLDER / "pg", _FOLDER / "s"
    sockets.mkdir(mode=0o700)
    postgres.initialise(data)
    command = postgres.server_command(data, sockets, extra=("fsync=off",))
    _RUNNING["postgres"] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for(lambda: postgres.is_ready(sockets), "PostgreSQL")


def start_valkey() -> None:
    if "valkey" in _RUNNING:
        return
    command = valkey.server_command(_FOLDER, _FOLDER / "v.sock", durable=False)
    _RUNNING["valkey"] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _wait_for((_FOLDER / "v.sock").exists, "Valkey")


def _wait_for(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not ready():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start within 20 s")
        time.sleep(0.05)


@pytest.hookimpl(trylast=True)  # pytest-django has its own order, by what a test does to the database
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long tests first, so that two processes share the work evenly."""

    def rank(item: pytest.Item) -> int:
        if item.get_closest_marker("engine"):
            return 0
        if item.get_closest_marker("stack"):
            return 1
        return 2 if item.get_closest_marker("browser") else 3

    items.sort(key=rank)


@pytest.fixture
def valkey_server() -> Iterator[str]:
    """The URL of a real, empty Valkey."""
    import redis

    start_valkey()
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    client.flushall()
    yield os.environ["REDIS_URL"]
    client.flushall()
    client.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded reality; tests that need it are skipped where it is absent."""
    folder = Path(os.environ["HEADWORKS_SHARED"]) / "data"
    if not folder.is_dir():
        pytest.skip(f"no recorded data at {folder} (set HEADWORKS_SHARED)")
    return folder


def pytest_sessionfinish() -> None:
    for process in _RUNNING.values():
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
    shutil.rmtree(_FOLDER, ignore_errors=True)
