from __future__ import annotations

import pytest

from tests import plugin


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """pytest-django calls this before it makes the test database."""
    plugin.start_postgres()
