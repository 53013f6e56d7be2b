"""Absurd numbers are refused by the name of their field."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.errors import RefusedError
from controlplane.domain.parallelism import ranking
from controlplane.domain.parallelism.question import Load
from controlplane.domain.performance.curve import Objective
from controlplane.domain.performance.setup import Workload
from tests.domain.ledger.setups import make_model
from tests.domain.parallelism.questions import make_hardware, make_question

ABSURD: list[Any] = [-1, nan, inf, 1e30, "eight", [8], {"a": {"b": {}}}, True, 10**4000]


def refused(question: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        ranking.rank(question)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("value", ABSURD)
@pytest.mark.parametrize("field", ["cards_per_node", "nodes", "price_per_hour", "network_bytes_per_s", "link_group"])
def test_hardware(field: str, value: Any) -> None:
    hardware = replace(make_hardware(), **{field: value})
    assert set(refused(replace(make_question(), hardware=hardware)).fields) == {field}


@pytest.mark.parametrize("value", ABSURD)
@pytest.mark.parametrize("field", ["input_tokens", "output_tokens", "context_tokens"])
def test_lengths(field: str, value: Any) -> None:
    load = Load(replace(Workload(1000, 300), **{field: value}))
    assert field in refused(replace(make_question(), load=load)).fields


@pytest.mark.parametrize("value", ABSURD)
@pytest.mark.parametrize("field", ["requests_per_s", "concurrency"])
def test_load(field: str, value: Any) -> None:
    load = replace(Load(Workload(1000, 300)), **{field: value})
    assert field in refused(replace(make_question(), load=load)).fields


@pytest.mark.parametrize("value", ABSURD)
@pytest.mark.parametrize("field", ["ttft_ms", "tpot_ms"])
def test_objective(field: str, value: Any) -> None:
    objective = replace(Objective(), **{field: value})
    assert field in refused(replace(make_question(), objective=objective)).fields


@pytest.mark.parametrize("value", [-1, nan, 1e30, "eight", [8], {"a": {}}, True, 10**4000])
@pytest.mark.parametrize(
    "field",
    [
        "utilization",
        "max_model_len",
        "max_num_seqs",
        "max_num_batched_tokens",
        "block_size",
        "kv_cap_bytes",
        "kv_cap_share",
        "cpu_offload_bytes",
        "foreign_bytes",
        "reserve_bytes",
        "adapters",
        "adapter_rank",
    ],
)
def test_settings(field: str, value: Any) -> None:
    question = make_question()
    wishes = replace(question.wishes, **{field: value})
    assert set(refused(replace(question, wishes=wishes)).fields) == {field}


@pytest.mark.parametrize("field", ["parameters", "num_hidden_layers"])
def test_a_model_of_nothing(field: str) -> None:
    question = replace(make_question(), model=make_model(**{field: 0}))
    assert set(refused(question).fields) == {f"model.{field}"}


def test_a_width_that_is_not_known_is_said() -> None:
    found = ranking.rank(make_question(make_model(num_attention_heads=0, hidden_size=0)))
    said = " ".join(found.assumptions)
    assert "whether TP divides them was not checked" in said
    assert "hidden size is not known" in said


def test_a_rate_and_a_concurrency_together_are_one_too_many() -> None:
    assert set(refused(make_question(requests_per_s=1, concurrency=1)).fields) == {"concurrency"}


def test_an_unknown_purpose_is_named() -> None:
    wrong: Any = "fun"
    assert refused(make_question(purpose=wrong)).fields == {"purpose": "interactive or offline"}


def test_a_length_below_a_mean_request_is_named() -> None:
    assert set(refused(make_question(max_model_len=500)).fields) == {"max_model_len"}


def test_all_that_is_wrong_is_said_at_once() -> None:
    question = replace(make_question(), load=Load(Workload(-1, nan)))
    assert set(refused(question).fields) == {"input_tokens", "output_tokens"}


@given(st.one_of(st.integers(), st.floats(), st.text(), st.lists(st.integers()), st.none(), st.booleans()))
@settings(max_examples=100, deadline=None)
def test_a_number_of_cards_is_answered_or_refused(value: Any) -> None:
    question = replace(make_question(), hardware=replace(make_hardware(), cards_per_node=value))
    try:
        assert ranking.rank(question).sentence
    except RefusedError as error:
        assert set(error.fields) == {"cards_per_node"}
