"""What the launcher is asked to start: addresses, ports, names, and the environment of every process."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane import env
from controlplane.embedded import postgres, valkey
from controlplane.embedded.layout import Layout
from controlplane.embedded.preflight import Port
from controlplane.embedded.prepare import Prepared
from controlplane.embedded.servers import VALKEY_SOCKET

# only the first start asks for it; no process that serves needs to know
FIRST_PASSWORD = ("HEADWORKS_ADMIN_PASSWORD", "HEADWORKS_ADMIN_PASSWORD_FILE")
MARK = "HEADWORKS_LAUNCHER"  # in the environment of every process that the launcher starts, and of none else
# Variables of a person's shell that would change what the processes load.
_UNWANTED = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "DJANGO_SETTINGS_MODULE", "VIRTUAL_ENV", "MAKEFLAGS",
             "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES", "DETACH")  # fmt: skip


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """Addresses and names of this installation."""

    bind: str
    console_port: int
    gateway_port: int
    node_name: str
    tls: bool
    gateway_processes: int = 1

    @property
    def host(self) -> str:
        """The address under which this machine itself reaches both ports."""
        if self.bind in ("0.0.0.0", ""):  # noqa: S104 - compared, not bound
            return "127.0.0.1"
        if ":" in self.bind:
            return "[::1]" if self.bind == "::" else f"[{self.bind}]"
        return self.bind

    @property
    def console_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.console_port}"

    @property
    def gateway_url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.gateway_port}"

    @property
    def ports(self) -> list[Port]:
        return [
            Port("console", "HEADWORKS_CONSOLE_PORT", self.console_port),
            Port("gateway", "HEADWORKS_GATEWAY_PORT", self.gateway_port),
        ]


def read_settings(layout: Layout) -> LaunchSettings:
    """Returns the settings of the environment; raises SettingError naming a variable that can't be used."""
    return LaunchSettings(
        bind=env.read_str("HEADWORKS_BIND", "127.0.0.1"),
        console_port=env.read_int("HEADWORKS_CONSOLE_PORT", 8000, low=1, high=65535),
        gateway_port=env.read_int("HEADWORKS_GATEWAY_PORT", 8080, low=1, high=65535),
        node_name=node_name(layout.home / "node-name"),
        tls=bool(env.read_str("HEADWORKS_TLS_CERT", "")),
        gateway_processes=env.read_int("HEADWORKS_GATEWAY_PROCESSES", 1, low=1, high=64),
    )


def node_name(path: Path) -> str:
    """Returns this node's name: as set, else as in an earlier run, else the host's name.

    It is kept because records and rows refer to it, while the host's name may change (containers, laptops).
    """
    named = os.environ.get("HEADWORKS_NODE_NAME", "")
    if named:
        return named
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    host = re.sub(r"[^a-z0-9-]+", "-", os.uname().nodename.split(".")[0].lower()).strip("-")[:63] or "node"
    path.write_text(host + "\n", encoding="utf-8")
    return host


def ensure_secret_key(path: Path) -> None:
    """Makes the secret that signs sessions, for this user alone, unless there is one."""
    if path.exists() and path.stat().st_size > 0:
        path.chmod(0o600)
        return
    write_private(path, secrets.token_urlsafe(50) + "\n")


def write_private(path: Path, text: str) -> None:
    """Writes a file that only this user may read; whoever reads it sees the old or the new content."""
    scratch = path.with_name(path.name + ".new")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def has_own_database() -> bool:
    """Returns whether PostgreSQL has to be started here."""
    return not (os.environ.get("DATABASE_URL") or os.environ.get("DATABASE_URL_FILE"))


def has_own_valkey() -> bool:
    """Returns whether Valkey has to be started here."""
    return not (os.environ.get("REDIS_URL") or os.environ.get("REDIS_URL_FILE"))


def process_environment(
    parent: Mapping[str, str], layout: Layout, settings: LaunchSettings, prepared: Prepared
) -> dict[str, str]:
    """Returns the environment of all processes: the parent's with what Headworks needs to know."""
    unwanted = (*_UNWANTED, *FIRST_PASSWORD)
    out = {name: value for name, value in parent.items() if name not in unwanted}
    out[MARK] = str(layout.home)
    out["PYTHONUNBUFFERED"] = "1"
    out["HEADWORKS_HOME"] = str(layout.home)
    out["HEADWORKS_BIND"] = settings.bind
    out["HEADWORKS_CONSOLE_PORT"] = str(settings.console_port)
    out["HEADWORKS_GATEWAY_PORT"] = str(settings.gateway_port)
    out["HEADWORKS_GATEWAY_PROCESSES"] = str(settings.gateway_processes)
    out.setdefault("HEADWORKS_CONSOLE_URL", settings.console_url)
    out.setdefault("HEADWORKS_GATEWAY_URL", settings.gateway_url)
    out["HEADWORKS_NODE_NAME"] = settings.node_name
    out.setdefault("HEADWORKS_NODE_ADDRESS", "127.0.0.1")
    out["HEADWORKS_ENGINE_PYTHON"] = str(prepared.engine_python)
    out["HEADWORKS_MODEL_PATH"] = str(prepared.model)
    out.setdefault("HEADWORKS_COMPILED", str(layout.cache / "compiled"))
    if not (parent.get("HEADWORKS_SECRET_KEY") or parent.get("HEADWORKS_SECRET_KEY_FILE")):
        out["HEADWORKS_SECRET_KEY_FILE"] = str(layout.secret_key)
    if has_own_database():
        out["DATABASE_URL"] = postgres.url(layout.sockets)
    if has_own_valkey():
        out["REDIS_URL"] = valkey.url(layout.sockets / VALKEY_SOCKET)
    return out
