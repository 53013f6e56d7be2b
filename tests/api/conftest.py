from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.api.calling import make_client


@pytest.fixture
def viewer(db: None) -> APIClient:
    return make_client("viewer")


@pytest.fixture
def operator(db: None) -> APIClient:
    return make_client("operator")


@pytest.fixture
def administrator(db: None) -> APIClient:
    return make_client("administrator")
