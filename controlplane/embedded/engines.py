"""Engine processes on this machine, found through the node worker's records. They outlive every launcher.

The launcher reads the records as plain JSON; their writer and their shape are `workers.node.records`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane.embedded import proc
from controlplane.embedded.proc import ProcessId


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine process of a replica."""

    replica: str
    deployment: str
    process: ProcessId
    group: int
    node: Path  # the folder of its node


def records(home: Path) -> Iterator[dict[str, Any]]:
    """Yields the records of all replicas of all nodes in the data folder; those that can't be read are left out."""
    for _path, record in files(home):
        yield record


def files(home: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the same records, each with its path."""
    for path in sorted((home / "node").glob("*/replicas/*/record.json")):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(record, dict):
            yield path, record


def living(home: Path) -> list[Engine]:
    """Returns the engines of which anything still runs, each known by pid and start time."""
    found: list[Engine] = []
    for path, record in files(home):
        pid, ticks = record.get("pid"), record.get("process_started_ticks")
        desired = record.get("desired") or {}
        if not isinstance(pid, int) or not isinstance(ticks, int):
            continue
        process, group = ProcessId(pid, ticks), int(record.get("process_group") or pid)
        # A dead leader whose group lives is an engine too: until the group is gone, nobody else gets its pid.
        if proc.is_alive(process) or (proc.identify(pid) is None and proc.group_members(group)):
            found.append(
                Engine(
                    replica=str(desired.get("replica_id", "")),
                    deployment=str(desired.get("deployment", "")),
                    process=process,
                    group=group,
                    node=path.parents[2],
                )
            )
    return found


def end(engines: list[Engine], patience_s: float) -> list[ProcessId]:
    """Ends engines with their whole process groups: SIGTERM, then SIGKILL. Returns what lives even then."""
    members = [member for engine in engines for member in proc.group_members(engine.group)]
    for engine in engines:
        _signal_group(engine, signal.SIGTERM)
    if not proc.wait_until(lambda: not any(map(proc.is_alive, members)), patience_s):
        for engine in engines:
            if any(map(proc.is_alive, members)):
                _signal_group(engine, signal.SIGKILL)
        proc.wait_until(lambda: not any(map(proc.is_alive, members)), 10)
    return [member for member in members if proc.is_alive(member)]


def _signal_group(engine: Engine, number: signal.Signals) -> None:
    # a group keeps its number while any member lives, so it can't be somebody else's as long as there is one
    if proc.group_members(engine.group):
        try:
            os.killpg(engine.group, number)
        except ProcessLookupError:
            return


def ask_to_stop_all(nodes: list[Path], drain_s: int) -> None:
    """Asks the workers of these nodes (their folders) to drain and end every engine.

    A node worker that starts anew forgets the request, so this may be called again and again until it is done.
    """
    for folder in nodes:
        if (folder / "stop-all").exists() or (folder / "stopped-all").exists():
            continue
        scratch = folder / "stop-all.new"
        with contextlib.suppress(OSError):  # on a full disk it stays empty, which means the usual limit
            scratch.write_text(str(drain_s), encoding="utf-8")
        scratch.replace(folder / "stop-all")


def have_stopped(home: Path, nodes: list[Path]) -> bool:
    """Returns whether no engine runs and every node worker that was asked has taken note of it."""
    return all((folder / "stopped-all").exists() for folder in nodes) and not living(home)
