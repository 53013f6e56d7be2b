"""The real launch.sh with a PATH that lacks programs. It must name all of them in one line and do nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.embedded.layout import ROOT

PROGRAMS = {
    "python3": "python3 python3-venv",
    "node": "nodejs",
    "npm": "npm",
    "unshare": "util-linux",
    "setpriv": "util-linux",
}


def make_path(folder: Path, *lacking: str) -> str:
    """A folder with links to the programs, without some of them."""
    for name in (*PROGRAMS, "id"):
        # the interpreter itself, for a version manager's wrapper needs programs of its own
        found = os.path.realpath(sys.executable) if name == "python3" else shutil.which(name)
        if name not in lacking and found is not None:
            (folder / name).symlink_to(Path(found))
    return str(folder)


def run_script(verb: str, path: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name not in ("PATH", "PYTHON")}
    return subprocess.run(
        ["/bin/sh", str(ROOT / "controlplane/embedded/launch.sh"), verb],
        env={**environ, "PATH": path, **more}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_missing_program_is_named_in_an_apt_get_line(program: str, tmp_path: Path) -> None:
    done = run_script("up", make_path(tmp_path, program))
    lines = [line for line in done.stderr.splitlines() if "apt-get install" in line]
    assert done.returncode == 1
    assert len(lines) == 1
    assert lines[0].endswith(f"apt-get install -y {PROGRAMS[program]}")


def test_everything_that_is_missing_stands_in_one_line(tmp_path: Path) -> None:
    done = run_script("up", str(tmp_path))
    assert "apt-get install -y python3 python3-venv nodejs npm util-linux" in done.stderr
    assert done.stdout == ""


def test_an_old_python_is_said_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text('#!/bin/sh\ncase "$2" in *exit*) exit 1;; *) echo 3.9.2;; esac\n', encoding="utf-8")
    old.chmod(0o755)
    done = run_script("up", make_path(tmp_path), PYTHON=str(old))
    assert done.returncode == 1
    assert "Python 3.11 or later is needed" in done.stderr
    assert "3.9.2" in done.stderr


def test_a_python_without_venv_asks_for_its_package(tmp_path: Path) -> None:
    crippled = tmp_path / "crippled"
    crippled.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; *) exit 0;; esac\n', encoding="utf-8")
    crippled.chmod(0o755)
    done = run_script("up", make_path(tmp_path), PYTHON=str(crippled))
    assert "apt-get install -y python3-venv" in done.stderr


def test_down_needs_nothing_but_python(tmp_path: Path) -> None:
    path = make_path(tmp_path, "node", "npm", "unshare", "setpriv")
    done = run_script("down", path, HEADWORKS_HOME=str(tmp_path / "home"))
    assert done.returncode == 0
    assert "not running here" in done.stdout


def test_the_first_part_runs_without_any_installed_package(tmp_path: Path) -> None:
    """On a new machine only the standard library is there: -S leaves every installed package out."""
    modules = "__main__, prepare, environments, model, vendor, preflight, settings, state, stack, down, doctor, up"
    done = subprocess.run(
        [os.path.realpath(sys.executable), "-S", "-c", f"from controlplane.embedded import {modules}"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    assert done.returncode == 0
