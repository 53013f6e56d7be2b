from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from controlplane.embedded import environments
from controlplane.embedded.environments import MARKER, ensure_engine, inputs_hash, is_whole, pip_install
from controlplane.embedded.layout import ROOT, Layout
from controlplane.embedded.problems import LauncherError


def make_environment(folder: Path, marker: str | None) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(sys.executable)
    if marker is not None:
        (folder / MARKER).write_text(marker)
    return folder


def test_an_environment_without_its_marker_is_not_whole(tmp_path: Path) -> None:
    assert not is_whole(make_environment(tmp_path / "a", None), "x")
    assert not is_whole(make_environment(tmp_path / "b", "older"), "x")
    assert is_whole(make_environment(tmp_path / "c", "x\n"), "x")


def test_an_environment_whose_python_is_gone_is_not_whole(tmp_path: Path) -> None:
    folder = make_environment(tmp_path / "a", "x")
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to("/nowhere/python3")
    assert not is_whole(folder, "x")


def test_the_hash_changes_with_the_requirements(tmp_path: Path) -> None:
    path = tmp_path / "r.txt"
    path.write_text("a==1")
    first = inputs_hash(path)
    path.write_text("a==2")
    assert inputs_hash(path) != first
    assert inputs_hash(path, also="gpu") != inputs_hash(path, also="cpu")


def test_a_link_is_replaced_but_a_folder_of_a_person_is_not(tmp_path: Path) -> None:
    link, target = tmp_path / ".venv-engine", tmp_path / "engine"
    target.mkdir()
    environments._link(link, target)
    environments._link(link, target)
    assert link.readlink() == target
    link.unlink()
    link.mkdir()
    with pytest.raises(LauncherError, match="Move it away"):
        environments._link(link, target)


@pytest.mark.stack
def test_a_failed_installation_leaves_no_marker_and_no_gigabytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real pip, told to use no index: the engine's first package can't be found."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setenv("HEADWORKS_ENGINE_BUILD", "cpu")
    monkeypatch.delenv("HEADWORKS_ENGINE_PIP_ARGS", raising=False)
    layout = Layout(ROOT, tmp_path / "home", tmp_path / "cache")
    layout.make_home()
    with pytest.raises(LauncherError, match="CPU build of PyTorch") as caught:
        ensure_engine(layout)
    assert "HEADWORKS_ENGINE_PIP_ARGS" in str(caught.value)
    (folder,) = (tmp_path / "cache").glob("engine-*")
    assert list(folder.iterdir()) == []


@pytest.mark.stack
def test_arguments_for_pip_are_passed_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("HEADWORKS_ENGINE_BUILD", "cpu")
    monkeypatch.setenv("HEADWORKS_ENGINE_PIP_ARGS", "--no-such-option 'a b'")
    layout = Layout(ROOT, tmp_path / "home", tmp_path / "cache")
    layout.make_home()
    with pytest.raises(LauncherError, match="no such option: --no-such-option"):
        ensure_engine(layout)


@pytest.mark.stack
def test_an_unreachable_index_is_a_failed_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    arguments = ["--retries", "1", "--index-url", "http://127.0.0.1:9/simple", "headworks-has-no-such-package"]
    with pytest.raises(LauncherError, match="the connection was refused"):
        pip_install(Path(sys.executable), arguments, "installing", tmp_path / "log")
