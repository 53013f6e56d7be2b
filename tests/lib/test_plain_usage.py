from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lib.plain_usage import PassingUsage, usage_of
from controlplane.lib.usage import Usage

USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
VECTORS = [{"index": one, "embedding": [0.123456789] * 500} for one in range(40)]
LYING = {"message": {"content": '"usage": {"prompt_tokens": 99}'}, "token": "usage", "x": ["usage"]}


def passed(answer: bytes, size: int) -> Usage | None:
    passing = PassingUsage()
    for at in range(0, len(answer), size):
        passing.feed(answer[at : at + size])
    return passing.found


@pytest.mark.parametrize(
    "fields",
    [
        {"usage": USAGE, "data": VECTORS},
        {"data": VECTORS, "usage": USAGE},
        {"choices": [LYING, VECTORS], "usage": USAGE, "prompt_logprobs": VECTORS},
        {"choices": [LYING], "usage": USAGE, "prompt_token_ids": [1] * 100_000, "more": None},
    ],
)
def test_the_usage_is_found_wherever_it_stands(fields: dict) -> None:
    for indent in (None, 2):
        answer = json.dumps(fields, indent=indent).encode()
        assert len(answer) > 200_000
        assert usage_of(answer) == Usage(5, 2)
        for size in (100, 4096, 65_536, 1_000_000):
            assert passed(answer, size) == Usage(5, 2)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no",
        b'{"a": {"usage": {"prompt_tokens": 1}}}',
        b'{"usage": null}',
        b'"usage"',
        b'{"usage": {"prompt_tok',
        b'{"usage": {"prompt_tokens": -1}}',
        b'{"usage": ' + b"[" * 50_000,
        json.dumps(LYING).encode(),
    ],
)
def test_an_answer_without_a_usage_of_its_own_gives_none(answer: bytes) -> None:
    assert usage_of(answer) is None


@given(st.integers(1, 60), st.integers(0, 30))
def test_a_passing_usage_may_be_cut_anywhere(size: int, before: int) -> None:
    answer = b" " * before + json.dumps({"usage": USAGE, "choices": [LYING]}).encode()
    assert passed(answer, size) == Usage(5, 2)


def test_no_more_than_a_few_kilobytes_are_kept_of_what_passes() -> None:
    passing = PassingUsage()
    for _ in range(100):
        passing.feed(b'"usage": {' * 1000)
        assert len(passing._rest) <= 4096
    assert passing.found is None
