"""Everything at once: `python -m tests.deployments.chaos --seed 1 --seconds 60`.

Real controllers, a real fleet of simulated nodes, PostgreSQL and Valkey of their own. Services are called at random
while processes are killed and stopped, Valkey loses its data, documents and records are damaged and late reports come
again. Then it waits for rest and checks what must hold there. Exits with 0 when all of it does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controlplane.embedded import postgres, valkey

ROOT = Path(__file__).resolve().parents[2]
REST_WITHIN_S = 120.0
NAMES = ("a", "b", "c", "d")
NODES = ("sim-01", "sim-02", "sim-03")
CARDS = 4


class Installation:
    """The processes, each of which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "s").mkdir(mode=0o700)
        postgres.initialise(folder / "pg")
        self.commands: dict[str, list[str]] = {
            "postgres": list(postgres.server_command(folder / "pg", folder / "s")),
            "valkey": list(valkey.server_command(folder, folder / "v.sock")),
            "controller 1": [sys.executable, "manage.py", "controller"],
            "controller 2": [sys.executable, "manage.py", "controller"],
            "fleet": [
                sys.executable, "-m", "workers.node.simulated_fleet", "--nodes", str(len(NODES)), "--cards", str(CARDS),
            ],
        }  # fmt: skip
        os.environ.update(
            HEADWORKS_DEBUG="1", HEADWORKS_HOME=str(folder / "home"), DJANGO_SETTINGS_MODULE="controlplane.settings",
            DATABASE_URL=postgres.url(folder / "s", "postgres"), REDIS_URL=valkey.url(folder / "v.sock"),
        )  # fmt: skip

    def start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                self.commands[name], stdout=log, stderr=log, cwd=ROOT, start_new_session=True
            )

    def kill(self, name: str) -> None:
        os.killpg(self.running[name].pid, signal.SIGKILL)
        self.running[name].wait()

    def wait_for_servers(self) -> None:
        wait(lambda: postgres.is_ready(self.folder / "s"), "PostgreSQL")
        wait((self.folder / "v.sock").exists, "Valkey")

    def engines(self) -> dict[str, list[int]]:
        """Replica id -> the living processes of its engine."""
        from workers.node import processes

        found: dict[str, list[int]] = {}
        for node in NODES:
            for one in processes.strays(self.folder / "home" / "node" / node / "replicas", []):
                marks = dict(item.partition(b"=")[::2] for item in processes._environment(one.pid))
                folder = Path(marks.get(processes.MARK.encode(), b"").decode())
                found.setdefault(folder.name, []).append(one.pid)
        return found

    def end(self) -> None:
        for name in ("fleet", "controller 1", "controller 2"):
            if name in self.running:
                self.running[name].terminate()
                self.running[name].wait(30)
        for pids in self.engines().values():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        for name in self.running.keys() & {"valkey", "postgres"}:
            self.kill(name)


def wait(ready: Callable[[], object], what: str, within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what}: not within {within_s:.0f} s")
        time.sleep(0.1)


class Chaos:
    """What can happen. Each method is one kind of event; its weight is how often it stands in `kinds`."""

    def __init__(self, world: Installation, seed: int) -> None:
        from controlplane.journal.services.record import Actor

        self.world = world
        self.chance = random.Random(seed)
        self.actor = Actor("user", "ada")
        often = (self.apply, self.scale, self.edit, self.switch, self.node, self.replica, self.kill_engine)
        seldom = (
            self.delete,
            self.freeze,
            self.kill,
            self.pause,
            self.lose_data,
            self.damage,
            self.repeat,
            self.revise,
        )
        self.kinds = often * 3 + seldom

    def happen(self) -> str:
        from django.db import DatabaseError, InterfaceError, connection

        from controlplane.domain.errors import RefusedError
        from controlplane.lib import valkey as client

        kind = self.chance.choice(self.kinds)
        try:
            kind()
        except RefusedError as refused:
            return f"{kind.__name__}: {refused.code}"
        except (DatabaseError, InterfaceError, *client.ERRORS) as error:
            connection.close()
            return f"{kind.__name__}: {type(error).__name__}"
        return kind.__name__

    def wish(self, **changes: Any) -> Any:
        from controlplane.deployments.wish import DeploymentWish

        state = self.chance.choice(["running"] * 4 + ["stopped", "drained"])
        given = {"replicas": self.chance.randint(0, 3), "desired_state": state, **changes}
        return DeploymentWish(engine="simulated", variant="m/v", **given)

    def apply(self) -> None:
        from controlplane.deployments.services import deployments

        deployments.apply(actor=self.actor, name=self.chance.choice(NAMES), wish=self.wish())

    def scale(self) -> None:
        from controlplane.deployments.services import deployments

        name, count = self.chance.choice(NAMES), self.chance.randint(0, 4)
        deployments.scale(actor=self.actor, name=name, replicas=count)

    def edit(self) -> None:
        self._edit(self.chance.choice(NAMES), self.chance.randint(1, 99))

    def revise(self) -> None:
        """Twenty revisions in a few seconds."""
        name = self.chance.choice(NAMES)
        for number in range(20):
            self._edit(name, number + 1)
            time.sleep(self.chance.choice([0.0, 0.1, 0.3]))

    def _edit(self, name: str, seats: int) -> None:
        from dataclasses import replace

        from controlplane.deployments import selectors
        from controlplane.deployments.services import deployments

        wish = replace(selectors.wish(selectors.deployment(name)), settings={"max_num_seqs": seats})
        deployments.apply(actor=self.actor, name=name, wish=wish)

    def switch(self) -> None:
        from controlplane.deployments.services import deployments

        service = self.chance.choice([deployments.start, deployments.start, deployments.stop, deployments.drain])
        service(actor=self.actor, name=self.chance.choice(NAMES))

    def freeze(self) -> None:
        from controlplane.deployments.services import deployments

        name = self.chance.choice(NAMES)
        deployments.set_frozen(actor=self.actor, name=name, frozen=self.chance.random() < 0.3)

    def delete(self) -> None:
        """Removes a deployment, mostly in the middle of something, and uses its name again as soon as it is free."""
        from controlplane.deployments.models import Deployment
        from controlplane.deployments.services import deployments

        name = self.chance.choice(NAMES)
        deployments.delete(actor=self.actor, name=name)
        until = time.monotonic() + 10.0
        while Deployment.objects.filter(name=name).exists() and time.monotonic() < until:
            time.sleep(0.1)
        deployments.apply(actor=self.actor, name=name, wish=self.wish())

    def node(self) -> None:
        from controlplane.fleet.services import nodes

        name, index = self.chance.choice(NODES), self.chance.randrange(CARDS)
        match self.chance.choice(["cordon", "drain", "card", "uncordon", "uncordon", "uncordon"]):
            case "cordon":
                nodes.cordon(actor=self.actor, name=name, reason="disks")
            case "drain":
                nodes.drain(actor=self.actor, name=name)
            case "card":
                cordoned = self.chance.random() < 0.4
                nodes.cordon_accelerator(actor=self.actor, node=name, uuid=f"SIM-{name}-{index}", cordoned=cordoned)
            case _:
                nodes.uncordon(actor=self.actor, name=name)

    def replica(self) -> None:
        from controlplane.deployments.models import Replica
        from controlplane.deployments.services import replicas

        living = list(Replica.objects.filter(ended_at=None).values_list("pk", flat=True))
        if living:
            service = self.chance.choice([replicas.drain, replicas.restart])
            service(actor=self.actor, replica_id=self.chance.choice(living))

    def kill_engine(self) -> None:
        found = list(self.world.engines().values())
        if found:
            os.kill(self.chance.choice(found)[0], self.chance.choice([signal.SIGKILL, signal.SIGTERM]))

    def kill(self) -> None:
        name = self.chance.choice(sorted(self.world.commands))
        self.world.kill(name)
        time.sleep(self.chance.choice([0.0, 0.5, 3.0]))
        self.world.start(name)
        self.world.wait_for_servers()

    def pause(self) -> None:
        """A process stands still, as on a machine that swaps or sleeps."""
        process = self.world.running[self.chance.choice(["controller 1", "controller 2", "fleet"])]
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.choice([1.0, 4.0, 17.0]))
        process.send_signal(signal.SIGCONT)

    def lose_data(self) -> None:
        with valkey_client() as client:
            client.flushall()

    def repeat(self) -> None:
        """A report of some time ago comes again, perhaps of a worker that is no more."""
        from controlplane.lib import keys

        with valkey_client() as client:
            entries = client.xrange(keys.observations())
            if entries:
                client.xadd(keys.observations(), self.chance.choice(entries)[1])

    def damage(self) -> None:
        """A document in Valkey, a report, or a file of a node is not what it should be."""
        from controlplane.lib import keys

        if self.chance.random() < 0.3:
            self._damage_file()
            return
        with valkey_client() as client:
            key = keys.desired(self.chance.choice(NODES))
            document = json.loads(client.get(key) or b"{}")
            match self.chance.choice(["report", "text", "newer", "older", "kind"]):
                case "report":
                    client.xadd(keys.observations(), {"report": self.chance.choice([b"{", b"[" * 50_000, b"null"])})
                case "text":
                    client.set(key, self.chance.choice([b"", b"{", b"[" * 50_000, b"\xff"]))
                case "newer":
                    client.set(key, json.dumps({**document, "schema": 99, "version": 10**9, "replicas": []}))
                case "older":
                    client.set(key, json.dumps({**document, "version": 0, "published_at": 1, "replicas": []}))
                case _:
                    client.delete(key)
                    client.lpush(key, "x")

    def _damage_file(self) -> None:
        self.world.kill("fleet")
        files = [
            *self.world.folder.glob("home/node/*/*.json"),
            *self.world.folder.glob("home/node/*/replicas/*/*.json"),
        ]
        found = [one for one in files if one.name in ("record.json", "desired.json", "identity.json")]
        if found:
            victim = self.chance.choice(found)
            whole = victim.read_bytes()
            victim.write_bytes(self.chance.choice([b"", whole[: len(whole) // 2], b"{}"]))
        self.world.start("fleet")


@contextmanager
def valkey_client() -> Iterator[Any]:
    from controlplane.lib import valkey as client

    with client.connect() as one:
        yield one


def faults(world: Installation) -> list[str]:
    """Returns what does not hold although nothing happens any more."""
    from controlplane.deployments.models import Deployment, Replica
    from controlplane.fleet import selectors as fleet
    from controlplane.fleet.models import Accelerator, Reservation

    living = {row.pk: row for row in Replica.objects.filter(ended_at=None).select_related("node")}
    held: dict[str, int] = {}
    for owner in Reservation.objects.values_list("owner_id", flat=True):
        held[owner] = held.get(owner, 0) + 1
    placed = {pk: len(row.assigned) for pk, row in living.items() if row.node_id}
    served = {pk for pk in placed if living[pk].state in ("starting", "warming", "ready", "draining")}
    engines = world.engines()
    found = [f"reservations {held}, living replicas {placed}"] if held != placed else []
    found += [f"engines {sorted(engines)}, rows {sorted(served)}"] if set(engines) != served else []
    found += [f"{pk} has {len(pids)} processes" for pk, pids in engines.items() if len(pids) > 1]
    found += [one.message for one in fleet.problems()]
    for deployment in Deployment.objects.select_related("pool"):
        rows = [row for row in living.values() if row.deployment_id == deployment.pk]
        free = Accelerator.objects.filter(
            reservations=None, cordoned=False, node__cordoned=False, node__pool=deployment.pool
        )
        found += [f"{deployment.name}: {text}" for text in _of_deployment(deployment, rows, free.exists())]
    return found


def _of_deployment(deployment: Any, rows: list[Any], room: bool) -> list[str]:
    if deployment.deleted_at:
        return ["is still there"]
    wanted = deployment.replicas_wanted if deployment.desired_state == "running" else 0
    waiting = [row for row in rows if row.state == "pending" and row.reason_code in ("no_room", "frozen")]
    ready = [row for row in rows if row.state == "ready" and row.goal == "run"]
    told = [(row.state, row.goal, row.reason_message) for row in rows]
    if len(waiting) + len(ready) != len(rows):
        return [f"is not at rest: {told}"]
    if deployment.frozen:
        return []
    if not wanted <= len(rows) <= wanted + bool(waiting):
        return [f"{wanted} wanted, there are {told}"]
    outdated = any(row.revision_id != deployment.revision_id for row in ready)
    return ["waits although there is room"] if waiting and room else ["is outdated"] if outdated and not waiting else []


def words() -> list[str]:
    """Returns what is wrong with the sentences of the journal."""
    from controlplane.journal.models import Decision, Event
    from tests.domain.wording import assert_plain

    found: set[str] = set()
    for text in {*Event.objects.values_list("message", flat=True), *Decision.objects.values_list("why", flat=True)}:
        try:
            assert_plain(text)
        except AssertionError as error:
            found.add(str(error))
    return sorted(found)


def leftovers() -> list[str]:
    """Returns keys in Valkey that nobody will ever remove."""
    with valkey_client() as client:
        known = ("desired", "observations", "snapshot", "gateways", "celery")
        names = [name.decode() for name in client.keys("*")]
        return [name for name in names if name.split(":")[1].split("-")[0] not in known and client.ttl(name) < 0]


def prepare(world: Installation) -> None:
    """Starts everything and waits until three deployments serve."""
    for name in ("postgres", "valkey"):
        world.start(name)
    world.wait_for_servers()
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--noinput"], check=True, stdout=subprocess.DEVNULL, cwd=ROOT
    )
    import django

    django.setup()
    from controlplane.catalog.models import Model, Variant
    from controlplane.deployments.models import Replica
    from controlplane.fleet.models import Pool

    Pool.objects.create(name="default")
    Variant.objects.create(model=Model.objects.create(name="m", display_name="m"), name="v", path="/models/m")
    for name in ("controller 1", "controller 2", "fleet"):
        world.start(name)
    chaos = Chaos(world, 0)
    for name in NAMES[:3]:
        from controlplane.deployments.services import deployments

        deployments.apply(actor=chaos.actor, name=name, wish=chaos.wish(replicas=2, desired_state="running"))
    wait(lambda: Replica.objects.filter(state="ready").count() == 6, "six replicas are ready", 120)


def rest(world: Installation) -> list[str]:
    """Waits until nothing is wrong three times in a row; returns what still is."""
    from django.db import DatabaseError, InterfaceError, connection

    good, found = 0, ["nothing was looked at"]
    deadline = time.monotonic() + REST_WITHIN_S
    while good < 3 and time.monotonic() < deadline:
        try:
            found = faults(world)
        except (DatabaseError, InterfaceError) as error:
            connection.close()
            found = [str(error)]
        good = 0 if found else good + 1
        time.sleep(1.0)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deployments.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hwc-"))
    world = Installation(folder)
    try:
        prepare(world)
        chaos = Chaos(world, options.seed)
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            print(f"{time.strftime('%X')} {chaos.happen()}", flush=True)
            time.sleep(chaos.chance.choice([0.0, 0.02, 0.1, 0.3, 1.0]))
        wrong = [*rest(world), *words(), *leftovers()]
        for text in wrong:
            print(f"WRONG {text}")
        for name in ("controller 1", "controller 2", "fleet"):
            if wrong:
                print(f"--- {name}\n" + "\n".join((folder / f"{name}.log").read_text().splitlines()[-40:]))
        return 1 if wrong else 0
    finally:
        world.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
