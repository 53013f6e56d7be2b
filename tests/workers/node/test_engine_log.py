from __future__ import annotations

import os
from pathlib import Path

from workers.node import engine_log


def write(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def make_ended(replicas: Path, name: str, age_s: float, size: int = 10) -> Path:
    folder = replicas / name
    folder.mkdir(parents=True)
    (folder / "engine.log").write_bytes(b"x" * size)
    os.utime(folder / "engine.log", (1_000_000 - age_s, 1_000_000 - age_s))
    return folder


def test_only_lines_of_the_newest_start_are_read(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    engine_log.write_headline(log, 1, 0.0)
    write(log, "an old error")
    engine_log.write_headline(log, 2, 86_400.0)
    write(log, "a new error")
    assert engine_log.lines(log) == ("=== Headworks: start number 2, 1970-01-02 00:00:00 UTC ===", "a new error")


def test_colours_and_overlong_lines_are_cut(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    write(log, "\x1b[31mred\x1b[0m", "y" * 5000, "   ")
    assert engine_log.lines(log) == ("red", "y" * engine_log.MAX_LINE)


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(b"caf\xe9\nok\n")
    assert engine_log.lines(log)[-1] == "ok"


def test_a_log_that_does_not_exist_has_no_lines(tmp_path: Path) -> None:
    assert engine_log.lines(tmp_path / "engine.log") == ()
    assert not engine_log.bound(tmp_path / "engine.log")


def test_an_overlong_log_is_emptied_and_its_newest_part_kept(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    with log.open("ab") as engine:  # as the engine holds it
        engine.write(b"a" * 900 + b"b" * 100)
        engine.flush()
        assert engine_log.bound(log, max_bytes=500, keep_bytes=100)
        engine.write(b"after")
    assert (tmp_path / "engine.log.1").read_bytes() == b"b" * 100
    assert log.read_bytes() == b"after"
    assert not engine_log.bound(log, max_bytes=500)


def test_logs_of_ended_replicas_go_when_they_are_old(tmp_path: Path) -> None:
    old, new = make_ended(tmp_path, "old", 8 * 86_400), make_ended(tmp_path, "new", 60)
    kept = make_ended(tmp_path, "kept", 90 * 86_400)
    (kept / "record.json").write_text("{}")
    os.utime(kept / "record.json", (0, 0))
    assert engine_log.prune(tmp_path, 1_000_000) == 1
    assert not old.exists() and new.exists() and kept.exists()


def test_logs_of_ended_replicas_have_a_common_limit(tmp_path: Path) -> None:
    oldest, middle, newest = (make_ended(tmp_path, str(age), age, 400) for age in (300, 200, 100))
    assert engine_log.prune(tmp_path, 1_000_000, max_bytes=1000) == 1
    assert not oldest.exists() and middle.exists() and newest.exists()


def test_the_last_lines_tell_most() -> None:
    lines = [f"line {number}" for number in range(100)]
    assert engine_log.telling(lines, 3) == ("line 97", "line 98", "line 99")
    assert engine_log.telling([*lines, "ValueError: x", "bye"], 3) == ("line 99", "ValueError: x", "bye")


def test_noise_after_the_last_error_does_not_hide_it(shared_data: Path) -> None:
    log = shared_data / "engine_logs" / "vllm-0.32.0-cpu-pp2-dies-on-first-token.log"
    lines = [*log.read_text().splitlines(), *["nanobind: leaked function"] * 50]
    shown = engine_log.telling(lines, 30)
    assert len(shown) == 30 and any("Error" in line for line in shown)
