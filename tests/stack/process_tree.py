"""Every process of a stack, found by descent, group and session, and by what stands in its environment."""

from __future__ import annotations

from pathlib import Path

from controlplane.embedded import proc, stack
from controlplane.embedded.engines import living
from controlplane.embedded.layout import Layout
from controlplane.embedded.proc import ProcessId


def _rows() -> dict[int, tuple[int, int, int]]:
    """Returns pid → (parent, group, session) of every living process."""
    rows = {}
    for pid in proc.all_pids():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            rows[pid] = (int(fields[1]), int(fields[2]), int(fields[3]))
    return rows


def everything(layout: Layout, launcher: ProcessId | None) -> set[ProcessId]:
    """Returns the launcher, what it has started, the engines, and whatever descends from one of them."""
    servers, others = stack.living_processes(layout)
    found = {process.pid for process in [*servers, *others]} | ({launcher.pid} if launcher else set())
    found |= {member.pid for engine in living(layout.home) for member in proc.group_members(engine.group)}
    rows, size = _rows(), 0
    while size != len(found):
        size = len(found)
        found |= {pid for pid, kin in rows.items() if not found.isdisjoint(kin)}
    return {process for pid in found if (process := proc.identify(pid)) is not None}


def naming(home: Path) -> list[str]:
    """Returns the command lines of processes that have the data folder in their environment or among their arguments.

    A walk over the whole of /proc: it also finds what has left every group and lost its parent.
    """
    found = []
    for pid in proc.all_pids():
        try:
            text = b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))
        except OSError:
            continue
        if str(home).encode() in text:
            found.append(f"{pid} {proc.command_line(pid)}")
    return found
