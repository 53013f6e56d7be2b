"""What the kernel says of a process on this machine: for how long it ran, and for how long it waited for a CPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NS = 1e9
_WANTS = frozenset("RD")  # runnable, or waiting for a disk


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Since the process's main thread began. `wants_cpu`: it would go on if it could."""

    ran_s: float
    waited_s: float
    wants_cpu: bool


def read(pid: int) -> CpuTime | None:
    """Returns the times of a process; None when it is gone or the kernel does not count them."""
    folder = Path(f"/proc/{pid}")
    try:
        ran, waited, _ = (folder / "schedstat").read_text().split()
        state = (folder / "stat").read_text().rpartition(") ")[2][:1]
    except (OSError, ValueError):
        return None
    return CpuTime(int(ran) / NS, int(waited) / NS, state in _WANTS)
