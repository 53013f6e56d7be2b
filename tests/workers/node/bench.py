"""A node on the test bench: writes desired documents into a real Valkey and watches what the node reports."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import redis

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, NodeDesired, ReplicaDesired, SettingValue
from controlplane.domain.lifecycle import Limits
from controlplane.domain.observed import AcceleratorObserved, NodeReport, ReplicaObserved
from controlplane.lib import keys, wire
from tests.workers.node import tiny_adapter
from workers.node import processes, records
from workers.node.clock import Clock
from workers.node.inventory import Inventory, InventoryWatch
from workers.node.ports import PortRange
from workers.node.supervisor import NodeSettings, Supervisor

T = TypeVar("T")
CARD = AssignedAccelerator("cpu-0", "cpu", "0")
QUICK = Limits(
    start_timeout_s=20, warmup_timeout_s=20, drain_settle_s=0.2, drain_timeout_s=20, term_grace_s=1.0, kill_grace_s=1.0,
    backoff_base_s=0.2, backoff_cap_s=1.0,
)  # fmt: skip
PATIENCE_S = 30.0


def eventually(ask: Callable[[], T | None], what: str) -> T:
    """Returns the first true answer; never a statement about time, only a bound on waiting."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        answer = ask()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"never came true: {what}")


def make_replica(replica_id: str = "r1", *, limits: Limits = QUICK, **settings: SettingValue) -> ReplicaDesired:
    spec = EngineSpec("tiny", "", "tiny", settings)
    return ReplicaDesired(
        replica_id, "d1", "tiny", 1, "hash", "run", spec, (CARD,), f"hwr-{replica_id}",
        drain_timeout_s=limits.drain_timeout_s, limits=limits, cause="test",
    )  # fmt: skip


def make_inventory() -> Inventory:
    card = AcceleratorObserved("cpu-0", 0, "cpu", "a core", "0", 1 << 30, 0, 1 << 30)
    return Inventory((card,), {"tiny": "1.0"}, 1, 1 << 30, 1 << 30)


@dataclass
class Bench:
    """One node called `bench`. `supervisor` runs inside the test unless the test starts a worker process."""

    folder: Path
    url: str
    version: int = 0
    wishes: dict[str, ReplicaDesired] = field(default_factory=dict)
    models: tuple[str, ...] = ()
    supervisor: Supervisor | None = None
    name: str = "bench"
    faults: list[Exception] = field(default_factory=list)  # raised one by one when the machine is read

    @property
    def valkey(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def start(self, clock: Clock | None = None) -> None:
        node = NodeSettings(self.name, self.folder, "127.0.0.1", "127.0.0.1", "", str(Path.cwd()), valkey_url=self.url)
        watch = InventoryWatch(lambda own: self.read(), every_s=1.0)
        self.supervisor = Supervisor(node, watch, PortRange(20000, 29999), tiny_adapter.get, clock)
        self.supervisor.start()

    def read(self) -> Inventory:
        if self.faults:
            raise self.faults.pop()
        return make_inventory()

    def stop(self) -> None:
        if self.supervisor is not None:
            self.supervisor.stop()
            self.supervisor = None

    def document(self) -> NodeDesired:
        wishes = tuple(self.wishes.values())
        return NodeDesired(1, self.name, self.version, time.time(), wishes, poll_s=0.2, models=self.models)

    def ask_for(self, *models: str) -> None:
        """Asks for files of models; the wish stays as it is."""
        self.models = models
        self.send(self.document())

    def want(self, *wishes: ReplicaDesired) -> None:
        self.wishes.update({one.replica_id: one for one in wishes})
        self.publish()

    def want_stop(self, replica_id: str = "r1", drain_timeout_s: float = 20.0) -> None:
        self.want(replace(self.wishes[replica_id], goal="stop", drain_timeout_s=drain_timeout_s))

    def drop(self, replica_id: str = "r1") -> None:
        del self.wishes[replica_id]
        self.publish()

    def publish(self) -> None:
        self.version += 1
        self.send(self.document())

    def send(self, document: NodeDesired) -> None:
        with contextlib.closing(self.valkey) as client:
            client.set(keys.desired(self.name), wire.encode(document))
            client.publish(keys.desired_changed(self.name), str(document.version))

    def report(self) -> NodeReport | None:
        with contextlib.closing(self.valkey) as client:
            found: Any = client.xrevrange(keys.observations(), count=1)
        return wire.decode(found[0][1][b"report"], NodeReport) if found else None

    def seen(self, replica_id: str = "r1") -> ReplicaObserved | None:
        report = self.report()
        return next((one for one in report.replicas if one.replica_id == replica_id), None) if report else None

    def wait_for(self, state: str, replica_id: str = "r1", after_seq: int = 0) -> ReplicaObserved:
        def look() -> ReplicaObserved | None:
            found = self.seen(replica_id)
            return found if found is not None and found.state == state and found.seq > after_seq else None

        return eventually(look, f"{replica_id} is {state}; it is {self.seen(replica_id)}")

    def record(self, replica_id: str = "r1") -> records.ReplicaRecord:
        return next(one for one in records.read_records(self.folder) if one.desired.replica_id == replica_id)

    def identity(self, replica_id: str = "r1") -> processes.Identity:
        record = self.record(replica_id)
        assert record.pid is not None and record.process_started_ticks is not None
        return processes.Identity(record.pid, record.process_started_ticks, record.process_place)

    def processes(self, replica_id: str = "r1") -> list[int]:
        """Returns the living processes of a replica."""
        return [one.pid for one in processes.marked(records.replica_folder(self.folder, replica_id))]

    def kill_leftovers(self) -> list[int]:
        """Ends what a failed test has left; returns the pids, which a passed test has none of."""
        found = [pid for replica_id in self.everything() for pid in self.processes(replica_id)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return found

    def everything(self) -> set[str]:
        folders = (self.folder / "replicas").glob("*")
        return {*self.wishes, *(one.name for one in folders)}


def generate(url: str, key: str, max_tokens: int = 2) -> int:
    """Returns the status of one generation."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    body = json.dumps({"prompt": "x", "max_tokens": max_tokens})
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection.request("POST", "/v1/completions", body, headers)
    status = connection.getresponse().status
    connection.close()
    return status


class Stream:
    """A streamed generation that is read as it comes."""

    def __init__(self, url: str, key: str, max_tokens: int) -> None:
        parts = urlsplit(url)
        body = json.dumps({"prompt": "x", "max_tokens": max_tokens, "stream": True}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}"
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=20)
        self.socket.sendall(head.encode() + b"\r\n\r\n" + body)
        self.data = self.socket.recv(65536)

    def read_to_end(self) -> bytes:
        while piece := self.socket.recv(65536):
            self.data += piece
        self.socket.close()
        return self.data
