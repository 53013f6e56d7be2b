from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.embedded import logs, say


def test_a_log_that_became_too_long_is_moved_and_its_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with open(path, "a", encoding="utf-8") as writer:
        writer.write("x" * 100)
        writer.flush()
        assert logs.bound(path, limit_bytes=50)
        writer.write("new")
    assert path.read_text() == "new"
    assert (tmp_path / "a.log.1").read_text() == "x" * 100


def test_a_short_or_missing_log_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("short")
    assert not logs.bound(tmp_path / "a.log", limit_bytes=50)
    assert not logs.bound(tmp_path / "b.log")


def test_the_follower_shows_whole_lines_with_the_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    path.write_text("old\n")
    follower = logs.Follower("gateway", path)
    with open(path, "a", encoding="utf-8") as writer:
        writer.write("one\ntw")
        writer.flush()
        follower.show()
        writer.write("o\n")
    follower.show()
    assert capsys.readouterr().out == "   gateway | one\n   gateway | two\n"


def test_the_follower_goes_on_after_the_log_was_emptied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.log"
    path.write_text("a long old line\n")
    follower = logs.Follower("x", path)
    path.write_text("new\n")
    follower.show()
    assert capsys.readouterr().out.endswith("| new\n")


def test_the_tail_of_a_missing_file_is_empty(tmp_path: Path) -> None:
    assert logs.tail(tmp_path / "none", 5) == []
    (tmp_path / "a").write_text("1\n2\n3\n")
    assert logs.tail(tmp_path / "a", 2) == ["2", "3"]


def test_steps_of_another_launcher_count_from_the_start_of_this_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(say, "elapsed_s", lambda: 2.0)
    path = tmp_path / "launcher.log"
    path.touch()
    follower = logs.Follower("", path, logs.as_own_step)
    follower.prefix = ""
    path.write_text("[1402.3 s] Ending gateway\n[  12.0 s] Ending node\nno step [1.0 s] at all\n")
    follower.show()
    assert capsys.readouterr().out == ("[   2.0 s] Ending gateway\n[   2.0 s] Ending node\nno step [1.0 s] at all\n")
