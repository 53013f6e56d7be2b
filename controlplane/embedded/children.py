"""The processes that the launcher keeps running: how each is started, known to be ready, restarted and ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from controlplane.embedded import proc
from controlplane.embedded.problems import LauncherError, in_words
from controlplane.embedded.proc import ProcessId

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 20.0  # back within 60 s, start-up included
STEADY_AFTER_S = 60.0


def pause_s(failures: int) -> float:
    """Returns how long to wait before the next start after this many failures in a row."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** max(0, failures - 1))


def nothing() -> None:
    """Is done before the start of a process that needs nothing."""


def always() -> bool:
    """Is the readiness of a process that has no port to ask."""
    return True


@dataclass(frozen=True, slots=True)
class Service:
    """What one process is. `command` already holds its own parent-death guard when `guarded` is False."""

    name: str
    command: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)
    ready: Callable[[], bool] = always
    before: Callable[[], None] = nothing
    stop_signal: signal.Signals = signal.SIGTERM
    stop_patience_s: float = 15.0
    guarded: bool = True


class Child:
    """One service and its process. Time is given by the caller, in monotonic seconds."""

    def __init__(self, service: Service, log: Path, cwd: Path) -> None:
        self.service = service
        self.log = log
        self.cwd = cwd
        self.process: subprocess.Popen[bytes] | None = None
        self.identity: ProcessId | None = None
        self.started_at = 0.0
        self.failures = 0
        self.not_before = 0.0
        self.wanted = True
        self.last_exit: int | None = None

    def start(self, now: float) -> None:
        """Starts the process in a session of its own, so that a terminal's Ctrl-C reaches the launcher alone."""
        self.service.before()
        # If the launcher is killed, its death ends the process at once; what only keeps state in memory needs no grace.
        guard = ["setpriv", "--pdeathsig", "KILL"] if self.service.guarded else []
        descriptor = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self.process = subprocess.Popen(
                [*guard, *self.service.command], stdin=subprocess.DEVNULL, stdout=descriptor, stderr=descriptor,
                env=dict(self.service.environ), cwd=self.cwd, start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(descriptor)
        self.identity = proc.identify(self.process.pid)
        self.started_at = now

    def keep(self, now: float) -> str | None:
        """Restarts the process when it has ended and its pause is over; returns a sentence when something happened."""
        if self.process is None:
            return self._start_again(now) if self.wanted and now >= self.not_before else None
        status = self.process.poll()
        if status is None:
            if self.failures and now - self.started_at > STEADY_AFTER_S:
                self.failures = 0
            return None
        self.process, self.identity, self.last_exit = None, None, status
        return self._failed(exit_words(status), now) if self.wanted else None

    def _start_again(self, now: float) -> str | None:
        try:
            self.start(now)
        except (OSError, LauncherError) as error:  # a full disk must not end the processes that still run
            return self._failed(f"can't be started: {in_words(error)}", now)
        return f"{self.service.name}: started again" if self.failures else None

    def _failed(self, what: str, now: float) -> str:
        self.failures += 1
        pause = pause_s(self.failures)
        self.not_before = now + pause
        return f"{self.service.name}: {what}; starting it again in {pause:.1f} s (log: {self.log})"

    def is_running(self) -> bool:
        """Returns whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def ask_to_end(self) -> None:
        """Sends the stop signal and wants the process no more."""
        self.wanted = False
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.service.stop_signal)

    def kill(self) -> None:
        """Ends the process without grace."""
        self.wanted = False
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)


def exit_words(status: int) -> str:
    """Returns an exit status in words."""
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def remember(children: list[Child], path: Path) -> None:
    """Writes which processes run, so that another launcher can find what a killed one has left."""
    table = {child.service.name: asdict(child.identity) for child in children if child.identity is not None}
    scratch = path.with_name(path.name + ".new")
    scratch.write_text(json.dumps(table), encoding="utf-8")
    scratch.replace(path)


def remembered(path: Path) -> dict[str, ProcessId]:
    """Returns the processes that were running when the table was last written."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): ProcessId(int(row["pid"]), int(row["start_ticks"])) for name, row in table.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
