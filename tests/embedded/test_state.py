from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from controlplane.embedded import state
from controlplane.embedded.layout import ROOT, Layout


def make_layout(folder: Path) -> Layout:
    layout = Layout(ROOT, folder / "home", folder / "cache")
    layout.make_home()
    return layout


def test_only_one_launcher_holds_a_data_folder(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    held = state.take_lock(layout)
    assert held is not None
    assert state.take_lock(layout) is None
    os.close(held)
    again = state.take_lock(layout)
    assert again is not None
    os.close(again)


def test_the_lock_of_a_killed_launcher_is_free(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    script = f"""
import time
from pathlib import Path
from controlplane.embedded import state
from controlplane.embedded.layout import Layout
state.take_lock(Layout(Path("/"), Path({str(layout.home)!r}), Path("/")))
print("held", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        assert state.take_lock(layout) is None
        launcher.kill()
    held = state.take_lock(layout)
    assert held is not None
    os.close(held)


def test_what_a_living_launcher_says_is_read(tmp_path: Path) -> None:
    state.write(tmp_path / "s", state.READY, "http://c", "http://g")
    found = state.read(tmp_path / "s")
    assert found is not None
    assert (found.pid, found.phase, found.console_url) == (os.getpid(), state.READY, "http://c")


def test_what_a_dead_launcher_left_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    state.write(path, state.READY, "http://c", "http://g")
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "start_ticks": content["start_ticks"] - 1}))
    assert state.read(path) is None
    path.write_text("{")
    assert state.read(path) is None
