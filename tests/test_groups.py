"""Tests that must not run side by side are kept in one process."""

from __future__ import annotations

import pytest


def test_tests_are_shared_out_by_group(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("loadgroup", default=False):
        pytest.skip("only where groups are shared out between processes (--dist loadgroup)")
    assert request.node.nodeid.endswith("@tests/test_groups.py")


def test_the_long_tests_begin(request: pytest.FixtureRequest) -> None:
    marks = [
        bool(item.get_closest_marker("engine") or item.get_closest_marker("stack")) for item in request.session.items
    ]
    assert marks == sorted(marks, reverse=True)
