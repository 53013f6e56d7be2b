from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.performance import step_time
from controlplane.domain.performance.closed_loop import Limits, State, solve
from controlplane.domain.performance.learned import COEFFICIENTS
from controlplane.domain.performance.setup import Workload
from controlplane.domain.specs.model import ModelFacts
from tests.domain.performance.setups import make_dense, make_format, make_mixture, make_setup

WIDE = Limits(inf, inf, 8192)


def make_rates(model: ModelFacts | None = None, fmt: str = "bf16", **fields: Any) -> step_time.Rates:
    model = model or make_dense()
    return step_time.rates(model, make_setup(**fields), make_format(fmt, model), COEFFICIENTS)


def make_state(concurrency: float, load: Workload | None = None, limits: Limits = WIDE, **fields: Any) -> State:
    return solve(make_rates(**fields), load or Workload(1000, 500), limits, concurrency)


def test_one_request_takes_at_least_the_time_of_reading_the_weights() -> None:
    state = make_state(1)
    assert 25.6e9 / 3.35e12 < state.tpot_s < 2.5 * 25.6e9 / 3.35e12


@settings(max_examples=60)
@given(st.floats(1, 2000), st.floats(16, 16000), st.floats(2, 4000))
def test_littles_law_holds(concurrency: float, prompt: float, answer: float) -> None:
    load = Workload(prompt, answer)
    state = make_state(concurrency, load)
    alive = state.ttft_s + (answer - 1) * state.tpot_s
    assert state.requests_per_s * alive >= concurrency * 0.98
    assert state.requests_per_s * (answer - 1) * state.tpot_s <= concurrency * 1.0001


@settings(max_examples=60)
@given(st.floats(1, 1000), st.floats(1.01, 4))
def test_more_requests_make_each_slower_and_all_together_faster(concurrency: float, times: float) -> None:
    few, many = make_state(concurrency), make_state(concurrency * times)
    assert many.tpot_s >= few.tpot_s * 0.999
    assert many.requests_per_s >= few.requests_per_s * 0.999


def test_longer_prompts_lengthen_the_time_per_token_of_others() -> None:
    short, long = make_state(16, Workload(100, 200)), make_state(16, Workload(4000, 200))
    assert long.tpot_s > 1.5 * short.tpot_s
    assert long.prompt_share > 0.3


def test_tensor_parallelism_makes_a_token_faster_but_not_twice() -> None:
    one, two = make_state(1), make_state(1, tensor_parallel=2)
    assert one.tpot_s / 2 < two.tpot_s < one.tpot_s


def test_a_bus_is_slower_than_a_fabric() -> None:
    fabric = make_state(64, card="A100-SXM-80GB", tensor_parallel=4)
    bus = make_state(64, card="A100-PCIe-80GB", tensor_parallel=4)
    assert bus.step.communication > 3 * fabric.step.communication


def test_a_mixture_reads_more_experts_as_the_batch_grows() -> None:
    model = make_mixture()
    few = solve(make_rates(model), Workload(100, 500), WIDE, 1)
    many = solve(make_rates(model), Workload(100, 500), WIDE, 64)
    assert many.step.experts > 8 * few.step.experts


def test_eight_bit_weights_are_faster_than_sixteen() -> None:
    assert make_state(1, fmt="fp8").tpot_s < 0.85 * make_state(1).tpot_s


def test_requests_beyond_the_limit_wait() -> None:
    free, bounded = make_state(64), make_state(64, limits=Limits(16, inf, 8192))
    assert bounded.running == 16
    assert bounded.ttft_s > free.ttft_s + bounded.wait_s / 2 > free.ttft_s
    assert bounded.tpot_s < free.tpot_s


def test_throughput_rises_by_a_fifth_and_slow_requests_get_faster_when_concurrency_falls_from_128_to_48() -> None:
    """A full cache throws requests out and computes them again; below what memory holds that work is saved.

    Worked sum: "throughput up 22 % and P95 down". Most on a card with little compute for its memory: the work that is
    done twice is that of prompts.
    """
    load = Workload(1000, 1000)
    limits = Limits(inf, 49 * load.mean_context_tokens, 8192)
    crowded, calm = (make_state(concurrency, load, limits, card="H20") for concurrency in (128, 48))
    assert crowded.preemptions == pytest.approx(0.5)
    assert calm.requests_per_s / crowded.requests_per_s == pytest.approx(1.22, abs=0.06)
    assert calm.ttft_s + calm.wait_s < (crowded.ttft_s + crowded.wait_s) / 10


def test_without_waiting_nothing_is_thrown_out() -> None:
    assert make_state(8, limits=Limits(inf, 1e6, 8192)).preemptions == 0


def test_speculation_makes_single_requests_faster() -> None:
    assert make_state(1, speculative=True).tpot_s < make_state(1).tpot_s


def test_parts_add_up_to_the_step() -> None:
    step = make_state(32).step
    parts = (getattr(step, part) for part in step_time.PARTS if part != "interference")
    assert step.seconds == pytest.approx(sum(parts))


def test_scaling_a_part_changes_that_part_only() -> None:
    speed = make_rates()
    slower = step_time.scaled(speed, {"kv": 2.0})
    a, b = (step_time.decode(one, 16, 1000) for one in (speed, slower))
    assert b.kv == pytest.approx(2 * a.kv)
    assert replace(b, kv=a.kv, compute=a.compute) == a
