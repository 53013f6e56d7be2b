"""A disk that is full while Headworks runs: what runs goes on, and all is as before once there is room again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.embedded import children, engines, logs, proc
from controlplane.embedded.children import Child, Service
from controlplane.embedded.layout import ROOT
from controlplane.embedded.stack import Stack
from tests.embedded.conftest import MakeStack

SLEEPER = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own with room for a megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("only root may mount a small disk, and not everywhere")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def running(small_disk: Path, make_stack: MakeStack) -> Stack:
    """A stack on the small disk."""
    return make_stack(small_disk)


def fill(folder: Path) -> Path:
    """Fills the disk to the last byte and returns what does it."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)
    assert shutil.disk_usage(folder).free == 0
    return filler


def test_processes_are_started_again_and_noted_as_soon_as_there_is_room(running: Stack, small_disk: Path) -> None:
    child = running.start(Service("one", SLEEPER, dict(os.environ)))
    table = running.layout.home / "children.json"
    filler = fill(small_disk)
    assert child.process is not None
    child.process.kill()
    child.process.wait()
    first = child.identity

    def is_back() -> bool:
        running.tick()
        return child.identity not in (None, first)

    assert proc.wait_until(is_back, 20)
    assert children.remembered(table).get("one") != child.identity, "there is no room to note it"
    filler.unlink()
    running.tick()
    assert children.remembered(table) == {"one": child.identity}


def test_a_process_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    child = Child(Service("one", SLEEPER, dict(os.environ)), folder / "one.log", tmp_path)
    said = child.keep(now=0.0)
    assert said is not None
    assert "one: can't be started" in said
    assert "No such file" in said
    folder.mkdir()
    try:
        assert child.keep(now=1.0) == "one: started again"
        assert child.is_running()
    finally:
        child.kill()


def test_a_log_that_became_too_long_makes_room(small_disk: Path) -> None:
    log = small_disk / "one.log"
    log.write_bytes(b"x" * 500_000)
    fill(small_disk)
    assert logs.bound(log, 1000)
    assert log.stat().st_size == 0
    assert not log.with_name("one.log.1").exists()


def test_engines_are_asked_to_drain_without_a_byte_of_room(small_disk: Path) -> None:
    fill(small_disk)
    engines.ask_to_stop_all([small_disk], 10)
    assert (small_disk / "stop-all").read_text() == "", "the worker takes its usual limit"


def test_what_the_launcher_says_is_lost_and_no_more(tmp_path: Path) -> None:
    script = "import sys; from controlplane.embedded import say; say.step(''); say.problem(''); open(sys.argv[1], 'w')"
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", script, str(tmp_path / "went-on")]
        subprocess.run(command, stdout=full, stderr=full, cwd=ROOT, check=False)
    assert (tmp_path / "went-on").exists()
