from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.performance import work
from controlplane.domain.specs.model import Layers, ModelFacts
from tests.domain.performance.setups import make_dense, make_format, make_latent, make_mixture, make_setup


def make_work(model: ModelFacts | None = None, fmt: str = "bf16", **fields: Any) -> work.Work:
    model = model or make_dense()
    return work.of(model, make_setup(**fields), make_format(fmt, model))


def test_dense_weights_are_read_whole_but_for_the_input_embedding() -> None:
    assert make_work().dense_bytes == pytest.approx(2 * (13e9 - 32000 * 5120))


def test_tensor_parallelism_splits_weights_and_heads() -> None:
    one, two = make_work(), make_work(tensor_parallel=2)
    assert two.dense_bytes == pytest.approx(one.dense_bytes / 2)
    assert two.kv_bytes_of(1000) == pytest.approx(one.kv_bytes_of(1000) / 2)


def test_a_token_of_context_of_a_13b_takes_819200_bytes() -> None:
    assert make_work().kv_bytes_of(1) == 819_200


def test_heads_are_replicated_beyond_their_number() -> None:
    four, eight = (make_work(make_mixture(), tensor_parallel=degree) for degree in (4, 8))
    assert four.kv_bytes_of(1) == eight.kv_bytes_of(1)


def test_a_latent_is_on_every_rank() -> None:
    one, eight = make_work(make_latent()), make_work(make_latent(), tensor_parallel=8)
    assert one.kv_bytes_of(1) == eight.kv_bytes_of(1) == 27 * 576 * 2


def test_an_eight_bit_cache_is_half() -> None:
    assert make_work(kv_format="fp8").kv_bytes_of(100) == make_work().kv_bytes_of(100) / 2


def test_a_window_bounds_what_is_read() -> None:
    model = make_dense()
    windowed = work.of(
        replace(model, layers=(Layers("sliding", 40, kv_heads=40, head_dim=128, window_tokens=128),)),
        make_setup(),
        make_format("bf16", model),
    )
    assert windowed.kv_bytes_of(100_000) == windowed.kv_bytes_of(128)


def test_one_token_touches_its_share_of_experts_and_many_touch_all() -> None:
    found = make_work(make_mixture())
    assert found.expert_share_touched(1) == pytest.approx(8 / 128)
    assert found.expert_share_touched(1000) == pytest.approx(1.0)


@given(st.floats(1, 5000), st.floats(1, 5000))
def test_more_tokens_never_touch_fewer_experts(a: float, b: float) -> None:
    found = make_work(make_mixture())
    low, high = sorted((a, b))
    assert 0 < found.expert_share_touched(low) <= found.expert_share_touched(high) <= 1


def test_four_bit_experts_leave_the_rest_of_a_mixture_in_sixteen() -> None:
    wide, narrow = make_work(make_mixture()), make_work(make_mixture(), "nvfp4")
    assert narrow.dense_bytes == wide.dense_bytes
    assert narrow.expert_bytes == pytest.approx(wide.expert_bytes * 0.5625 / 2)


def test_a_token_costs_two_flops_a_weight_it_meets() -> None:
    assert make_work().flops_per_token == pytest.approx(2 * (13e9 - 32000 * 5120))
