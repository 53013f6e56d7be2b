from __future__ import annotations

import io

import pytest
from rest_framework.exceptions import ParseError

from controlplane.api.parsers import StrictJSONParser


@pytest.mark.parametrize("number", ["1" + "0" * 400, "-1" + "0" * 400, "1e400", "NaN", "-Infinity", str(2**63)])
def test_a_number_of_any_size_is_refused_with_a_sentence(number: str) -> None:
    with pytest.raises(ParseError):
        StrictJSONParser().parse(io.BytesIO(f'{{"a": [{number}]}}'.encode()))


@pytest.mark.parametrize("number", ["0", "-3", "2.5", str(2**63 - 1)])
def test_other_numbers_are_read(number: str) -> None:
    read = StrictJSONParser().parse(io.BytesIO(f'{{"a": [{number}]}}'.encode()))
    assert str(read["a"][0]) == number
