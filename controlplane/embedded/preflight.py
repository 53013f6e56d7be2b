"""What has to be true of the machine before any work starts: room on the disks, free ports, a driver or none.

Missing programs are named by launch.sh, which runs before any Python does.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded import proc
from controlplane.embedded.problems import LauncherError

GB = 1_000_000_000
FIRST_RUN_BYTES = 6 * GB  # 4 GB stay: engine 3.5, control plane 0.4; the rest passes through (downloads)
LATER_RUN_BYTES = GB // 2  # logs, database and Valkey's file have to grow


@dataclass(frozen=True, slots=True)
class Port:
    """A port that Headworks listens on and the variable that changes it."""

    what: str
    variable: str
    number: int


def disk_problem(place: str, free_bytes: int, needed_bytes: int) -> str | None:
    """Returns a sentence when `place` has too little room, else None."""
    if free_bytes >= needed_bytes:
        return None
    return (
        f"Too little room on the disk: {place} has {free_bytes / GB:.1f} GB free and {needed_bytes / GB:.1f} GB are "
        "needed. Free some, or set HEADWORKS_CACHE (environments, models) or HEADWORKS_HOME (data) to a larger disk."
    )


def check_disk(folder: Path, needed_bytes: int) -> None:
    """Raises LauncherError when the disk that holds (or will hold) `folder` has too little room."""
    existing = folder
    while not existing.exists():
        existing = existing.parent
    found = disk_problem(str(folder), shutil.disk_usage(existing).free, needed_bytes)
    if found:
        raise LauncherError(found)


def check_ports(bind: str, ports: list[Port]) -> None:
    """Raises LauncherError naming every port that can't be listened on, with the process that has it."""
    if len({port.number for port in ports}) < len(ports):
        names = " and ".join(port.variable for port in ports)
        raise LauncherError(f"{names} are the same port. Give each its own.")
    problems = [found for port in ports if (found := port_problem(bind, port))]
    if problems:
        raise LauncherError(" ".join(problems))


def port_problem(bind: str, port: Port) -> str | None:
    """Returns a sentence when the port can't be listened on, else None."""
    try:
        family = socket.getaddrinfo(bind, port.number, type=socket.SOCK_STREAM)[0][0]
    except OSError:
        return f"HEADWORKS_BIND={bind} is not an address of this machine."
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what the servers do; TIME_WAIT is no hindrance
        try:
            probe.bind((bind, port.number))
            probe.listen(1)
        except OSError as error:
            return _port_sentence(bind, port, error)
    return None


def _port_sentence(bind: str, port: Port, error: OSError) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"HEADWORKS_BIND={bind} is not an address of this machine."
    if error.errno == errno.EACCES:
        return f"Port {port.number} ({port.what}) needs root. Choose one above 1023 with {port.variable}=…."
    owner = listener(port.number)
    by = f" by process {owner} ({proc.command_line(owner)[:60]})" if owner else " by another program"
    return (
        f"Port {port.number} ({port.what}) is in use{by}. "
        f"End that program or choose another port with {port.variable}={port.number + 1}."
    )


def listener(port: int) -> int | None:
    """Returns the pid that listens on a TCP port, None when there is none or it can't be seen."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    for pid in proc.all_pids() if sockets else []:
        try:
            descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                if str(descriptor.readlink()) in sockets:
                    return pid
            except OSError:
                continue
    return None


def _listening_inodes(port: int) -> set[str]:
    wanted, found = f":{port:04X}", set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            rows = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                found.add(fields[9])
    return found


def engine_build() -> str:
    """Returns "gpu" where an NVIDIA driver is loaded, else "cpu"; `HEADWORKS_ENGINE_BUILD` overrides."""
    named = os.environ.get("HEADWORKS_ENGINE_BUILD", "")
    if named in ("cpu", "gpu"):
        return named
    if named:
        raise LauncherError(f"HEADWORKS_ENGINE_BUILD={named} is neither cpu nor gpu.")
    return "gpu" if Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidiactl").exists() else "cpu"
