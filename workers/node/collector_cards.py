"""What a node's accelerators do right now: cards as the inventory sees them, CPU core groups from /proc.

Guarantees
    Reading never blocks the caller's loop for long: the inventory (NVML) is asked in a helper thread, one question at
    a time, and `Cards.newest` is what it last answered; an answer older than `CARDS_STALE_AFTER_S` is none.
Concurrency
    One owner loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from controlplane.domain.desired import AssignedAccelerator
from controlplane.domain.observed import AcceleratorObserved
from workers.node import processes

logger = logging.getLogger(__name__)

CARDS_STALE_AFTER_S = 5.0
GROUPS_EVERY_S = 5.0
SIMULATED_MEMORY_SHARE = 0.9
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

ReadAccelerators = Callable[[], Sequence[AcceleratorObserved]]


class Cards:
    """The newest answer of one node's inventory."""

    def __init__(self, read: ReadAccelerators) -> None:
        self._read = read
        self._task: asyncio.Task[None] | None = None
        self._answer: tuple[float, Sequence[AcceleratorObserved]] | None = None

    def ask(self) -> None:
        """Asks anew unless the last question is still open (a driver can hang for seconds)."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._ask())

    def newest(self) -> Sequence[AcceleratorObserved]:
        """Returns the newest answer, nothing when it is too old."""
        if self._answer is None or time.monotonic() - self._answer[0] > CARDS_STALE_AFTER_S:
            return ()
        return self._answer[1]

    async def close(self) -> None:
        """Waits briefly for an open question."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=1.0)

    async def _ask(self) -> None:
        try:
            found = await asyncio.to_thread(self._read)
        except (OSError, RuntimeError, ValueError) as error:
            logger.warning("The accelerators can't be read: %s", error)
            return
        self._answer = (time.monotonic(), found)


@dataclass(frozen=True, slots=True)
class CoreTimes:
    """Clock ticks of one core since the machine started."""

    busy: int
    total: int


class CpuUse:
    """The use of each core since the last call."""

    def __init__(self, stat: Path = Path("/proc/stat")) -> None:
        self._stat = stat
        self._before: dict[int, CoreTimes] = {}
        self._use: dict[int, float] = {}

    def sample(self) -> None:
        """Reads the kernel's counters."""
        after = read_core_times(self._stat.read_text(encoding="ascii"))
        self._use = {
            core: (times.busy - before.busy) / (times.total - before.total)
            for core, times in after.items()
            if (before := self._before.get(core)) is not None and times.total > before.total
        }
        self._before = after

    def of(self, cores: Collection[int]) -> float | None:
        """Returns the mean use (0 to 1) of some cores, None before the second sample."""
        known = [self._use[core] for core in cores if core in self._use]
        return sum(known) / len(known) if known else None


class GroupMemory:
    """The memory of process groups, without pages they share with others."""

    def __init__(self) -> None:
        self._pids: dict[int, list[int]] = {}
        self._found_at = -GROUPS_EVERY_S

    def sample(self, groups: Collection[int], now: float) -> dict[int, int]:
        """Returns bytes by process group; who belongs to a group is looked up every few seconds only."""
        if not groups:
            return {}
        if now - self._found_at >= GROUPS_EVERY_S or not set(groups) <= self._pids.keys():
            self._pids, self._found_at = _members(groups), now
        return {group: sum(_memory_bytes(pid) for pid in self._pids.get(group, ())) for group in groups}


def read_core_times(stat: str) -> dict[int, CoreTimes]:
    """Returns the times of each core from the text of /proc/stat."""
    found: dict[int, CoreTimes] = {}
    for line in stat.splitlines():
        if not line.startswith("cpu") or line[3:4] == " ":
            continue
        name, *rest = line.split()
        # user nice system idle iowait irq softirq steal; guest times are contained in user and nice
        ticks = [int(field) for field in rest[:8]]
        found[int(name[3:])] = CoreTimes(sum(ticks) - ticks[3] - ticks[4], sum(ticks))
    return found


def parse_cores(text: str) -> list[int]:
    """Returns the cores of a list such as `0-3,8`; nothing for a text that is none."""
    cores: list[int] = []
    for piece in text.split(","):
        first, _, last = piece.strip().partition("-")
        try:
            cores.extend(range(int(first), int(last or first) + 1))
        except ValueError:
            return []
    return cores


def with_cpu_use(accelerators: Iterable[AcceleratorObserved], use: CpuUse) -> list[AcceleratorObserved]:
    """Returns the accelerators with the use of CPU core groups filled in."""
    return [
        replace(card, utilization=use.of(parse_cores(card.address))) if card.kind == "cpu" else card
        for card in accelerators
    ]


def with_simulated_load(
    accelerators: Iterable[AcceleratorObserved], running: Mapping[str, float]
) -> list[AcceleratorObserved]:
    """Returns the accelerators with simulated cards as busy and full as a real one would be.

    `running` maps the uuid of each card that an engine holds to the requests that run on it: an engine takes its
    memory at its start, and a card is busy whenever anything runs.
    """
    found: list[AcceleratorObserved] = []
    for card in accelerators:
        if card.kind == "simulated":
            used = int((card.memory_total_bytes or 0) * SIMULATED_MEMORY_SHARE) if card.uuid in running else 0
            card = replace(  # noqa: PLW2901
                card,
                utilization=1.0 if running.get(card.uuid, 0) > 0 else 0.0,
                memory_used_bytes=used if card.memory_total_bytes is not None else None,
            )
        found.append(card)
    return found


def of_replica(
    assigned: Sequence[AssignedAccelerator],
    observed: Mapping[str, AcceleratorObserved],
    use: CpuUse,
    group_memory_bytes: int | None,
) -> list[AcceleratorObserved]:
    """Returns the accelerators of one replica as they are now; `observed` is by uuid.

    A card belongs to the replica alone. Of a CPU core group the replica uses the memory of its own processes.
    """
    found: list[AcceleratorObserved] = []
    for one in assigned:
        card = observed.get(one.uuid)
        if one.kind == "cpu":
            total = one.memory_bytes or (card.memory_total_bytes if card else None)
            # several core groups of one replica share its processes: counted once
            used = group_memory_bytes if not found else 0
            utilization = use.of(parse_cores(one.address))
            found.append(AcceleratorObserved(one.uuid, 0, "cpu", one.name, one.address, total, used, None, utilization))
        elif card is not None:
            found.append(card)
    return found


def _members(groups: Collection[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {group: [] for group in groups}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if not name.isdigit():
            continue
        stat = processes.read_stat(int(name))
        if stat is not None and stat.group in found:
            found[stat.group].append(stat.pid)
    return found


def _memory_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            _, resident, shared, *_ = file.read().split()
    except (OSError, ValueError):
        return 0  # gone meanwhile
    return (int(resident) - int(shared)) * _PAGE_BYTES
