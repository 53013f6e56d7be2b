from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.simulated_engine import (
    Abort,
    Event,
    Finished,
    Rejected,
    Result,
    SimulatedEngine,
    StepEnded,
    StepStarted,
    Submit,
    Token,
)
from controlplane.domain.simulated_timing import Card, Profile, kv_blocks, reached, step_time_s

PROFILE = Profile(
    weights_bytes=16e9,
    parameters=8e9,
    kv_bytes_per_token=131_072,
    bandwidth_bytes_per_s=2e12,
    flops_per_s=4e14,
    kv_blocks=64,
    block_size=16,
    max_model_len=512,
    max_num_seqs=4,
    max_num_batched_tokens=128,
)


class Driven:
    """An engine with a clock that jumps from step to step and checks it after each event."""

    def __init__(self, profile: Profile = PROFILE) -> None:
        self.engine = SimulatedEngine(profile)
        self.now = 0.0
        self.due: float | None = None
        self.results: list[Result] = []

    def send(self, event: Event) -> list[Result]:
        results = self.engine.handle(event, self.now)
        for result in results:
            if isinstance(result, StepStarted):
                self.due = result.ends_at
        self.results += results
        self.engine.check_invariants()
        return results

    def step(self) -> list[Result]:
        assert self.due is not None
        self.now, self.due = self.due, None
        return self.send(StepEnded())

    def run(self) -> None:
        while self.due is not None:
            self.step()

    def finished(self) -> list[Finished]:
        return [result for result in self.results if isinstance(result, Finished)]


def test_a_request_gets_all_its_tokens_one_a_step() -> None:
    driven = Driven()
    driven.send(Submit("a", 100, 5))
    driven.run()
    tokens = [result for result in driven.results if isinstance(result, Token)]
    assert [token.first for token in tokens] == [True, False, False, False, False]
    assert driven.finished()[0].output_tokens == 5
    assert (driven.engine.running, driven.engine.waiting, driven.engine.kv_usage) == (0, 0, 0.0)


def test_an_idle_engine_owes_no_step() -> None:
    driven = Driven()
    driven.send(Submit("a", 10, 1))
    driven.run()
    assert driven.due is None


def test_a_long_prompt_is_read_in_pieces_of_the_budget() -> None:
    driven = Driven()
    driven.send(Submit("a", 300, 1))
    assert driven.step() == [StepStarted(driven.due or 0)]
    assert driven.step() == [StepStarted(driven.due or 0)]
    assert isinstance(driven.step()[0], Token)


def test_a_running_answer_goes_on_while_a_long_prompt_is_read() -> None:
    driven = Driven()
    driven.send(Submit("a", 10, 50))
    driven.step()
    driven.send(Submit("b", 400, 5))
    driven.step()
    assert [result.request_id for result in driven.step() if isinstance(result, Token)] == ["a"]


def test_more_requests_than_seats_wait_in_order() -> None:
    driven = Driven()
    for name in "abcdef":
        driven.send(Submit(name, 10, 3))
    driven.step()
    assert (driven.engine.running, driven.engine.waiting) == (4, 2)
    driven.run()
    assert [one.request_id for one in driven.finished()] == list("abcdef")


def test_the_last_one_is_preempted_when_blocks_run_out_and_still_finishes() -> None:
    driven = Driven(replace(PROFILE, kv_blocks=8))
    driven.send(Submit("a", 60, 60))
    driven.send(Submit("b", 60, 60))
    driven.run()
    assert driven.engine.counters.preemptions > 0
    assert [one.request_id for one in driven.finished()] == ["a", "b"]
    assert driven.engine.counters.generation_tokens == 120


def test_an_abort_frees_the_blocks_at_once() -> None:
    driven = Driven()
    driven.send(Submit("a", 100, 50))
    driven.step()
    driven.send(Abort("a"))
    assert driven.engine.kv_usage == 0.0
    driven.run()
    assert driven.finished() == []
    assert driven.engine.counters.aborted == 1


def test_an_abort_of_a_finished_request_does_nothing() -> None:
    driven = Driven()
    driven.send(Abort("gone"))
    assert driven.engine.counters.aborted == 0


def test_a_request_beyond_the_context_length_is_rejected_with_the_numbers() -> None:
    driven = Driven()
    (result,) = driven.send(Submit("a", 500, 100))
    assert isinstance(result, Rejected)
    assert "600" in result.reason and "512" in result.reason


def test_a_request_beyond_the_cache_is_rejected() -> None:
    driven = Driven(replace(PROFILE, kv_blocks=4))
    (result,) = driven.send(Submit("a", 60, 20))
    assert isinstance(result, Rejected)


def test_a_request_submitted_twice_is_a_bug() -> None:
    driven = Driven()
    driven.send(Submit("a", 10, 2))
    with pytest.raises(AssertionError, match="twice"):
        driven.engine.handle(Submit("a", 10, 2), 0.0)


def test_decoding_is_bound_by_bandwidth_and_a_full_prompt_step_by_speed() -> None:
    decode = step_time_s(PROFILE, 1, 100)
    assert decode == pytest.approx(16e9 / 2e12 + PROFILE.step_overhead_s, rel=0.01)
    assert step_time_s(PROFILE, 8192, 8192) == pytest.approx(2 * 8e9 * 8192 / 4e14 + PROFILE.step_overhead_s, rel=0.01)


def test_a_batch_costs_hardly_more_than_one_request() -> None:
    assert step_time_s(PROFILE, 32, 32 * 100) < 1.1 * step_time_s(PROFILE, 1, 100)


def test_an_h100_keeps_about_fifty_gib_beside_an_8b_model() -> None:
    blocks = kv_blocks(Card(80e9, 3.35e12, 989e12), 1, 0.9, 16.06e9, 16 * 131_072)
    assert 45 < blocks * 16 * 131_072 / 1024**3 < 55


def test_a_model_larger_than_the_card_leaves_no_block() -> None:
    assert kv_blocks(Card(24e9, 1e12, 1e14), 1, 0.9, 140e9, 16 * 131_072) == 0


def test_two_cards_reach_less_than_twice_one() -> None:
    card = Card(80e9, 3.35e12, 989e12)
    assert reached(card, 1)[0] < reached(card, 2)[0] < 2 * reached(card, 1)[0]


@given(st.integers(0, 2**32), st.integers(33, 80), st.integers(1, 6), st.integers(6, 200))
def test_whatever_comes_nothing_is_lost(seed: int, blocks: int, seats: int, budget: int) -> None:
    chance = random.Random(seed)
    driven = Driven(replace(PROFILE, kv_blocks=blocks, max_num_seqs=seats, max_num_batched_tokens=budget))
    sent = 0
    for number in range(60):
        kind = chance.random()
        if kind < 0.4:
            driven.send(Submit(str(number), chance.randint(1, 400), chance.randint(1, 100)))
            sent += 1
        elif kind < 0.5:
            driven.send(Abort(str(chance.randint(0, number))))
        elif driven.due is not None:
            driven.step()
    driven.run()
    rejected = sum(isinstance(result, Rejected) for result in driven.results)
    counters = driven.engine.counters
    assert counters.finished + counters.aborted + rejected == sent
    assert driven.engine.kv_usage == 0.0
