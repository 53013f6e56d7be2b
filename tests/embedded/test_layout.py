from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.embedded.layout import Layout
from controlplane.embedded.problems import LauncherError
from controlplane.env import cache_folder


def make_layout(folder: Path) -> Layout:
    return Layout(root=folder, home=folder / "home", cache=folder / "cache")


def test_a_socket_in_the_folder_fits_the_limit_however_deep_the_data_lies(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path / ("deep" * 60), tmp_path)
    assert len(str(layout.sockets / ".s.PGSQL.5432")) < 107


def test_two_data_folders_have_two_socket_folders(tmp_path: Path) -> None:
    assert Layout(tmp_path, tmp_path / "a", tmp_path).sockets != Layout(tmp_path, tmp_path / "b", tmp_path).sockets


def test_the_data_folder_is_private(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    layout.make_home()
    assert layout.home.stat().st_mode & 0o777 == 0o700


def test_a_socket_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    folder = layout.make_sockets()
    try:
        folder.chmod(0o755)
        with pytest.raises(LauncherError, match="not a private folder"):
            layout.make_sockets()
    finally:
        folder.rmdir()


def test_a_link_in_place_of_the_socket_folder_is_refused(tmp_path: Path) -> None:
    layout = make_layout(tmp_path)
    layout.sockets.symlink_to(tmp_path)
    try:
        with pytest.raises(LauncherError, match="not a private folder"):
            layout.make_sockets()
    finally:
        layout.sockets.unlink()


def test_a_data_folder_that_can_not_be_made_names_the_variable(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(LauncherError, match="Set HEADWORKS_HOME"):
        make_layout(tmp_path).make_home()


def test_the_cache_can_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.delenv("HEADWORKS_CACHE", raising=False)
    assert cache_folder() == Path("/x/headworks")
    monkeypatch.setenv("HEADWORKS_CACHE", "/y")
    assert cache_folder() == Path("/y")
