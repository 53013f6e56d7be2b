"""Several gateway processes behind one port: one parent that holds the socket, and starts again what has died.

Guarantees
    All processes accept from one listening socket, which the parent keeps open: a killed process loses its own
    connections and nothing that waits to be accepted. The parent itself serves nothing and has no event loop.
    When the parent is killed, so are they (the system tells them), and a new parent finds the port free.
    A process that has written no figures for `silence.HUNG_AFTER_S`, in which it could have, is killed, since its
    connections hang with it.
    Told to end, the port is closed at once, so that nobody waits there in vain, and what runs goes on.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controlplane.gateway import summing
from controlplane.gateway.members import SOCKET
from controlplane.gateway.settings import GatewaySettings
from controlplane.gateway.silence import LOOK_S, Silence
from controlplane.lib import cpu_time
from controlplane.lib.ids import new_id

logger = logging.getLogger(__name__)

BACKLOG = 4096
BIND_PATIENCE_S = 15.0  # those of a killed parent may still finish what runs
STABLE_AFTER_S = 5.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
LAST_WORDS_S = 10.0  # beyond the time for what runs, for what is owed to Valkey
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
PREFIX = "hwg-"
LOCK = "parent.lock"


@dataclass(slots=True)
class _Place:
    """One of the processes, and when it is to be started again."""

    slot: int
    process: subprocess.Popen[bytes] | None = None
    id: str = ""
    started_at: float = 0.0
    pause_s: float = 0.0
    start_at: float = 0.0
    silence: Silence | None = None


class Parent:
    """Runs until SIGTERM or SIGINT."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._settings = settings
        self._places = [_Place(slot) for slot in range(settings.processes)]
        self._looked_at = time.monotonic()

    def run(self) -> int:
        """Returns the exit status: 0 when every process has ended as it was told to."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            listener = _listen(self._settings.bind, self._settings.port)
        except OSError as error:
            logger.error("%s:%d can't be listened on: %s", self._settings.bind, self._settings.port, error)
            return 1
        with listener, _private_folder() as folder:
            while not self._must_end(self._look_after(listener, folder)):
                pass
            return self._end(listener)

    def _look_after(self, listener: socket.socket, folder: Path) -> float:
        """Starts what is due; returns for how long there is nothing to do."""
        now = time.monotonic()
        for place in self._places:
            if place.process is not None and (status := place.process.poll()) is not None:
                self._has_ended(place, status, now, folder)
            if place.process is None and place.start_at <= now:
                self._start(place, listener, folder)
        self._end_hung(now, folder)
        return min((one.start_at - now for one in self._places if one.process is None), default=LOOK_S)

    def _start(self, place: _Place, listener: socket.socket, folder: Path) -> None:
        place.id, place.started_at, place.silence = new_id(8), time.monotonic(), None
        arguments = [place.id, str(place.slot), str(listener.fileno()), str(folder)]
        command = [sys.executable, "-m", "controlplane.gateway", "--worker", *arguments]
        place.process = subprocess.Popen(command, pass_fds=[listener.fileno()])
        logger.info("gateway process %d has started: %s, pid %d", place.slot, place.id, place.process.pid)

    def _has_ended(self, place: _Place, status: int, now: float, folder: Path) -> None:
        if now - place.started_at >= STABLE_AFTER_S:
            place.pause_s = 0.0
        place.process, place.start_at = None, now + place.pause_s
        logger.warning(
            "gateway process %d (%s) has ended with status %d; starting it again in %.1f s",
            place.slot,
            place.id,
            status,
            place.pause_s,
        )
        place.pause_s = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, 2 * place.pause_s))
        (folder / f"{place.id}{SOCKET}").unlink(missing_ok=True)
        summing.fold(folder, [one.id for one in self._places if one.process is not None])

    def _end_hung(self, now: float, folder: Path) -> None:
        late, self._looked_at = now - self._looked_at > 2 * LOOK_S, now  # nobody ran then, as it seems
        for place in self._places:
            if place.process is None:
                continue
            written = _written(folder / f"{place.id}{summing.SUFFIX}")
            if late or place.silence is None or place.silence.sign != written:
                place.silence = Silence(written, now, cpu_time.read(place.process.pid))
            elif place.silence.is_too_long(now, cpu_time.read(place.process.pid)):
                logger.error("gateway process %d (%s) hangs; it is killed", place.slot, place.id)
                place.process.kill()

    def _must_end(self, wait_s: float) -> bool:
        found = signal.sigtimedwait(SIGNALS, max(0.0, wait_s))
        return found is not None and found.si_signo != signal.SIGCHLD

    def _end(self, listener: socket.socket) -> int:
        running = [place.process for place in self._places if place.process is not None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        listener.close()
        self._wait_for(running, time.monotonic() + self._settings.drain_s + LAST_WORDS_S)
        for process in running:
            if process.poll() is None:
                logger.error("the gateway process with pid %d does not end; it is killed", process.pid)
                process.kill()
                process.wait()
        # one that was still starting ends by the signal itself
        return int(any(process.returncode not in (0, -signal.SIGTERM) for process in running))

    def _wait_for(self, running: list[subprocess.Popen[bytes]], deadline: float) -> None:
        """Returns when all have ended, at the latest at the deadline; a second signal is theirs too."""
        while any(process.poll() is None for process in running) and (left_s := deadline - time.monotonic()) > 0:
            if self._must_end(min(left_s, LOOK_S)):
                for process in running:
                    process.send_signal(signal.SIGTERM)


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _listen(host: str, port: int) -> socket.socket:
    """Returns the listening socket; raises OSError."""
    deadline = time.monotonic() + BIND_PATIENCE_S
    family, kind, number, _, address = socket.getaddrinfo(
        host or None, port, 0, socket.SOCK_STREAM, 0, socket.AI_PASSIVE
    )[0]
    while True:
        listener = socket.socket(family, kind, number)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError:
            listener.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            listener.setblocking(False)
            return listener


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder for this user alone, whose name is short (a socket's path may have 107 bytes), gone at the end; so are
    those that killed parents have left."""
    base = Path(tempfile.gettempdir())
    if len(str(base)) > 60:
        base = Path("/tmp")  # noqa: S108 - the folder is made 0700, with a name that nobody can foresee
    for old in base.glob(f"{PREFIX}*"):
        _remove_if_left(old)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_if_left(folder: Path) -> None:
    """Whoever made it holds its lock as long as he lives."""
    try:
        if folder.lstat().st_uid != os.geteuid():
            return
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
