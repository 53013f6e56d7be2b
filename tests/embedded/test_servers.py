"""The embedded servers after bad ends. Real PostgreSQL and Valkey in folders of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from controlplane.embedded import postgres, proc, servers, valkey
from controlplane.embedded.children import Child, Service
from controlplane.embedded.layout import ROOT, Layout
from controlplane.embedded.problems import LauncherError

pytestmark = pytest.mark.services


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    made = Layout(ROOT, tmp_path / "home", tmp_path / "cache")
    made.make_home()
    made.make_sockets()
    yield made
    shutil.rmtree(made.sockets, ignore_errors=True)


def start(layout: Layout, service: Service) -> Child:
    child = Child(service, layout.logs / f"{service.name}.log", layout.root)
    child.start(0.0)
    assert proc.wait_until(service.ready, 30), child.log.read_text()
    return child


def stop(child: Child) -> None:
    child.ask_to_end()
    assert proc.wait_until(lambda: not child.is_running(), 30)


def make_postgres(layout: Layout) -> Service:
    return servers.postgres_service(layout, dict(os.environ))


def test_postgres_starts_although_a_stranger_has_the_pid_of_its_lock_file(layout: Layout) -> None:
    """After a restart of the machine the noted pid may be anything that lives."""
    service = make_postgres(layout)
    stop(start(layout, service))
    with subprocess.Popen(["sleep", "60"]) as stranger:
        data = layout.home / "postgres"
        (data / "postmaster.pid").write_text(f"{stranger.pid}\n{data}\n1\n5432\n{layout.sockets}\n")
        (layout.sockets / ".s.PGSQL.5432").touch()
        (layout.sockets / ".s.PGSQL.5432.lock").write_text(f"{stranger.pid}\n")
        stop(start(layout, service))
        assert stranger.poll() is None
        stranger.kill()


def test_postgres_that_was_left_behind_is_ended_first(layout: Layout) -> None:
    service = make_postgres(layout)
    left = start(layout, service)
    again = start(layout, service)
    assert not left.is_running()
    stop(again)


def test_postgres_comes_back_after_sigkill(layout: Layout) -> None:
    service = make_postgres(layout)
    first = start(layout, service)
    first.kill()
    stop(start(layout, service))


def test_a_killed_launcher_shuts_postgres_down_in_order(layout: Layout) -> None:
    service = make_postgres(layout)
    script = f"""
import os, subprocess, sys, time
process = subprocess.Popen({list(service.command)!r}, stderr=open({str(layout.logs / "pg.log")!r}, "w"))
print(process.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        server = proc.identify(int(launcher.stdout.readline()))
        assert server is not None
        assert proc.wait_until(service.ready, 30)
        launcher.kill()
    assert proc.wait_until(lambda: not proc.is_alive(server), 30)
    assert "received fast shutdown request" in (layout.logs / "pg.log").read_text()


def test_a_cluster_that_was_made_half_is_made_anew(layout: Layout) -> None:
    half = layout.home / "postgres.new"
    half.mkdir()
    (half / "base").mkdir()
    make_postgres(layout)
    assert (layout.home / "postgres" / "PG_VERSION").exists()
    assert not half.exists()


def test_data_of_another_major_version_is_refused_in_words(layout: Layout) -> None:
    make_postgres(layout)
    (layout.home / "postgres" / "PG_VERSION").write_text("15\n")
    with pytest.raises(LauncherError, match="was written by PostgreSQL 15"):
        make_postgres(layout)


def test_a_folder_with_other_files_is_not_touched(layout: Layout) -> None:
    (layout.home / "postgres").mkdir()
    (layout.home / "postgres" / "letter.txt").write_text("dear")
    with pytest.raises(LauncherError, match="Move them away"):
        make_postgres(layout)
    assert (layout.home / "postgres" / "letter.txt").read_text() == "dear"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change the user")
def test_root_without_user_namespaces_runs_postgres_as_nobody(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in most containers. The data lies below a folder that only root may enter."""
    stop(start(layout, make_postgres(layout)))
    monkeypatch.setattr(postgres, "may_map_users", lambda: False)
    service = make_postgres(layout)
    child = start(layout, service)
    assert child.process is not None
    status = Path(f"/proc/{child.process.pid}/status").read_text()
    assert "Uid:\t65534\t65534" in status
    assert (layout.home / "postgres").stat().st_uid == 65534
    stop(child)
    monkeypatch.undo()
    stop(start(layout, make_postgres(layout)))
    assert (layout.home / "postgres").stat().st_uid == 0


def make_valkey(layout: Layout) -> Service:
    return servers.valkey_service(layout, dict(os.environ))


def killed_valkey(layout: Layout) -> list[Path]:
    """A Valkey with a=1 that was killed; returns the files it has left."""
    child = start(layout, make_valkey(layout))
    with redis.Redis(unix_socket_path=str(layout.sockets / servers.VALKEY_SOCKET)) as client:
        client.set("a", "1")
        assert proc.wait_until(lambda: client.info("persistence")["aof_pending_bio_fsync"] == 0, 10)
    child.kill()
    return sorted((layout.home / "valkey" / "appendonlydir").iterdir())


def value_of_a(layout: Layout, service: Service) -> object:
    """Keeps Valkey running as the launcher does until it answers, and asks it."""
    child = Child(service, layout.logs / "valkey.log", layout.root)

    def answers() -> bool:
        child.keep(time.monotonic())
        return child.is_running() and service.ready()

    assert proc.wait_until(answers, 30), child.log.read_text()
    with redis.Redis(unix_socket_path=str(layout.sockets / servers.VALKEY_SOCKET)) as client:
        found = client.get("a")
    stop(child)
    return found


def test_valkey_keeps_what_it_accepted_over_sigkill(layout: Layout) -> None:
    killed_valkey(layout)
    assert value_of_a(layout, make_valkey(layout)) == b"1"


@pytest.mark.parametrize("end", [b"*3\r\n$3\r\nSET\r\n$1\r\na", bytes(4096), b"\xff no command \r\n" * 20])
def test_valkey_goes_on_before_an_end_that_a_power_failure_has_damaged(layout: Layout, end: bytes) -> None:
    _base, newest, _manifest = killed_valkey(layout)
    with newest.open("ab") as file:
        file.write(end)
    assert value_of_a(layout, make_valkey(layout)) == b"1"


@pytest.mark.parametrize("number", range(3))
def test_valkey_sets_aside_what_it_cannot_read_at_all(layout: Layout, number: int) -> None:
    files = killed_valkey(layout)
    files[number].write_bytes(b"\0" * 100)
    files[number - 1].write_bytes(b"\0" * 100)
    assert value_of_a(layout, make_valkey(layout)) is None
    assert (layout.home / "valkey" / "appendonlydir.damaged").is_dir()


def test_valkey_starts_without_the_folder_that_somebody_has_removed(layout: Layout) -> None:
    service = make_valkey(layout)
    killed_valkey(layout)
    shutil.rmtree(layout.home / "valkey")
    assert value_of_a(layout, service) is None


def test_a_full_disk_is_no_damage() -> None:
    found = ["1:M # Bad file format reading the append only file a", "1:M * oO0 Valkey is starting oO0"]
    assert not valkey.found_damage([*found, "1:M # Can't open the append-only file: No space left on device"])
    assert valkey.found_damage(found[:1])
