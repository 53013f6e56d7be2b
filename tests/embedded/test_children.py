from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.embedded import children, proc
from controlplane.embedded.children import Child, Service, exit_words, pause_s
from controlplane.embedded.layout import ROOT

SLEEPER = (sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)")


def make_child(folder: Path, *command: str) -> Child:
    service = Service("test", command or SLEEPER, environ=dict(os.environ))
    return Child(service, folder / "test.log", folder)


@pytest.mark.parametrize(("failures", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 20.0), (50, 20.0)])
def test_the_pause_doubles_up_to_a_limit(failures: int, seconds: float) -> None:
    assert pause_s(failures) == seconds


def test_a_process_that_dies_is_started_again_after_its_pause(tmp_path: Path) -> None:
    child = make_child(tmp_path)
    child.start(now=100.0)
    first = child.process
    assert first is not None
    try:
        assert child.keep(now=100.1) is None
        first.kill()
        first.wait()
        said = child.keep(now=100.2)
        assert said is not None
        assert "was ended by SIGKILL" in said
        assert child.keep(now=100.6) is None
        assert child.keep(now=100.8) == "test: started again"
        assert child.is_running()
    finally:
        child.kill()


def test_failures_are_forgotten_after_a_steady_minute(tmp_path: Path) -> None:
    child = make_child(tmp_path)
    child.failures = 5
    child.start(now=0.0)
    try:
        child.keep(now=59.0)
        assert child.failures == 5
        child.keep(now=61.0)
        assert child.failures == 0
    finally:
        child.kill()


def test_a_process_that_shall_end_is_not_started_again(tmp_path: Path) -> None:
    child = make_child(tmp_path)
    child.start(now=0.0)
    child.ask_to_end()
    assert proc.wait_until(lambda: not child.is_running(), 10)
    assert child.keep(now=1000.0) is None
    assert not child.is_running()


def test_output_goes_to_a_log_that_others_can_not_read(tmp_path: Path) -> None:
    child = make_child(tmp_path)
    child.start(now=0.0)
    try:
        assert proc.wait_until(lambda: "here" in child.log.read_text(), 10)
        assert child.log.stat().st_mode & 0o777 == 0o600
    finally:
        child.kill()


def test_a_killed_launcher_takes_its_processes_along(tmp_path: Path) -> None:
    """The real thing: a launcher of its own, killed with SIGKILL."""
    script = f"""
import os, time, sys
from pathlib import Path
from controlplane.embedded.children import Child, Service
child = Child(Service("x", {SLEEPER!r}, environ=dict(os.environ)), Path({str(tmp_path)!r}) / "x.log", Path("/"))
child.start(0.0)
print(child.process.pid, flush=True)
time.sleep(600)
"""
    launcher = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    child = proc.identify(int(launcher.stdout.readline()))
    assert child is not None
    proc.wait_until(lambda: "here" in (tmp_path / "x.log").read_text(), 10)  # setpriv has become the program
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    assert proc.wait_until(lambda: not proc.is_alive(child), 10)


def test_what_runs_is_remembered_over_launchers(tmp_path: Path) -> None:
    child = make_child(tmp_path)
    child.start(time.monotonic())
    try:
        children.remember([child], tmp_path / "children.json")
        assert children.remembered(tmp_path / "children.json") == {"test": child.identity}
    finally:
        child.kill()


@pytest.mark.parametrize("content", ["", "[]", '{"a": 1}', '{"a": {"pid": "x"}}'])
def test_a_damaged_table_is_an_empty_one(content: str, tmp_path: Path) -> None:
    (tmp_path / "children.json").write_text(content)
    assert children.remembered(tmp_path / "children.json") == {}


def test_exits_in_words() -> None:
    assert exit_words(3) == "ended with status 3"
    assert exit_words(-signal.SIGSEGV) == "was ended by SIGSEGV"
