from __future__ import annotations

import pytest

from tests import plugin


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """pytest-django calls this before it makes the test database."""
    plugin.start_postgres()


@pytest.hookimpl(tryfirst=True)  # before the processes are told the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long tests first and keeps a file's tests together, so that two processes share the work evenly.

    Tests with a real engine all run in one process, one after the other: an engine takes a core and 3.5 GB.
    """

    def group(item: pytest.Item) -> str:
        file = item.location[0]
        if item.get_closest_marker("stack") or item.get_closest_marker("engine"):
            return "engine"
        return "node" if file.startswith(("tests/workers/node/", "tests/embedded/test_node.py")) else file

    def rank(item: pytest.Item) -> int:
        if item.get_closest_marker("engine"):
            return 0
        if item.get_closest_marker("stack"):
            return 1
        return 2 if item.get_closest_marker("browser") else 3

    items.sort(key=rank)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
