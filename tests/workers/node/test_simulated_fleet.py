from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from controlplane.domain.desired import AssignedAccelerator, EngineSpec, NodeDesired, ReplicaDesired
from controlplane.domain.observed import NodeReport
from controlplane.lib import keys, wire
from tests.workers.node.bench import QUICK, eventually, generate
from workers.node import processes, simulated_fleet

pytestmark = pytest.mark.services


@pytest.fixture
def fleet(
    tmp_path: Path, valkey_server: str, monkeypatch: pytest.MonkeyPatch, nothing_is_left: None
) -> Iterator[redis.Redis]:
    monkeypatch.setenv("HEADWORKS_HOME", str(tmp_path))
    ending = threading.Event()
    options = simulated_fleet.parse(["--nodes", "2", "--cards", "3"])
    thread = threading.Thread(target=simulated_fleet.run, args=(options, ending))
    thread.start()
    client = redis.Redis.from_url(valkey_server)
    yield client
    client.close()
    ending.set()
    thread.join()
    assert not processes.strays(tmp_path / "node" / "sim-02" / "replicas", [])


def newest(client: redis.Redis) -> dict[str, NodeReport]:
    found: Any = client.xrange(keys.observations())
    every = [wire.decode(fields[b"report"], NodeReport) for _, fields in found]
    return {one.node: one for one in every}


def want(client: redis.Redis, *wishes: ReplicaDesired) -> None:
    now = time.time()
    client.set(keys.desired("sim-02"), wire.encode(NodeDesired(1, "sim-02", int(now * 1000), now, wishes)))
    client.publish(keys.desired_changed("sim-02"), "1")


def test_simulated_nodes_report_their_cards(fleet: redis.Redis) -> None:
    eventually(lambda: len(newest(fleet)) == 2, "both nodes report")
    report = newest(fleet)["sim-01"]
    assert report.simulated and report.engines == {"simulated": "1"}
    assert [(one.kind, one.name, one.memory_total_bytes) for one in report.accelerators] == [
        ("simulated", "NVIDIA H100 80GB HBM3", 80_000_000_000)
    ] * 3
    assert report.topology and report.topology.nvlink_groups() == ((0, 1, 2),)


def test_a_simulated_replica_runs_through_the_same_life(fleet: redis.Redis) -> None:
    card = AssignedAccelerator("SIM-sim-02-0", "simulated", "0", "H100", 80_000_000_000, 3.35e12)
    spec = EngineSpec("simulated", "", "big", {"start_s": 0.1})
    wish = ReplicaDesired("sim1", "1", "d", 1, "h", "run", spec, (card,), "hwr-sim", limits=QUICK, cause="test")
    want(fleet, wish)

    def seen(state: str) -> Any:
        report = newest(fleet).get("sim-02")
        return next((one for one in report.replicas if one.state == state), None) if report else None

    ready = eventually(lambda: seen("ready"), "the replica is ready")
    assert ready.simulated and ready.facts.engine_version
    with contextlib.suppress(ConnectionError):
        assert generate(ready.url, "hwr-sim") == 200
    want(fleet)
    eventually(lambda: (one := newest(fleet)["sim-02"]) and not one.replicas, "the replica is gone")
