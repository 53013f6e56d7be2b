"""The supervisor of a node's container with the real worker, collector, Valkey, and a simulated engine."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, NodeDesired, ReplicaDesired
from controlplane.lib import keys, wire
from workers.node import records

pytestmark = pytest.mark.services
ROOT = Path(__file__).resolve().parents[2]
NODE = "container"
PATIENCE_S = 60.0


def eventually(ask: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not ask():
        assert time.monotonic() < deadline, f"never came true: {what}"
        time.sleep(0.1)


@dataclass
class Container:
    """What stands below PID 1 of a node's container."""

    process: subprocess.Popen[bytes]
    home: Path
    environ: dict[str, str]

    @property
    def folder(self) -> Path:
        return self.home / "node" / NODE

    def child(self, word: str) -> psutil.Process | None:
        for one in psutil.Process(self.process.pid).children():
            try:
                if one.cmdline()[-1:] == [word]:
                    return one
            except psutil.Error:  # it has just ended
                continue
        return None

    def kill_and_await(self, word: str) -> None:
        child = self.child(word)
        assert child is not None, f"{word} does not run"
        child.kill()
        eventually(lambda: (now := self.child(word)) is not None and now.pid != child.pid, f"{word} is back")

    def is_healthy(self) -> bool:
        done = subprocess.run(
            [sys.executable, "-m", "workers.node.healthcheck"], cwd=ROOT, env=self.environ, check=False
        )
        return done.returncode == 0

    def record(self) -> records.ReplicaRecord | None:
        found = records.read_records(self.folder)
        return found[0] if found else None

    def is_ready(self) -> bool:
        record = self.record()
        return record is not None and record.state == "ready"

    def engine_answers(self) -> bool:
        record = self.record()
        if record is None or record.url is None:
            return False
        connection = http.client.HTTPConnection(urlsplit(record.url).netloc, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def has_ended(pid: int) -> bool:
    """Whoever adopted an engine after its worker was killed may be slow to bury it."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def wish_for_an_engine(url: str) -> None:
    spec = EngineSpec("simulated", "", "sim", {})
    card = AssignedAccelerator("cpu-0", "simulated", "0", memory_bytes=80 << 30, bandwidth_bytes_per_s=3.35e12)
    replica = ReplicaDesired("r1", "d1", "sim", 1, "hash", "run", spec, (card,), "hwr-secret")
    with redis.Redis.from_url(url) as client:
        client.set(keys.desired(NODE), wire.encode(NodeDesired(1, NODE, 1, time.time(), (replica,))))


@pytest.fixture
def container(tmp_path: Path, valkey_server: str) -> Iterator[Container]:
    wish_for_an_engine(valkey_server)
    environ = {
        **os.environ, "HEADWORKS_HOME": str(tmp_path), "REDIS_URL": valkey_server, "HEADWORKS_NODE_NAME": NODE,
        "HEADWORKS_NODE_ADDRESS": "127.0.0.1",
    }  # fmt: skip
    command = [sys.executable, "-m", "controlplane.embedded.node"]
    # a session of its own: SIGTERM from `docker stop` reaches the supervisor alone, as below tini without -g
    process = subprocess.Popen(command, cwd=ROOT, env=environ, start_new_session=True)
    made = Container(process, tmp_path, environ)
    try:
        yield made
    finally:
        record = made.record()
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()
            process.wait()
        if record is not None and record.process_group and record.state != "stopped":
            os.killpg(record.process_group, signal.SIGKILL)


def test_a_killed_worker_is_back_and_stopping_drains_the_engine(container: Container) -> None:
    eventually(container.is_ready, "the replica is ready")
    assert container.is_healthy()
    before = container.record()
    container.kill_and_await("workers.node")
    container.kill_and_await("workers.node.collector")
    assert container.engine_answers()
    eventually(container.is_ready, "the engine is adopted")
    after = container.record()
    assert before is not None and after is not None
    assert (before.pid, before.process_started_ticks) == (after.pid, after.process_started_ticks)

    container.process.terminate()
    assert container.process.wait(90) == 0
    assert (container.folder / "stopped-all").exists()
    assert before.pid is not None and has_ended(before.pid)
