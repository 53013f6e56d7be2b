"""`python -m controlplane.gateway`: the data plane as a process of its own."""

from __future__ import annotations

import contextlib
import gc
import logging
import resource
import sys

import uvloop

from controlplane import env
from controlplane.gateway.process import Process
from controlplane.gateway.settings import read_settings


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


def main() -> int:
    try:
        logging.basicConfig(level=env.log_level(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        settings = read_settings()
    except env.SettingError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    allow_many_files()
    server = Process(settings).server()
    spare_the_collector()
    uvloop.run(server.serve())
    return 0


if __name__ == "__main__":
    sys.exit(main())
