from __future__ import annotations

import json

import pytest

from controlplane.embedded.database import explain_database_failure
from controlplane.embedded.readiness import Progress, judge, statuses


def test_everything_ready_or_stopped_is_nothing_to_wait_for() -> None:
    found = judge({"a": "ready", "b": "stopped", "c": "degraded"})
    assert (found.waiting, found.problem) == ("", "")
    assert found.serving == {"a", "c"}
    assert judge({}) == Progress()


@pytest.mark.parametrize("status", ["starting", "waiting", "draining"])
def test_what_is_on_its_way_is_waited_for(status: str) -> None:
    assert judge({"a": "ready", "b": status}).waiting == f"b ({status})"


def test_a_failed_deployment_is_given_time_to_start_again_and_then_said() -> None:
    # after a power failure every engine is found dead at first, and started again a moment later
    assert judge({"a": "failed"}) == Progress(waiting="a (failed)")
    found = judge({"a": "failed"}, nodes_are_known=True)
    assert found.waiting == ""
    assert found.problem.startswith("Not ready: a (failed)")


def test_what_finds_no_place_is_waited_for_only_until_the_nodes_are_known() -> None:
    assert judge({"a": "waiting"}).waiting == "a (waiting)"
    found = judge({"a": "waiting", "b": "starting"}, nodes_are_known=True)
    assert found.waiting == "b (starting)"
    assert "a (waiting)" in found.problem


@pytest.mark.parametrize("wrap", [lambda rows: {"results": rows}, lambda rows: rows])
def test_statuses_are_read_from_a_page_or_a_list(wrap: object) -> None:
    assert callable(wrap)
    rows = wrap([{"name": "a", "status": "ready"}])
    assert statuses(json.dumps(rows).encode()) == {"a": "ready"}
    assert statuses(b"<html>") == {}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ('connection failed: connection to server at "1.2.3.4" failed: Connection refused', "Check DATABASE_URL"),
        ("manage.py: The database does not answer: connection failed: gone.", "answer: connection failed: gone. Check"),
        ('FATAL:  password authentication failed for user "x"', "refuses the user or the password"),
        ("could not extend file: No space left on device", "The disk is full"),
        ("Traceback\nValueError: no", "ValueError: no"),
    ],
)
def test_a_database_that_does_not_work_is_one_sentence(output: str, words: str) -> None:
    said = explain_database_failure(output)
    assert words in said
    assert "Traceback" not in said
