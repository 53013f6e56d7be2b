from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane import env

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("name", ["HEADWORKS_SECRET_KEY", "DATABASE_URL", "REDIS_URL"])
def test_a_secret_is_read_from_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("the secret\n")
    monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "secret"))
    assert env.read_secret(name) == "the secret"


def test_a_secret_given_twice_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_X", "one")
    monkeypatch.setenv("HEADWORKS_X_FILE", str(tmp_path))
    with pytest.raises(env.SettingError, match="keep one"):
        env.read_secret("HEADWORKS_X")


def test_a_secret_file_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_X_FILE", str(tmp_path / "none"))
    with pytest.raises(env.SettingError, match="HEADWORKS_X_FILE"):
        env.read_secret("HEADWORKS_X")


def test_numbers_out_of_bounds_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, sentence in (("many", "not a whole number"), ("0", "outside 1 to 65535")):
        monkeypatch.setenv("HEADWORKS_X", text)
        with pytest.raises(env.SettingError, match=sentence):
            env.read_int("HEADWORKS_X", 1, low=1, high=65535)


def test_a_log_level_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWORKS_LOG_LEVEL", "loud")
    with pytest.raises(env.SettingError, match="HEADWORKS_LOG_LEVEL='loud' is none of DEBUG, INFO"):
        env.log_level()
    done = _run("-m", "controlplane.gateway", HEADWORKS_LOG_LEVEL="loud")
    assert "HEADWORKS_LOG_LEVEL" in done.stderr and "Traceback" not in done.stderr


def _run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    nowhere = {"HOME": "/nonexistent", "HEADWORKS_HOME": "/nonexistent"}  # where no stack runs
    environ = {"PATH": os.environ["PATH"], **nowhere, **variables}
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command",
    [
        ("manage.py", "check"),
        ("manage.py", "controller"),
        ("-m", "controlplane.serve"),
        ("-m", "celery", "-A", "controlplane.celery", "worker"),
        ("-m", "celery", "-A", "controlplane.celery", "beat"),
    ],
)
def test_nothing_starts_on_a_default_secret(command: tuple[str, ...]) -> None:
    done = _run(*command)
    assert done.returncode != 0
    assert "HEADWORKS_SECRET_KEY is not set" in done.stdout + done.stderr


def test_a_missing_secret_is_a_sentence_and_no_traceback() -> None:
    for command in (("manage.py", "check"), ("-m", "controlplane.serve")):
        assert "Traceback" not in _run(*command).stderr
