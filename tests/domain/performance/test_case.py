from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.errors import RefusedError
from controlplane.domain.performance import case
from controlplane.domain.performance.case import Question
from controlplane.domain.specs.model import ModelFacts
from tests.domain.performance.setups import make_dense, make_mixture


def find_model(name: str) -> ModelFacts | None:
    return {"dense": make_dense(), "mixture": make_mixture()}.get(name)


def read(model: str = "dense", gpu: str = "H100-SXM", **fields: Any) -> Question:
    return case.read({"model": model, "gpu": gpu, "concurrency": 4, **fields}, find_model)


def test_what_is_not_said_is_assumed_and_said() -> None:
    question = read()
    assert question.setup.engine == "unknown"
    assert question.weights.width == 16
    assert any("engine" in sentence for sentence in question.assumptions)


def test_all_cards_of_one_copy_are_its_tensor_parallel_ranks_unless_said() -> None:
    assert read(gpu_count=4).setup.tensor_parallel == 4
    assert read(gpu_count=4, pp=2).setup.tensor_parallel == 2


def test_cards_beyond_one_copy_are_more_copies() -> None:
    setup = read(gpu_count=8, tp=2).setup
    assert (setup.tensor_parallel, setup.data_parallel, setup.cards) == (2, 4, 8)


def test_data_parallel_ranks_that_share_experts_are_one_copy() -> None:
    setup = read("mixture", gpu_count=8, tp=1, dp=8, ep=8).setup
    assert (setup.tensor_parallel, setup.attention_parallel, setup.data_parallel) == (8, 8, 1)
    assert setup.expert_parallel


def test_attention_may_be_data_parallel_within_the_ranks() -> None:
    setup = read("mixture", gpu_count=4, tp=4, dp=4, ep=4).setup
    assert (setup.tensor_parallel, setup.attention_parallel, setup.data_parallel) == (4, 4, 1)


def test_a_product_of_tensor_and_expert_ranks_is_read_as_such() -> None:
    question = read("mixture", gpu_count=64, tp=64, ep=8)
    assert question.setup.tensor_parallel == 8
    assert any("product" in sentence for sentence in question.assumptions)


def test_two_boards_with_experts_on_all_cards_stay_sixteen() -> None:
    assert read("mixture", gpu_count=16, tp=16, ep=16).setup.tensor_parallel == 16


@pytest.mark.parametrize(
    ("fields", "width"),
    [({"dtype": "fp8"}, 8), ({"dtype": "int4-awq"}, 4), ({"quantization": "awq", "dtype": "bf16"}, 4), ({}, 16)],
)
def test_the_format_is_read_from_dtype_or_quantization(fields: dict[str, str], width: int) -> None:
    assert read(**fields).weights.width == width


def test_the_format_is_read_from_the_name_where_nothing_else_says_it() -> None:
    assert read("who/knows-7B-AWQ", params_b=7).weights.name == "int4"


def test_an_unstated_cache_of_narrow_weights_on_blackwell_is_taken_for_eight_bits() -> None:
    assert read(gpu="B200", dtype="fp8").setup.kv_narrow
    assert not read(gpu="B200", dtype="fp8", kv_cache_dtype="bf16").setup.kv_narrow
    assert not read(gpu="H100", dtype="fp8").setup.kv_narrow
    assert not read(gpu="B200").setup.kv_narrow


def test_more_ranks_than_cards_are_refused() -> None:
    with pytest.raises(RefusedError) as refused:
        read(gpu_count=2, tp=2, pp=2)
    assert list(refused.value.fields) == ["tp"]


@pytest.mark.parametrize(
    ("fields", "field"), [({"tp": 3, "gpu_count": 3}, "tp"), ({"pp": 1000, "gpu_count": 1000}, "pp")]
)
def test_what_the_engine_does_not_split_is_refused(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(RefusedError) as refused:
        read(**fields)
    assert field in refused.value.fields


def test_what_would_not_start_and_what_is_not_known_is_told() -> None:
    told = " ".join(read(gpu="T4", tp=1, engine="frobnicate", input_len_mean=1_000_000).assumptions)
    assert "does not fit" in told and "frobnicate is not known" in told
