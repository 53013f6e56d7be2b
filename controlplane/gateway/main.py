"""The data plane as a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import uvloop

from controlplane import env
from controlplane.gateway.parent import Parent
from controlplane.gateway.process import Process
from controlplane.gateway.settings import GatewaySettings, Worker, read_settings

PR_SET_PDEATHSIG = 1


def allow_many_files() -> None:
    """Each stream holds two sockets; the soft limit of 1,024 is raised to what the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def spare_the_collector() -> None:
    """What is loaded by now stays, so the garbage collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def main(arguments: Sequence[str]) -> int:
    try:
        settings = read_settings()
    except env.SettingError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    allow_many_files()
    if arguments[:1] == ["--worker"]:
        settings = replace(settings, worker=as_worker(*arguments[1:]))
    elif settings.processes > 1:
        return Parent(settings).run()
    serve(settings)
    return 0


def as_worker(own_id: str, slot: str, listener: str, folder: str) -> Worker:
    """Becomes one of several processes; what follows `--worker` is said by their parent alone."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the parent waits for its signals, and its children inherit that
    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it has died meanwhile
        signal.raise_signal(signal.SIGTERM)
    return Worker(own_id, int(slot), int(listener), Path(folder))


def serve(settings: GatewaySettings) -> None:
    """Serves until SIGTERM or SIGINT."""
    server = Process(settings).server()
    sockets = None if settings.worker is None else [socket.socket(fileno=settings.worker.listener)]
    spare_the_collector()
    uvloop.run(server.serve(sockets))
