"""Groups of CPU cores as accelerators, for machines without cards."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from controlplane.domain.observed import AcceleratorObserved

MOST_CORES = 4
_NO_LIMIT = 1 << 60  # the first cgroup version writes a huge number where there is no limit


@dataclass(frozen=True, slots=True)
class Core:
    """One logical processor. Those with the same `package` and `core` share one physical core."""

    cpu: int
    package: int
    core: int
    numa_node: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The machine's (or the container's) memory in bytes."""

    total_bytes: int
    available_bytes: int


def group_cores(cores: Sequence[Core], most: int | None = None) -> list[tuple[int, list[int]]]:
    """Returns (NUMA node, logical processors) for each group.

    A group has up to four processors of one NUMA node, at most half of the node's, so that a small machine has two
    groups; the threads of a physical core stay together where they can. `most` limits the processors in use (a
    container's quota).
    """
    ordered = sorted(cores, key=lambda one: (one.numa_node, one.package, one.core, one.cpu))[:most]
    groups: list[tuple[int, list[int]]] = []
    for node in sorted({one.numa_node for one in ordered}):
        cpus = [one.cpu for one in ordered if one.numa_node == node]
        size = max(1, min(MOST_CORES, len(cpus) // 2))
        for begin in range(0, len(cpus), size):
            groups.append((node, sorted(cpus[begin : begin + size])))
    return groups


def core_list(cpus: Sequence[int]) -> str:
    """Returns sorted processors as the kernel writes them, such as `0-3,8`."""
    parts: list[str] = []
    begin = previous = cpus[0]
    for cpu in [*cpus[1:], -1]:
        if cpu != previous + 1:
            parts.append(str(begin) if begin == previous else f"{begin}-{previous}")
            begin = cpu
        previous = cpu
    return ",".join(parts)


def observe(
    groups: Sequence[tuple[int, Sequence[int]]], name: str, memory: Memory, busy: Mapping[int, float]
) -> tuple[AcceleratorObserved, ...]:
    """Returns the groups as accelerators, each with its share of the memory; `busy` maps a processor to 0..1."""
    processors = sum(len(cpus) for _, cpus in groups)
    found: list[AcceleratorObserved] = []
    for index, (node, cpus) in enumerate(groups):
        share = len(cpus) / processors
        total, free = int(memory.total_bytes * share), int(memory.available_bytes * share)
        measured = [busy[cpu] for cpu in cpus if cpu in busy]
        address = core_list(cpus)
        found.append(
            AcceleratorObserved(
                uuid=f"cpu-{address}",
                index=index,
                kind="cpu",
                name=f"{name}, {len(cpus)} core{'s' if len(cpus) > 1 else ''}",
                address=address,
                memory_total_bytes=total,
                memory_used_bytes=total - free,
                memory_free_bytes=free,
                utilization=sum(measured) / len(measured) if measured else None,
                numa_node=node,
            )
        )
    return tuple(found)


class BusyMeter:
    """How busy each processor was since the last reading."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}  # cpu -> (idle ticks, all ticks)

    def read(self) -> dict[int, float]:
        """Returns processor -> share of time it was busy; empty at the first reading."""
        now: dict[int, tuple[int, int]] = {}
        for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
            if line.startswith("cpu") and line[3].isdigit():
                name, *fields = line.split()
                ticks = [int(field) for field in fields[:8]]
                now[int(name[3:])] = (ticks[3] + ticks[4], sum(ticks))
        before, self._before = self._before, now
        return {
            cpu: 1.0 - (idle - before[cpu][0]) / (total - before[cpu][1])
            for cpu, (idle, total) in now.items()
            if cpu in before and total > before[cpu][1]
        }


def read_cores() -> list[Core]:
    """Returns the processors that this process may use."""
    return [
        Core(
            cpu,
            _number(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id")) or 0,
            _number(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/core_id")) or 0,
            _numa_node(cpu),
        )
        for cpu in sorted(os.sched_getaffinity(0))
    ]


def read_quota(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Returns how many processors the container's quota allows at least in part, None without a quota."""
    try:
        quota, period = (root / "cpu.max").read_text(encoding="ascii").split()
        return None if quota == "max" else max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    quota_us = _number(root / "cpu" / "cpu.cfs_quota_us")
    period_us = _number(root / "cpu" / "cpu.cfs_period_us")
    return max(1, -(-quota_us // period_us)) if quota_us and quota_us > 0 and period_us else None


def read_memory(root: Path = Path("/sys/fs/cgroup")) -> Memory:
    """Returns the memory of the machine, or of the container where that is smaller."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
    total, available = kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024
    for limit_file, used_file in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, used = _number(root / limit_file), _number(root / used_file)
        if limit is not None and limit < min(total, _NO_LIMIT):
            return Memory(limit, max(0, min(available, limit - (used or 0))))
    return Memory(total, available)


def cpu_name() -> str:
    """Returns the processor's model name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return " ".join(line.split(":", 1)[1].split())
    return os.uname().machine


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _numa_node(cpu: int) -> int:
    for entry in Path(f"/sys/devices/system/cpu/cpu{cpu}").glob("node[0-9]*"):
        return int(entry.name[4:])
    return 0
