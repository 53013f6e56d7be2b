"""A real engine process for the tests, started the way the node worker starts it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, SettingValue
from engine_adapters import registry
from engine_adapters.base import EngineAdapter, LaunchPlace
from engine_adapters.environment import process_environment
from workers.node.inventory import vllm_version

CODE_ROOT = Path(__file__).resolve().parents[2]
KEY = "hwr-test-key-0123456789"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class RunningEngine:
    """One engine behind its port. Requests carry the key unless told otherwise."""

    adapter: EngineAdapter
    spec: EngineSpec
    place: LaunchPlace
    process: subprocess.Popen[bytes]
    log: Path
    argv: tuple[str, ...] = field(default=())

    def request(self, method: str, path: str, body: object = None, *, key: str | None = KEY) -> Answer:
        connection = http.client.HTTPConnection(self.place.host, self.place.port, timeout=60)
        try:
            self._send(connection, method, path, body, key)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def stream(self, path: str, body: Mapping[str, object]) -> Iterator[bytes]:
        """Yields the events' data; closing the iterator closes the connection."""
        connection = http.client.HTTPConnection(self.place.host, self.place.port, timeout=60)
        try:
            self._send(connection, "POST", path, {**body, "stream": True}, KEY)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            while line := answer.readline():
                if line.startswith(b"data: "):
                    yield line[6:].strip()
        finally:
            connection.close()

    @staticmethod
    def _send(connection: http.client.HTTPConnection, method: str, path: str, body: object, key: str | None) -> None:
        headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {key}"} if key else {})
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)

    def log_lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8", errors="replace").splitlines()

    def pids(self) -> list[int]:
        """The living processes of the engine's session."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                session = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[3]) if entry.name.isdigit() else 0
            except (FileNotFoundError, ProcessLookupError):
                continue
            if session == self.process.pid:
                found.append(int(entry.name))
        return found

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(
    name: str, folder: Path, settings: Mapping[str, SettingValue], model: str = "m", python: str = ""
) -> RunningEngine:
    """Starts an engine and waits until its health path answers."""
    adapter = registry.get(name)
    spec = EngineSpec(name, model, "test-model", settings)
    core = str(max(os.sched_getaffinity(0)))
    accelerators = (AssignedAccelerator("cpu-0", "cpu", core),) if name == "vllm" else ()
    version = vllm_version(python) or ""
    place = LaunchPlace("r1", "127.0.0.1", free_port(), KEY, accelerators, python, str(CODE_ROOT), str(folder), version)
    command = adapter.command(spec, place)
    log = folder / "engine.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command.argv, env=process_environment(os.environ, command), cwd=folder, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    engine = RunningEngine(adapter, spec, place, process, log, command.argv)
    deadline = time.monotonic() + 180
    while not is_healthy(engine):
        if process.poll() is not None or time.monotonic() > deadline:
            engine.close()
            raise AssertionError("\n".join(["the engine did not start:", *engine.log_lines()[-30:]]))
        time.sleep(0.1)
    return engine


def is_healthy(engine: RunningEngine) -> bool:
    try:
        return engine.request("GET", engine.adapter.health_path, key=None).status == 200
    except OSError:
        return False


def start_vllm(folder: Path) -> RunningEngine:
    """Starts the small model on real vLLM; skips where there is no engine environment."""
    python, model = os.environ.get("HEADWORKS_ENGINE_PYTHON", ""), os.environ.get("HEADWORKS_MODEL_PATH", "")
    if not (Path(python).is_file() and (Path(model) / "config.json").is_file()):
        pytest.skip("real vLLM needs HEADWORKS_ENGINE_PYTHON and HEADWORKS_MODEL_PATH (make up prepares both)")
    settings: dict[str, SettingValue] = {
        "enforce_eager": True,
        "dtype": "bfloat16",
        "max_model_len": 2048,
        "max_num_seqs": 16,
    }
    return start("vllm", folder, settings, model, python)


def start_simulated(folder: Path, **settings: SettingValue) -> RunningEngine:
    return start("simulated", folder, {"start_s": 0, **settings})


def wait_for(what: Any, seconds: float = 20) -> None:
    """Waits until `what()` is true."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.05)
