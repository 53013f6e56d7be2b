from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.embedded import engines, proc


def write_record(home: Path, replica: str, **fields: object) -> None:
    folder = home / "node" / "n1" / "replicas" / replica
    folder.mkdir(parents=True)
    record = {"desired": {"replica_id": replica, "deployment": "smollm2"}, **fields}
    (folder / "record.json").write_text(json.dumps(record))


@pytest.fixture
def engine() -> Iterator[subprocess.Popen[bytes]]:
    """A leader with a child in its own session, as engines are."""
    process = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
    assert proc.wait_until(lambda: len(proc.group_members(process.pid)) == 2, 10)
    yield process
    for member in proc.group_members(process.pid):
        os.kill(member.pid, 9)
    process.wait()


def record_of(process: subprocess.Popen[bytes]) -> dict[str, int]:
    identity = proc.identify(process.pid)
    assert identity is not None
    return {"pid": process.pid, "process_started_ticks": identity.start_ticks, "process_group": process.pid}


def test_an_engine_is_found_and_ended_with_its_whole_group(tmp_path: Path, engine: subprocess.Popen[bytes]) -> None:
    write_record(tmp_path, "r1", **record_of(engine))
    (found,) = engines.living(tmp_path)
    assert found.deployment == "smollm2"
    members = proc.group_members(engine.pid)
    assert engines.end([found], 10) == []
    assert not any(map(proc.is_alive, members))
    assert engines.living(tmp_path) == []


def test_a_later_process_with_the_same_pid_is_no_engine(tmp_path: Path, engine: subprocess.Popen[bytes]) -> None:
    record = record_of(engine)
    write_record(tmp_path, "r1", **{**record, "process_started_ticks": record["process_started_ticks"] - 1})
    assert engines.living(tmp_path) == []


def test_what_a_dead_leader_left_is_ended_too(tmp_path: Path, engine: subprocess.Popen[bytes]) -> None:
    write_record(tmp_path, "r1", **record_of(engine))
    engine.kill()
    engine.wait()
    (found,) = engines.living(tmp_path)
    assert engines.end([found], 10) == []
    assert proc.group_members(engine.pid) == []


def test_records_without_a_process_or_damaged_are_left_out(tmp_path: Path) -> None:
    write_record(tmp_path, "r1", pid=None)
    write_record(tmp_path, "r2")
    (tmp_path / "node" / "n1" / "replicas" / "r2" / "record.json").write_text("{")
    assert engines.living(tmp_path) == []


def test_the_request_to_stop_all_is_made_again_when_a_node_forgot_it(tmp_path: Path) -> None:
    folder = tmp_path / "node" / "n1"
    folder.mkdir(parents=True)
    engines.ask_to_stop_all([folder], 10)
    assert (folder / "stop-all").read_text() == "10"
    assert not engines.have_stopped(tmp_path, [folder])
    (folder / "stop-all").unlink()
    engines.ask_to_stop_all([folder], 10)
    assert (folder / "stop-all").exists()
    (folder / "stop-all").rename(folder / "stopped-all")
    engines.ask_to_stop_all([folder], 10)
    assert not (folder / "stop-all").exists()
    assert engines.have_stopped(tmp_path, [folder])
