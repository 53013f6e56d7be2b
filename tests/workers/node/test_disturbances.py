"""A supervisor whose surroundings misbehave: clocks that are set, files that are damaged, disks that are full, engines
without a record, a second worker, threads that die."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.domain.lifecycle import Limits
from controlplane.lib import wire
from tests.workers.node.bench import Bench, Stream, eventually, generate, make_replica
from workers.node import identity, processes, records
from workers.node.clock import Clock
from workers.node.companion import Companion
from workers.node.folder_lock import FolderLock

pytestmark = pytest.mark.services


class SetClock(Clock):
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.set_by_s = 0.0
        super().__init__(wall=lambda: time.time() + self.set_by_s)


def stop_all(bench: Bench) -> None:
    for replica_id in list(bench.wishes):
        bench.want_stop(replica_id, 0.0)
        bench.wait_for("stopped", replica_id)


# -- clocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_ends_no_engine_and_silences_no_node(bench: Bench, by_s: float) -> None:
    clock = SetClock()
    bench.start(clock)
    bench.want(make_replica("starts", start_s=2.0), make_replica("serves"))
    bench.wait_for("ready", "serves")
    bench.want(make_replica("waits", dies_at_start=True))
    bench.wait_for("failed", "waits")
    clock.set_by_s = by_s
    said = bench.report()
    assert said is not None
    eventually(lambda: (one := bench.report()) and one.sequence > said.sequence + 2, "it reports on")
    assert bench.wait_for("ready", "starts").attempt == 0
    assert bench.wait_for("ready", "serves").attempt == 0
    before = bench.wait_for("failed", "waits")
    bench.wait_for("failed", "waits", after_seq=before.seq)  # its retries go on
    stop_all(bench)


def test_a_clock_that_is_set_cuts_off_no_drain(bench: Bench) -> None:
    clock = SetClock()
    bench.start(clock)
    bench.want(make_replica(token_s=0.05))
    ready = bench.wait_for("ready")
    assert ready.url
    stream = Stream(ready.url, "hwr-r1", max_tokens=40)
    bench.want_stop("r1", 20.0)
    bench.wait_for("draining")
    clock.set_by_s = 3600.0
    assert stream.read_to_end().endswith(b"data: [DONE]\n\n")
    bench.wait_for("stopped")


def test_a_worker_that_starts_with_the_clock_set_back_waits_no_longer_for_it(bench: Bench) -> None:
    clock = SetClock()
    clock.set_by_s = 3600.0
    bench.start(clock)
    bench.want(make_replica(dies_at_start=True))
    before = bench.wait_for("failed")
    bench.stop()
    bench.start()
    bench.wait_for("failed", after_seq=before.seq + 3)
    stop_all(bench)


def test_a_set_clock_is_told_once() -> None:
    wall, steady = 1000.0, 5.0
    clock = Clock(lambda: wall, lambda: steady)
    wall, steady = 1001.5, 6.0
    assert clock.read() == (1001.5, 0.0)
    wall, steady = 4602.0, 7.0
    assert clock.read() == (4602.0, 3599.5)
    wall, steady = 4603.0, 8.0
    assert clock.read() == (4603.0, 0.0)


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"", b'{"desired": {', b"\xff\xfe", b'{"desired": 1}', b"[]"])
def test_an_engine_whose_record_is_damaged_is_ended_before_its_replica_starts_anew(bench: Bench, damage: bytes) -> None:
    bench.start()
    bench.want(make_replica())
    bench.wait_for("ready")
    old = bench.identity()
    bench.stop()
    (records.replica_folder(bench.folder, "r1") / "record.json").write_bytes(damage)
    bench.start()
    eventually(lambda: not processes.is_alive(old), "the engine without a record is ended")
    eventually(lambda: (one := bench.seen()) and one.state == "ready" and one.pid != old.pid, "it serves anew")
    assert bench.processes("r1") == [bench.identity().pid]
    stop_all(bench)


def test_an_engine_without_record_and_wish_is_ended(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(), make_replica("r2"))
    bench.wait_for("ready")
    old = bench.identity()
    bench.wait_for("ready", "r2")
    bench.stop()
    shutil.rmtree(records.replica_folder(bench.folder, "r1"))
    bench.drop("r1")
    bench.start()
    eventually(lambda: not processes.is_alive(old), "the engine is ended")
    assert processes.is_alive(bench.identity("r2"))
    stop_all(bench)


def test_engines_of_another_folder_are_left_alone(bench: Bench, tmp_path: Path) -> None:
    bench.start()
    bench.want(make_replica())
    bench.wait_for("ready")
    assert processes.strays(tmp_path / "elsewhere" / "replicas", []) == []
    assert processes.strays(bench.folder / "replicas", ["r1"]) == []
    assert [one.pid for one in processes.strays(bench.folder / "replicas", [])] == [bench.identity().pid]
    stop_all(bench)


def test_a_damaged_copy_of_the_desired_document_stops_nothing(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica())
    bench.wait_for("ready")
    old = bench.identity()
    bench.stop()
    (bench.folder / "desired.json").write_bytes(b'{"schema": 1, "no')
    bench.start()
    bench.wait_for("ready")
    assert bench.identity() == old
    stop_all(bench)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("mounting needs root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return filler


def test_on_a_full_disk_what_serves_goes_on_and_what_starts_waits(bench: Bench, small_disk: Path) -> None:
    bench.folder = small_disk / "node"
    bench.start()
    bench.want(make_replica())
    ready = bench.wait_for("ready")
    filler = fill(small_disk)
    bench.want(make_replica("r2"))
    failed = bench.wait_for("failed", "r2")
    assert failed.transitions[-1].reason.code == "launch_failed"
    assert "No space left on device" in failed.transitions[-1].reason.message
    assert ready.url and generate(ready.url, "hwr-r1") == 200
    filler.unlink()
    bench.wait_for("ready", "r2")
    stop_all(bench)


# -- a second worker ---------------------------------------------------------------------------------------------------


def test_two_supervisors_never_keep_one_folder(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica())
    bench.wait_for("ready")
    engine = bench.identity()
    twin = Bench(bench.folder, bench.url, bench.version, dict(bench.wishes))
    twin.start()
    bench.want(make_replica("r2"))
    bench.wait_for("ready", "r2")
    assert len(bench.processes("r1")) == len(bench.processes("r2")) == 1
    (first,) = {report.incarnation for report in [bench.report()] if report}
    bench.stop()
    eventually(lambda: (one := bench.report()) and one.incarnation != first, "the other one takes over")
    twin.wait_for("ready")
    assert twin.identity() == engine
    bench.wishes = twin.wishes = {**bench.wishes}
    twin.version = bench.version
    stop_all(twin)
    twin.stop()


def test_the_lock_of_a_killed_worker_is_free(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib; from workers.node.folder_lock import FolderLock\n"
        "lock = FolderLock(pathlib.Path(sys.argv[1])); print(lock.take(), flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"True\n"
        lock = FolderLock(tmp_path)
        assert not lock.take()
        other.send_signal(signal.SIGKILL)
        other.wait()
        assert lock.wait(threading.Event())
        lock.give_back()


def test_a_document_for_another_machine_of_this_name_changes_nothing(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica())
    bench.wait_for("ready")
    report = bench.report()
    assert report and report.machine
    bench.send(replace(bench.document(), version=bench.version + 1, replicas=(), machine="another"))
    bench.send(replace(bench.document(), version=bench.version + 2, machine=report.machine))
    eventually(lambda: (one := bench.report()) and one.desired_version == bench.version + 2, "its own is taken")
    assert bench.wait_for("ready").pid == report.replicas[0].pid
    bench.version += 2
    stop_all(bench)


def test_a_machine_keeps_its_identity_and_counts_its_starts(tmp_path: Path) -> None:
    first, second = identity.begin(tmp_path), identity.begin(tmp_path)
    assert (first.machine, first.starts, second.starts) == (second.machine, 1, 2)
    assert (tmp_path / "identity.json").stat().st_mode & 0o777 == 0o600
    assert identity.begin(tmp_path / "other").machine != first.machine


def test_a_damaged_identity_is_made_anew(tmp_path: Path) -> None:
    before = identity.begin(tmp_path)
    (tmp_path / "identity.json").write_text("{")
    after = identity.begin(tmp_path)
    assert after.machine != before.machine and after.starts == 1


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_of_a_fault_is_begun_anew() -> None:
    runs: list[int] = []

    def work() -> None:
        runs.append(1)
        raise KeyError("nobody thought of this")

    companion = Companion("work", work)
    companion.start()
    companion.join(10.0)
    companion.keep()
    companion.join(10.0)
    assert len(runs) == 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_inventory_that_fails_once_does_not_blind_the_node(bench: Bench) -> None:
    bench.faults = [ValueError("a driver's answer that nobody has seen before")]
    bench.start()
    eventually(bench.report, "the node reports all the same")


# -- engines -----------------------------------------------------------------------------------------------------------


def test_an_engine_that_answers_health_and_hangs_on_generation_never_becomes_ready(bench: Bench) -> None:
    limits = replace(make_replica().limits, warmup_timeout_s=1.0)
    bench.start()
    bench.want(make_replica(limits=limits, hangs_on_generation=True))
    failed = bench.wait_for("failed")
    assert failed.transitions[-1].reason.code in ("warmup_timeout", "warm_up_failed")
    assert "ready" not in [one.to_state for one in failed.transitions]
    stop_all(bench)


def test_an_engine_that_closes_its_port_and_lives_is_replaced(bench: Bench) -> None:
    limits = Limits(**{**wire.to_plain(make_replica().limits), "health_lost_after_s": 1.0})
    bench.start()
    bench.want(make_replica(limits=limits, closes_port=True))
    ready = bench.wait_for("ready")
    assert ready.url
    failed = bench.wait_for("failed", after_seq=ready.seq)
    assert failed.transitions[-1].reason.code == "health_lost"
    bench.wait_for("ready", after_seq=failed.seq)
    assert len(bench.processes("r1")) == 1
    stop_all(bench)


def test_a_child_in_a_session_of_its_own_is_ended_with_its_engine(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica(spawns_daemon=True))
    bench.wait_for("ready")
    assert len(bench.processes("r1")) == 2
    stop_all(bench)
    assert not bench.processes("r1")


def test_a_stranger_under_the_pid_of_a_record_is_not_touched(bench: Bench) -> None:
    bench.start()
    bench.want(make_replica())
    bench.wait_for("ready")
    engine = bench.identity()
    bench.stop()
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        os.kill(engine.pid, signal.SIGKILL)
        record = replace(bench.record(), pid=stranger.pid)  # its start ticks are those of the engine
        records.write_record(bench.folder, record)
        bench.start()
        bench.wait_for("ready", after_seq=record.seq)
        assert stranger.poll() is None
        stop_all(bench)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
