from __future__ import annotations

import os
from pathlib import Path

import pytest

from controlplane.embedded import quiet_run, say
from controlplane.embedded.problems import LauncherError


def test_what_a_program_said_comes_back(tmp_path: Path) -> None:
    assert quiet_run.run_saying(["echo", "done"], "trying", tmp_path / "log").strip() == "done"


def test_a_program_that_fails_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LauncherError, match="while trying: no room"):
        quiet_run.run_saying(["sh", "-c", "echo no room; exit 3"], "trying", tmp_path / "log")


def test_who_is_interrupted_leaves_no_program_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"

    def interrupt(_: str) -> None:
        if pid.exists() and pid.read_text().endswith("\n"):
            raise KeyboardInterrupt

    monkeypatch.setattr(quiet_run, "SAY_EVERY_S", 0.0)
    monkeypatch.setattr(say, "step", interrupt)
    with pytest.raises(KeyboardInterrupt):
        quiet_run.run_saying(["sh", "-c", f"echo $$ > {pid}; exec sleep 600"], "trying", tmp_path / "log")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
