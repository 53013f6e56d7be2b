from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.node import collector_logs
from workers.node.collector_logs import LogFollower, mask


def texts(follower: LogFollower) -> list[str]:
    return [line.line for line in follower.poll()]


def append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


def test_new_lines_come_when_they_are_finished_and_are_numbered(log: Path) -> None:
    follower = LogFollower(log)
    assert follower.poll() == []
    append(log, "one\ntwo\nthr")
    assert [(line.n, line.line) for line in follower.poll()] == [(1, "one"), (2, "two")]
    append(log, "ee\n")
    assert [(line.n, line.line) for line in follower.poll()] == [(3, "three")]


def test_a_log_that_is_cut_or_replaced_is_read_from_its_beginning(log: Path) -> None:
    follower = LogFollower(log)
    append(log, "before, a long line\n")
    follower.poll()
    os.truncate(log, 0)
    append(log, "cut\n")
    assert texts(follower) == ["cut"]
    log.rename(log.with_suffix(".1"))
    append(log, "replaced by a longer one\n")
    assert texts(follower) == ["replaced by a longer one"]


def test_of_a_long_log_the_end_is_shown_at_first(log: Path) -> None:
    append(log, "".join(f"line {number}\n" for number in range(20_000)))
    lines = texts(LogFollower(log))
    assert len(lines) == collector_logs.FIRST_LINES
    assert lines[-1] == "line 19999"


def test_a_flood_is_bounded_and_said(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    follower = LogFollower(log)
    append(log, "first\n")
    follower.poll()
    append(log, "".join(f"line {number}\n" for number in range(1000)))
    lines = texts(follower)
    assert len(lines) == collector_logs.MAX_LINES_A_POLL + 1
    assert (lines[0], lines[-1]) == ("… 800 lines left out …", "line 999")
    monkeypatch.setattr(collector_logs, "MAX_BYTES_A_POLL", 100)
    append(log, "x" * 500 + "\n" + "last\n")
    lines = texts(follower)
    assert "bytes left out" in lines[0]
    assert lines[-1] == "last"


def test_colours_and_keys_do_not_leave_the_node(log: Path) -> None:
    append(log, "\x1b[32mINFO\x1b[0m key s3cr3t-value given\n")
    assert texts(LogFollower(log, ["s3cr3t-value"])) == ["INFO key ••• given"]


@pytest.mark.parametrize(
    "line",
    [
        "using hwr-Abcdefghijklmnop1234567890",
        "Authorization: Bearer abcdef0123456789",
        "api_key=abcdefgh, model=x",
        "https://example.org/?token=abcdefgh&x=1",
        "HF token hf_abcdefghijklmnopqrstuv",
    ],
)
def test_what_looks_like_a_secret_is_hidden(line: str) -> None:
    assert "abcdef" not in mask(line) and "Abcdef" not in mask(line)


@pytest.mark.parametrize("line", ["loaded 12 tokens", "the token=x", "sk-short", "block_size=128, seed=0"])
def test_ordinary_lines_stay_as_they_are(line: str) -> None:
    assert mask(line) == line
