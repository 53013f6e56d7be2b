"""What a node keeps on disk of each replica, so that engines are found again after the worker was killed.

The supervisor is the only writer (atomic rename, 0600); the collector reads. Layout under `node_folder()`:
`desired.json` (the last good desired document), `replicas/<id>/record.json`, `replicas/<id>/engine.log`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from controlplane import env
from controlplane.domain import reporting
from controlplane.domain.desired import NodeDesired, ReplicaDesired
from controlplane.domain.lifecycle import Goal, State, Transition
from controlplane.domain.names import reserved
from controlplane.domain.observed import EngineFacts
from controlplane.domain.replica_state import ExitPhase
from controlplane.lib import wire


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """One replica on this node: the wish, the machine's state, and the process that serves it."""

    desired: ReplicaDesired
    state: State
    since: float
    goal: Goal
    seq: int
    attempt: int
    retry_at: float | None
    exit_phase: ExitPhase
    exit_since: float
    drain_timeout_s: float
    transitions: tuple[Transition, ...]
    launch: int = 0
    pid: int | None = None
    process_started_ticks: int | None = None  # field 22 of /proc/<pid>/stat; identifies the process over restarts
    process_place: str = ""  # boot and pid namespace in which `pid` means this process
    process_started_at: float | None = None
    process_group: int | None = None
    port: int | None = None
    url: str | None = None
    log_path: str | None = None
    command: tuple[str, ...] = ()
    engine_version: str | None = None
    facts: EngineFacts = field(default_factory=EngineFacts)


def node_name() -> str:
    """Returns this node's name: `HEADWORKS_NODE_NAME`, by default the host's name. Raises SettingError for a name that
    can't be an address."""
    name = env.read_str("HEADWORKS_NODE_NAME", os.uname().nodename.split(".")[0].lower())
    if reserved(name):
        raise env.SettingError(f"{reserved(name)} It comes from HEADWORKS_NODE_NAME or the host's name.")
    if not reporting.is_node_name(name):
        raise env.SettingError(
            f"{name!r} can't be a node's name; set HEADWORKS_NODE_NAME to letters, digits, dots, hyphens and"
            " underscores, at most 63, a letter or digit first."
        )
    return name


def node_folder(name: str) -> Path:
    """Returns the folder in which a node keeps its state."""
    return env.headworks_home() / "node" / name


def replica_folder(folder: Path, replica_id: str) -> Path:
    """Returns the private folder of a replica of the node whose folder is given."""
    return folder / "replicas" / replica_id


def write_private(path: Path, data: bytes) -> None:
    """Writes a file that only its owner may read, so that a reader sees the old or the new content, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def write_record(folder: Path, record: ReplicaRecord) -> None:
    """Writes the record of a replica."""
    write_private(replica_folder(folder, record.desired.replica_id) / "record.json", wire.encode(record))


def read_records(folder: Path) -> list[ReplicaRecord]:
    """Returns the records of all replicas of a node; one that can't be read is left out."""
    return [record for _, record in _read_all(folder) if record is not None]


def unreadable(folder: Path) -> list[str]:
    """Returns the replicas whose record is there and can't be read."""
    return [replica_id for replica_id, record in _read_all(folder) if record is None]


def _read_all(folder: Path) -> Iterator[tuple[str, ReplicaRecord | None]]:
    for path in sorted((folder / "replicas").glob("*/record.json")):
        try:
            yield path.parent.name, wire.decode(path.read_bytes(), ReplicaRecord)
        except (OSError, wire.WireError):
            yield path.parent.name, None


def remove_record(folder: Path, replica_id: str) -> None:
    """Removes the record of a replica; its log stays until `engine_log.prune` takes it."""
    (replica_folder(folder, replica_id) / "record.json").unlink(missing_ok=True)


def write_desired(folder: Path, desired: NodeDesired) -> None:
    """Keeps the desired document for a start without Valkey."""
    write_private(folder / "desired.json", wire.encode(desired))


def read_desired(folder: Path) -> NodeDesired | None:
    """Returns the desired document that was kept last, None when there is none or it can't be read."""
    try:
        return wire.decode((folder / "desired.json").read_bytes(), NodeDesired)
    except (OSError, wire.WireError):
        return None
