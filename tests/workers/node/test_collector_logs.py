from __future__ import annotations

import os
from pathlib import Path

import pytest

from workers.node import collector_logs, collector_places
from workers.node.collector_logs import LogFollower, LogLine, LogPlace


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


def test_another_follower_goes_on_where_one_left_off(log: Path) -> None:
    first = LogFollower(log)
    append(log, "one\ntwo\nthr")
    place = first.poll()[-1].place
    append(log, "ee\nfour\n")
    second = LogFollower(log, place=place)
    assert [(line.n, line.line) for line in second.poll()] == [(3, "three"), (4, "four")]
    assert second.poll() == []


def test_a_log_that_was_replaced_while_nobody_followed_goes_on_in_number(log: Path) -> None:
    append(log, "one\ntwo\n")
    place = LogFollower(log).poll()[-1].place
    log.rename(log.with_suffix(".1"))
    append(log, "three, of another file that is longer\n")
    lines = LogFollower(log, place=place).poll()
    assert [(line.n, line.line) for line in lines] == [(3, "three, of another file that is longer")]


def test_where_only_the_number_is_known_the_end_is_shown_again_with_higher_numbers(log: Path) -> None:
    append(log, "one\ntwo\n")
    assert [line.n for line in LogFollower(log, place=LogPlace(40)).poll()] == [41, 42]


def test_a_place_survives_its_way_through_the_stream() -> None:
    for line in (LogLine(7, "x", LogPlace(7, 1234, 99)), LogLine(7, "x")):
        entry = {name.encode(): str(value).encode() for name, value in collector_places.encode(line).items()}
        assert collector_places.decode(entry) == (line.place or LogPlace(7))
