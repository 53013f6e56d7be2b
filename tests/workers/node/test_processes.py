from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workers.node.bench import eventually
from workers.node import processes
from workers.node.processes import Identity


class Starter:
    """Starts processes as engines and ends all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "engine.log"

    def __call__(self, script: str) -> Identity:
        argv = [sys.executable, "-c", script]
        return processes.start(argv, {"PATH": os.environ["PATH"]}, self.log, self.folder)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    folder = tmp_path / "replicas" / "r1"  # the folder above it is this test's alone
    folder.mkdir(parents=True)
    yield Starter(folder)
    for one in processes.marked(folder):
        os.kill(one.pid, signal.SIGKILL)
        eventually(lambda pid=one.pid: _reaped_or_gone(pid), "the process is gone")  # type: ignore[misc]


def _reaped_or_gone(pid: int) -> bool:
    processes.reap(Identity(pid, 0, ""))
    stat = processes.read_stat(pid)
    return stat is None or stat.is_dead


SLEEP = "import time; time.sleep(60)"
WITH_CHILD = "import os, time; os.fork(); time.sleep(60)"


# the first thread ends as a killed one does, the other lives on until the file `go` is there
DYING = """
import ctypes, os, pathlib, threading, time
def other():
    while not pathlib.Path("go").exists():
        time.sleep(0.01)
    os._exit(7)
threading.Thread(target=other).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def kill_leader(identity: Identity) -> None:
    os.kill(identity.pid, signal.SIGKILL)
    eventually(lambda: processes.reap(identity), "the leader ended")


def test_the_end_of_an_engine_that_takes_a_moment_to_die_is_told(start: Starter) -> None:
    identity = start(DYING)
    eventually(lambda: not processes.is_alive(identity), "the leader is a zombie")
    assert processes.reap(identity) is None
    (start.folder / "go").touch()
    assert processes.reap(identity, patience_s=30) == "exit code 7"


def test_an_engine_leads_its_own_session_and_group(start: Starter) -> None:
    identity = start(SLEEP)
    stat = processes.read_stat(identity.pid)
    assert stat and (stat.group, stat.session) == (identity.pid, identity.pid)
    assert processes.is_alive(identity)


def test_the_same_pid_with_another_start_is_another_process(start: Starter) -> None:
    identity = start(SLEEP)
    other = replace(identity, started_ticks=identity.started_ticks - 1)
    assert not processes.is_alive(other)
    assert processes.members(other) == [], "whoever has the pid now is not ours, so ours are gone"


def test_a_pid_of_another_boot_or_container_means_nothing(start: Starter) -> None:
    elsewhere = replace(start(SLEEP), place="another boot pid:[1]")
    assert not processes.is_alive(elsewhere)
    assert processes.members(elsewhere) == []


def test_a_zombie_is_dead(start: Starter) -> None:
    identity = start("pass")
    eventually(lambda: (one := processes.read_stat(identity.pid)) and one.is_dead, "it is a zombie")
    assert not processes.is_alive(identity)
    assert processes.members(identity) == []
    assert processes.reap(identity) == "exit code 0"


def test_the_end_of_a_child_is_told(start: Starter) -> None:
    identity = start("import sys; sys.exit(9)")
    assert eventually(lambda: processes.reap(identity), "it ended") == "exit code 9"
    killed = start(SLEEP)
    assert processes.reap(killed) is None
    os.kill(killed.pid, signal.SIGTERM)
    assert eventually(lambda: processes.reap(killed), "it ended") == "signal SIGTERM"
    assert processes.reap(killed) is None, "nobody knows any more"


def test_children_of_a_dead_leader_are_found_and_ended(start: Starter) -> None:
    identity = start(WITH_CHILD)
    eventually(lambda: len(processes.members(identity)) == 2, "leader and child")
    kill_leader(identity)
    assert not processes.is_alive(identity)
    assert len(processes.members(identity)) == 1
    assert not processes.is_gone(identity, start.folder)
    processes.signal_all(identity, start.folder, signal.SIGKILL)
    eventually(lambda: processes.is_gone(identity, start.folder), "the child ended")


def test_a_child_in_a_group_of_its_own_is_found_by_the_session(start: Starter) -> None:
    identity = start("import os, time\nif os.fork() == 0: os.setpgid(0, 0)\ntime.sleep(60)")
    eventually(lambda: len({one.group for one in processes.members(identity)}) == 2, "two groups in one session")
    processes.signal_all(identity, start.folder, signal.SIGKILL)
    eventually(lambda: processes.reap(identity) or processes.is_gone(identity, start.folder), "both ended")
    eventually(lambda: processes.is_gone(identity, start.folder), "both ended")


def test_a_child_that_left_the_session_is_found_by_its_mark(start: Starter) -> None:
    identity = start("import os, time\nif os.fork() == 0: os.setsid()\ntime.sleep(60)")
    eventually(lambda: len(processes.marked(start.folder)) == 2 and len(processes.members(identity)) == 1, "one left")
    kill_leader(identity)
    assert not processes.is_gone(identity, start.folder)
    processes.signal_all(identity, start.folder, signal.SIGKILL)
    eventually(lambda: processes.is_gone(identity, start.folder), "the child ended")


def test_a_leader_is_found_by_its_mark(start: Starter) -> None:
    identity = start(WITH_CHILD)
    eventually(lambda: len(processes.members(identity)) == 2, "leader and child")
    assert processes.find_leader(start.folder) == identity
    assert processes.find_leader(start.folder / "other") is None
    assert processes.find_leader(start.folder.parent) is None, "the whole path counts"


def test_a_folder_is_the_same_however_it_is_spelled(start: Starter, tmp_path_factory: pytest.TempPathFactory) -> None:
    identity = start(SLEEP)
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(start.folder)
    assert processes.find_leader(link) == identity
    assert [one.pid for one in processes.strays(link.parent.resolve(), [])] == []
    assert [one.pid for one in processes.strays(start.folder.parent, ["another"])] == [identity.pid]


def test_signalling_what_is_gone_is_no_error(start: Starter) -> None:
    identity = start("pass")
    eventually(lambda: processes.reap(identity), "it ended")
    processes.signal_all(identity, start.folder, signal.SIGTERM)


def test_output_is_appended_to_the_log_with_private_mode(start: Starter) -> None:
    for word in ("first", "second"):
        identity = start(f"import sys; print('{word}'); print('{word} error', file=sys.stderr)")
        eventually(lambda one=identity: processes.reap(one), "it ended")  # type: ignore[misc]
    text = start.log.read_text()
    assert text.index("first error") < text.index("second")
    assert start.log.stat().st_mode & 0o777 == 0o600


def test_the_engine_inherits_no_descriptor(start: Starter, tmp_path: Path) -> None:
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        identity = start(SLEEP)
    links = {entry.readlink().name for entry in Path(f"/proc/{identity.pid}/fd").iterdir()}
    assert "secret" not in links


def test_a_start_time_is_a_time_of_the_clock(start: Starter) -> None:
    import time

    assert abs(processes.started_at(start(SLEEP)) - time.time()) < 60


def test_a_name_with_brackets_and_spaces_is_read(start: Starter) -> None:
    identity = start("open('/proc/self/comm', 'w').write('a) R 1 (b'); import time; time.sleep(60)")
    comm = Path(f"/proc/{identity.pid}/comm")
    eventually(lambda: comm.read_text().startswith("a) R"), "it has its name")
    stat = processes.read_stat(identity.pid)
    assert stat and stat.started_ticks == identity.started_ticks
