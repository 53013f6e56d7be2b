from __future__ import annotations

import pytest
from hypothesis import settings

from tests import plugin

settings.register_profile("untimed", deadline=None)  # a machine that others use as well is slow at times
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """pytest-django calls this before it makes the test database."""
    plugin.start_postgres()


@pytest.hookimpl(tryfirst=True)  # before the processes are told the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps a file's tests together in one process, and in one process all those with a real engine, one after the
    other: an engine takes a core and 3.5 GB."""

    def group(item: pytest.Item) -> str:
        file = item.location[0]
        if item.get_closest_marker("stack") or item.get_closest_marker("engine"):
            return "engine"
        return "node" if file.startswith(("tests/workers/node/", "tests/embedded/test_node.py")) else file

    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
