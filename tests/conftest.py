from __future__ import annotations

import pytest

from tests import plugin


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """pytest-django calls this before it makes the test database."""
    plugin.start_postgres()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the long tests first and keeps a file's tests together, so that two processes share the work evenly.

    Tests with a real engine all run in one process, one after the other: an engine takes a core and 3.5 GB.
    """

    def group(item: pytest.Item) -> str:
        for marker in ("stack", "engine"):
            if item.get_closest_marker(marker):
                return "engine"
        return item.nodeid.partition("::")[0]

    def rank(item: pytest.Item) -> int:
        if group(item) == "engine":
            return 1 if item.get_closest_marker("stack") else 0
        return 2 if item.get_closest_marker("browser") else 3

    items.sort(key=rank)
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
