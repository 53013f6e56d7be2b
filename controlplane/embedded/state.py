"""One launcher per data folder: the lock that it holds while it lives, and what it tells others about itself."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from controlplane.embedded import proc
from controlplane.embedded.layout import Layout
from controlplane.embedded.proc import ProcessId
from controlplane.embedded.settings import write_private

STARTING, READY, STOPPING = "starting", "ready", "stopping"


@dataclass(frozen=True, slots=True)
class LauncherState:
    """A launcher as `make down` and a second `make up` see it."""

    pid: int
    start_ticks: int
    phase: str
    console_url: str
    gateway_url: str
    problem: str = ""  # what did not become ready

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.pid, self.start_ticks)


def take_lock(layout: Layout) -> int | None:
    """Returns the descriptor of the held lock, None when another launcher holds it. It is free when its holder dies."""
    descriptor = os.open(layout.home / "launcher.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def write(path: Path, phase: str, console_url: str, gateway_url: str, problem: str = "") -> None:
    """Says what this launcher is doing."""
    me = proc.identify(os.getpid())
    assert me is not None, "the own process is alive"
    state = LauncherState(me.pid, me.start_ticks, phase, console_url, gateway_url, problem)
    write_private(path, json.dumps(asdict(state)))


def read(path: Path) -> LauncherState | None:
    """Returns the launcher that runs, None when there is none (also when it left its file behind)."""
    try:
        state = LauncherState(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return state if proc.is_alive(state.process) else None
