"""What a report of a node costs the controller: `python -m benchmarks.reports --nodes 1000`.

Starts a PostgreSQL and a Valkey of its own, makes nodes with cards and one replica a card, and takes over rounds of
their reports as the controller does: quiet ones (nothing new but readings), and such with a change of state on some of
the nodes. Prints CPU (of this process) and wall time per report as JSON, and what one round of deciding and one of
publishing everything costs. A report a node every 2 s is what one controller has to hold.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from controlplane.domain.lifecycle import Reason, State, Transition
from controlplane.domain.observed import (
    REPORT_EVERY_S,
    REPORT_SCHEMA,
    AcceleratorObserved,
    EngineFacts,
    NodeReport,
    ReplicaObserved,
)
from controlplane.embedded import postgres, valkey
from controlplane.lib import wire

STATES: tuple[State, ...] = ("placed", "starting", "warming", "ready")
BEFORE: tuple[State, ...] = ("failed", "placed", "starting", "warming")
COMMAND = tuple(f"--argument-number-{number}=value" for number in range(30))


@contextmanager
def own_servers() -> Iterator[dict[str, str]]:
    """PostgreSQL and Valkey that end with the block, durable as in an installation; yields their addresses as
    environment."""
    folder = Path(tempfile.mkdtemp(prefix="hwb-"))
    sockets, socket = folder / "s", folder / "v.sock"
    sockets.mkdir(mode=0o700)
    postgres.initialise(folder / "pg")
    commands = [postgres.server_command(folder / "pg", sockets), valkey.server_command(folder, socket)]
    servers = [subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for one in commands]
    try:
        while not (postgres.is_ready(sockets) and socket.exists()):
            time.sleep(0.05)
        yield {"DATABASE_URL": postgres.url(sockets, "postgres"), "REDIS_URL": valkey.url(socket)}
    finally:
        for server in servers:
            server.send_signal(signal.SIGINT)
            server.wait(20)
        shutil.rmtree(folder, ignore_errors=True)


class Fleet:
    """Makes the reports of all nodes."""

    def __init__(self, nodes: int, cards: int) -> None:
        self._nodes = nodes
        self._cards = cards
        self._sequence = 0

    def replica_id(self, node: int, card: int) -> str:
        return f"r{node:05d}x{card:02d}"

    def assigned(self, node: int, card: int) -> dict[str, Any]:
        uuid = f"GPU-n{node:05d}-{card}"
        return {"uuid": uuid, "kind": "gpu", "address": uuid, "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 80 << 30}

    def round(self, changed: int = 0, *, empty: bool = False) -> list[bytes]:
        """One report of every node as bytes; on the first `changed` nodes a replica has started anew. `empty` = no
        replica runs yet."""
        self._sequence += 1
        reports = [self._report(node, node < changed) for node in range(self._nodes)]
        return [wire.encode(replace(one, replicas=()) if empty else one) for one in reports]

    def _report(self, node: int, changed: bool) -> NodeReport:
        name = f"n{node:05d}"
        cards = tuple(
            AcceleratorObserved(
                f"GPU-{name}-{index}", index, "gpu", "NVIDIA H100 80GB HBM3", f"GPU-{name}-{index}", 80 << 30,
                self._sequence, (80 << 30) - self._sequence, utilization=0.5, temperature_c=50.0, power_w=400.0,
            )
            for index in range(self._cards)
        )  # fmt: skip
        return NodeReport(
            schema=REPORT_SCHEMA, node=name, incarnation="first", sequence=self._sequence, reported_at=time.time(),
            address="10.0.0.1", worker_pid=1, desired_version=0, accelerators=cards,
            replicas=tuple(self._replica(node, index, changed and index == 0) for index in range(self._cards)),
            engines={"vllm": "0.32.0", "simulated": "1"}, cpu_count=128, memory_total_bytes=1 << 40,
            memory_available_bytes=(1 << 40) - self._sequence,
        )  # fmt: skip

    def _replica(self, node: int, card: int, changed: bool) -> ReplicaObserved:
        seq = self._sequence * 10 if changed else 4
        first = seq - len(STATES) + 1
        steps = tuple(
            Transition(first + index, 1e9 + index, before, after, Reason("code", "A sentence that says why."), "chat@1")
            for index, (before, after) in enumerate(zip(BEFORE, STATES, strict=True))
        )
        return ReplicaObserved(
            self.replica_id(node, card), "ready", 1e9, "run", seq, 0, None, 4242, 1e9, "http://10.0.0.1:20001",
            "/var/lib/headworks/node/n/replicas/r/engine.log", COMMAND, facts=EngineFacts("0.32.0", 1, 2, 3, 16, 4.0),
            transitions=steps,
        )  # fmt: skip


def measure(what: Callable[[], Any], reports: int) -> dict[str, float]:
    """Runs once; returns milliseconds of CPU and of wall time per report."""
    cpu, wall = time.process_time(), time.perf_counter()
    what()
    return {
        "cpu_ms": round((time.process_time() - cpu) * 1000 / reports, 3),
        "wall_ms": round((time.perf_counter() - wall) * 1000 / reports, 3),
    }


def make_rows(fleet: Fleet, nodes: int, cards: int) -> None:
    """A deployment and a replica for every card, as if the controller had placed them."""
    from django.utils import timezone

    from controlplane.deployments.models import Deployment, Replica, Revision
    from controlplane.fleet.models import Node, Pool

    pool = Pool.objects.get(name="default")
    deployment = Deployment.objects.create(name="chat", engine="vllm", pool=pool, replicas_wanted=nodes * cards)
    spec = {"engine": "vllm", "model_path": "/models/m", "served_model_name": "chat", "settings": {"max_num_seqs": 16}}
    revision = Revision.objects.create(deployment=deployment, number=1, hash="x", spec=spec)
    Deployment.objects.update(revision=revision)
    ids = dict(Node.objects.values_list("name", "pk"))
    Replica.objects.bulk_create(
        Replica(
            id=fleet.replica_id(node, card), deployment=deployment, revision=revision, node_id=ids[f"n{node:05d}"],
            state="placed", state_since=timezone.now(), key="k", assigned=[fleet.assigned(node, card)],
        )
        for node in range(nodes)
        for card in range(cards)
    )  # fmt: skip


def run(nodes: int, cards: int, rounds: int) -> dict[str, Any]:
    """Measures on an empty, migrated database."""
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    fleet = Fleet(nodes, cards)
    found: dict[str, Any] = {"nodes": nodes, "cards_a_node": cards, "report_bytes": len(fleet.round()[0])}
    take = taker()
    first = fleet.round(empty=True)
    found["joining"] = measure(lambda: take(first), nodes)
    make_rows(fleet, nodes, cards)
    second = fleet.round()
    found["all replicas new"] = measure(lambda: take(second), nodes)
    quiet = [fleet.round() for _ in range(rounds)]
    found["quiet"] = measure(lambda: [take(one) for one in quiet], nodes * rounds)
    busy = [fleet.round(changed=nodes // 10) for _ in range(rounds)]
    found["a change on every tenth node"] = measure(lambda: [take(one) for one in busy], nodes * rounds)
    found |= rounds_of_the_loop()
    found["nodes_a_controller_holds"] = int(REPORT_EVERY_S * 1000 / found["quiet"]["wall_ms"])
    return found


def rounds_of_the_loop() -> dict[str, Any]:
    """What deciding for the whole fleet costs when there is nothing to do, and publishing everything."""
    from controlplane.deployments.controller.carry_out import Reconciler
    from controlplane.deployments.controller.leadership import Leadership
    from controlplane.deployments.controller.publish import Publisher
    from controlplane.lib import valkey as client

    leadership = Leadership()
    assert leadership.try_lead(), "somebody else leads on a database of our own"
    reconciler, publisher = Reconciler(), Publisher(leadership, client.connect())
    try:
        return {
            "one round of deciding": measure(lambda: reconciler.run(time.time()), 1),
            "publishing everything": measure(lambda: publisher.run(time.time()), 1),
            "publishing nothing new": measure(lambda: publisher.run(time.time()), 1),
        }
    finally:
        leadership.release()


def taker() -> Callable[[list[bytes]], None]:
    """What takes over one round of reports, as the controller's loop does it."""
    from controlplane.deployments.controller.ingest import Intake
    from controlplane.deployments.controller.listening import AT_ONCE, Heard, without_nul

    intake = Intake()

    def take(encoded: list[bytes]) -> None:
        now = time.time()
        for start in range(0, len(encoded), AT_ONCE):
            some = encoded[start : start + AT_ONCE]
            taken = intake.take_over([Heard(wire.decode(without_nul(one), NodeReport), now) for one in some], now)
            assert all(one.accepted for one in taken), "the rounds are not measured as they would come"

    return take


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reports", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--cards", type=int, default=8, help="cards, and replicas, a node")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="as it always prints")
    options = parser.parse_args()
    with own_servers() as addresses:
        os.environ.update(addresses, HEADWORKS_DEBUG="0", DJANGO_SETTINGS_MODULE="controlplane.settings")
        os.environ["HEADWORKS_SECRET_KEY"] = "only for this measurement"
        import django

        django.setup()
        print(json.dumps(run(options.nodes, options.cards, options.rounds), indent=2))


if __name__ == "__main__":
    main()
