from __future__ import annotations

import pytest

from controlplane.domain import names


@pytest.mark.parametrize("name", ["new", "do", "New"])
def test_a_name_that_is_an_address_of_the_console_is_reserved(name: str) -> None:
    assert f"The name {name} is reserved" in names.reserved(name)


@pytest.mark.parametrize("name", ["news", "done", "chat", ""])
def test_other_names_may_be_had(name: str) -> None:
    assert names.reserved(name) == ""
