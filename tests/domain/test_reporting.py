from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.observed import NODE_LOST_AFTER_S, REPORT_SCHEMA, NodeReport
from controlplane.domain.reporting import Known, is_node_name, judge

KNOWN = Known(machine="m1", starts=3, incarnation="a", sequence=10, silent_s=1.0)
REPORT = NodeReport(REPORT_SCHEMA, "n1", "a", 11, 0.0, "", 1, 0, (), (), machine="m1", starts=3)


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({}, "new"),
        ({"sequence": 10}, "old"),
        ({"incarnation": "b", "starts": 4, "sequence": 1}, "new"),  # started anew
        ({"incarnation": "b", "starts": 2, "sequence": 99}, "old"),  # a late word of the worker before
        ({"incarnation": "b", "starts": 3, "sequence": 99}, "old"),
        ({"incarnation": "b", "machine": "m2", "starts": 9}, "taken"),
        ({"schema": REPORT_SCHEMA + 1}, "newer_schema"),
        ({"schema": REPORT_SCHEMA - 1}, "new"),
    ],
)
def test_only_the_worker_that_is_known_and_its_successor_are_believed(changes: dict, verdict: str) -> None:
    assert judge(KNOWN, replace(REPORT, **changes)) == verdict


@pytest.mark.parametrize("changes", [{"machine": "m2"}, {"starts": 1}])
def test_after_a_long_silence_whoever_reports_is_believed(changes: dict) -> None:
    report = replace(REPORT, incarnation="b", **changes)
    assert judge(replace(KNOWN, silent_s=NODE_LOST_AFTER_S), report) == "new"
    assert judge(replace(KNOWN, silent_s=NODE_LOST_AFTER_S - 0.1), report) != "new"


def test_a_node_that_has_never_reported_is_heard() -> None:
    assert judge(Known("", 0, "", 0, 0.0), REPORT) == "new"


@pytest.mark.parametrize(
    ("name", "good"),
    [("n1", True), ("Gpu_01.rack-2", True), ("-x", False), ("a/b", False), ("x" * 64, False), ("do", False)],
)
def test_a_name_of_a_node_is_an_address(name: str, good: bool) -> None:
    assert is_node_name(name) is good
