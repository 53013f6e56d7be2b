"""What /proc tells about processes. A process is known by pid and start time, for pids are used again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_STATE, _START_TICKS = 0, 19  # fields 3 and 22 of stat, counted after the program's name


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that can't be mistaken for a later one with the same pid."""

    pid: int
    start_ticks: int


def _stat(pid: int) -> list[str] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name may hold blanks and brackets


def identify(pid: int) -> ProcessId | None:
    """Returns the identity of a living process; None for none and for a zombie."""
    fields = _stat(pid)
    if fields is None or fields[_STATE] in "ZX":
        return None
    return ProcessId(pid, int(fields[_START_TICKS]))


def is_alive(process: ProcessId) -> bool:
    """Returns whether exactly this process still runs."""
    return identify(process.pid) == process


def all_pids() -> list[int]:
    """Returns the pids of all processes."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def command_line(pid: int) -> str:
    """Returns the command line with blanks between the arguments; empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def environment(pid: int) -> dict[str, str]:
    """Returns the environment that a process was started with; empty when it is gone or another user's."""
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    split = (pair.decode(errors="surrogateescape").partition("=") for pair in pairs if b"=" in pair)
    return {name: value for name, _, value in split}


def with_variable(name: str, value: str) -> list[ProcessId]:
    """Returns the living processes whose environment has `name`=`value`, without this one."""
    wanted = f"{name}={value}".encode()
    found: list[ProcessId] = []
    for pid in all_pids():
        try:
            has_it = wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        process = identify(pid) if has_it and pid != os.getpid() else None
        if process is not None:
            found.append(process)
    return found


def group_members(group: int) -> list[ProcessId]:
    """Returns the living processes of a process group."""
    found: list[ProcessId] = []
    for pid in all_pids():
        fields = _stat(pid)
        if fields is not None and fields[_STATE] not in "ZX" and int(fields[2]) == group:
            found.append(ProcessId(pid, int(fields[_START_TICKS])))
    return found


def send(process: ProcessId, number: signal.Signals) -> None:
    """Sends a signal when exactly this process still runs."""
    if is_alive(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def end(processes: Iterable[ProcessId], patience_s: float, first: signal.Signals = signal.SIGTERM) -> list[ProcessId]:
    """Sends `first`, after `patience_s` SIGKILL, and returns those that live even then."""
    living = [process for process in processes if is_alive(process)]
    for process in living:
        send(process, first)
    if not wait_until(lambda: not any(map(is_alive, living)), patience_s):
        for process in living:
            send(process, signal.SIGKILL)
        wait_until(lambda: not any(map(is_alive, living)), 5)
    return [process for process in living if is_alive(process)]


def wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Waits until the condition holds and returns True, or False after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.1)
    return True
