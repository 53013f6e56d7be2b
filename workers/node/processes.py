"""Engine processes on this machine: starting, recognising, and ending them with all their children.

An engine leads its own session and process group, so it outlives the worker, and everything it starts can be found
by that group or session. A pid alone identifies nothing: `Identity` adds the start time in clock ticks and the boot
and pid namespace in which both mean something. While any process of a group or session lives, the kernel gives the
leader's pid to nobody else; so a stranger under that pid proves that the whole group is gone.
"""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

# In the engine's environment: the replica's folder. It finds a process whose pid was never written down or whose record
# is lost, and never one of another installation on this machine.
MARK = "HEADWORKS_REPLICA_FOLDER"
_CLOCK_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Identity:
    """One process, for as long as this machine (or container) runs. It leads the group and the session `pid`."""

    pid: int
    started_ticks: int
    place: str


@dataclass(frozen=True, slots=True)
class Stat:
    """What `/proc/<pid>/stat` says of a process."""

    pid: int
    state: str  # Z = zombie, X = dead
    group: int
    session: int
    started_ticks: int

    @property
    def is_dead(self) -> bool:
        """A zombie is dead: it serves nothing and waits only for its parent to take notice."""
        return self.state in ("Z", "X", "x")


@functools.cache
def boot() -> str:
    """Returns the id of the running boot of this machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@functools.cache
def place() -> str:
    """Returns the boot and the pid namespace of this process; a pid of another place means nothing here."""
    return f"{boot()} {Path('/proc/self/ns/pid').readlink()}"


def read_stat(pid: int) -> Stat | None:
    """Returns what the kernel says of a pid, None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the command's name before it may hold spaces and brackets
    return Stat(pid, fields[0], int(fields[2]), int(fields[3]), int(fields[19]))


def started_at(identity: Identity) -> float:
    """Returns the start of a process in seconds since the epoch."""
    for line in Path("/proc/stat").read_text(encoding="ascii").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + identity.started_ticks / _CLOCK_TICKS_PER_S
    raise OSError("/proc/stat has no line btime")


def start(argv: Sequence[str], env: Mapping[str, str], log: Path, folder: Path) -> Identity:
    """Starts an engine in its replica's folder, in its own session, with its output appended to `log`; raises OSError
    when it can't be. `env` is the whole environment but for `MARK`.

    None of our descriptors goes to the engine: they would keep sockets and files of the worker alive for days.
    """
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        child = subprocess.Popen(
            list(argv),
            env={**env, MARK: str(folder.resolve())},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(descriptor)
    child.returncode = 0  # `reap` waits for it; a Popen left alone would complain that its process still runs
    stat = read_stat(child.pid)
    if stat is None:
        raise ProcessLookupError(f"process {child.pid} was gone before it could be looked at")
    return Identity(child.pid, stat.started_ticks, place())


def reap(identity: Identity, patience_s: float = 0.0) -> str | None:
    """Returns how our own child ended, such as `exit code 1` or `signal SIGKILL`; None when it lives or when it is
    not our child (after the worker was restarted).

    A killed engine is a zombie for a moment before the kernel has ended all its threads and tells how it ended;
    `patience_s` is how long to wait for that.
    """
    deadline = time.monotonic() + patience_s
    try:
        while not (ended := os.waitpid(identity.pid, os.WNOHANG))[0]:
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.01)
    except ChildProcessError:
        return None
    code = os.waitstatus_to_exitcode(ended[1])
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def is_alive(identity: Identity) -> bool:
    """Returns whether this very process lives; zombies and others under the same pid don't count."""
    if identity.place != place():
        return False
    stat = read_stat(identity.pid)
    return stat is not None and stat.started_ticks == identity.started_ticks and not stat.is_dead


def members(identity: Identity) -> list[Stat]:
    """Returns the living processes of the engine's group or session, the leader among them."""
    if identity.place != place():
        return []
    leader = read_stat(identity.pid)
    if leader is not None and leader.started_ticks != identity.started_ticks:
        return []  # somebody else has the pid now, so nothing of the group is left
    return [one for one in _everybody() if not one.is_dead and identity.pid in (one.group, one.session)]


def marked(folder: Path) -> list[Stat]:
    """Returns the living processes that were started for the replica with this folder, by their environment, in order
    of their start.

    It finds what left the session, and a leader whose pid was never written down. A process that overwrites its
    environment (with a title for `ps`) is not seen.
    """
    sought = f"{MARK}={folder.resolve()}".encode()
    found = [one for one in _everybody() if not one.is_dead and sought in _environment(one.pid)]
    return sorted(found, key=lambda one: (one.started_ticks, one.pid))


def find_leader(folder: Path) -> Identity | None:
    """Returns the living leader that was started for the replica with this folder, None when there is none."""
    for one in marked(folder):
        if one.session == one.pid:
            return Identity(one.pid, one.started_ticks, place())
    return None


def strays(replicas: Path, known: Collection[str]) -> list[Stat]:
    """Returns the living processes that were started from the given folder of replicas for none of the known ones."""
    folders = f"{MARK}={replicas.resolve()}/".encode()
    ours = {f"{MARK}={replicas.resolve() / replica_id}".encode() for replica_id in known}
    found = []
    for one in _everybody():
        marks = {item for item in _environment(one.pid) if item.startswith(folders)}
        if marks and marks.isdisjoint(ours) and not one.is_dead:
            found.append(one)
    return found


def signal_all(identity: Identity, folder: Path, number: signal.Signals) -> None:
    """Sends a signal to every living process of an engine; nobody there is no error."""
    send({one.pid for one in (*members(identity), *marked(folder))}, number)


def send(pids: Collection[int], number: signal.Signals) -> None:
    """Sends a signal to processes of engines; one that is gone is no error."""
    for pid in set(pids) - {os.getpid()}:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            logger.warning("process %d of an engine belongs to another user and can't be ended", pid)


def is_gone(identity: Identity, folder: Path) -> bool:
    """Returns whether not one process of the engine is left."""
    return not members(identity) and not marked(folder)


def _everybody() -> list[Stat]:
    found = (read_stat(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208
    return [one for one in found if one is not None]


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []  # gone meanwhile, or of another user
