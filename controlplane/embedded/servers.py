"""PostgreSQL and Valkey of an installation: made ready to start, also after everything was killed."""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Mapping
from pathlib import Path

from controlplane.embedded import logs, postgres, proc, say, valkey
from controlplane.embedded.children import Service
from controlplane.embedded.layout import Layout
from controlplane.embedded.problems import LauncherError
from controlplane.embedded.proc import ProcessId

VALKEY_SOCKET = "valkey.sock"


def postgres_service(layout: Layout, environ: Mapping[str, str]) -> Service:
    """Returns PostgreSQL on a socket; makes its data folder when there is none."""
    data, sockets = layout.home / "postgres", layout.sockets
    make_cluster(data)
    # its own fast shutdown when the launcher is killed: open transactions are rolled back, files are closed in order
    command = postgres.server_command(data, sockets, guard=("setpriv", "--pdeathsig", "INT"))
    return Service(
        name="postgres", command=tuple(command), environ=environ, guarded=False,
        ready=lambda: postgres.is_ready(sockets), before=lambda: clear_stale_postgres(data, layout.make_sockets()),
        stop_signal=signal.SIGINT, stop_patience_s=30.0,
    )  # fmt: skip


def make_cluster(data: Path) -> None:
    """Makes a new cluster at `data` in one step; one that is there is checked and left as it is."""
    version_file = data / "PG_VERSION"
    if not version_file.exists():
        if data.exists() and any(data.iterdir()):
            raise LauncherError(f"{data} holds files but no PostgreSQL cluster. Move them away and run make up again.")
        scratch = data.with_name(data.name + ".new")
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            postgres.initialise(scratch)
        except postgres.PostgresError as error:
            raise LauncherError(str(error)) from error
        if data.exists():
            data.rmdir()
        scratch.rename(data)
        return
    found, ours = version_file.read_text(encoding="ascii").strip(), postgres.major_version()
    if found != ours:
        raise LauncherError(
            f"The data in {data} was written by PostgreSQL {found}, and this version of Headworks brings {ours}. "
            "Restore a backup into a new HEADWORKS_HOME (manage.py backup and restore)."
        )
    postgres.give_files(data)


def clear_stale_postgres(data: Path, sockets: Path) -> None:
    """Makes the way free for a start: ends a server that a killed launcher left, and removes its lock files.

    PostgreSQL takes any living process with the noted pid for a server; after a restart of the machine or container
    that may be anything.
    """
    lock = data / "postmaster.pid"
    server = _postgres_in(lock, data)
    if server is not None:
        proc.end([server], 20, first=signal.SIGINT)
    lock.unlink(missing_ok=True)
    for path in (sockets / ".s.PGSQL.5432", sockets / ".s.PGSQL.5432.lock"):
        path.unlink(missing_ok=True)


def _postgres_in(lock: Path, data: Path) -> ProcessId | None:
    try:
        pid = int(lock.read_text(encoding="utf-8").split("\n", 1)[0])
    except (OSError, ValueError):
        return None
    process = proc.identify(pid)
    is_ours = process is not None and str(data) in proc.command_line(pid).split()
    return process if is_ours else None


def valkey_service(layout: Layout, environ: Mapping[str, str]) -> Service:
    """Returns Valkey on a socket, with everything it accepted kept on disk."""
    data, path = layout.home / "valkey", layout.sockets / VALKEY_SOCKET

    def make_ready() -> None:
        layout.make_sockets()  # a tidy-up of /tmp may have taken it away
        make_valkey_data(data, layout.logs / "valkey.log")

    try:
        command = ["setpriv", "--pdeathsig", "TERM", *valkey.server_command(data, path)]
    except valkey.ValkeyError as error:
        raise LauncherError(str(error)) from error
    return Service(
        name="valkey", command=tuple(command), environ=environ, guarded=False,
        ready=lambda: answers_ping(path), before=make_ready, stop_patience_s=15.0,
    )  # fmt: skip


def make_valkey_data(data: Path, log: Path) -> None:
    """Makes the data folder where it is missing, and readable where the last start has found it damaged."""
    data.mkdir(exist_ok=True, mode=0o700)
    if valkey.found_damage(logs.tail(log, 200)) and (data / "appendonlydir").exists():
        say.step(f"valkey: {valkey.mend(data)}")


def answers_ping(path: Path) -> bool:
    """Returns whether Valkey answers on its socket and has read its data."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(2)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False
