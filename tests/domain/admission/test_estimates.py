from __future__ import annotations

import random

import pytest

from controlplane.domain.admission.estimates import FIRST_OUTPUT_TOKENS, OutputSizes, PromptSizes, next_step


def test_bytes_a_token_are_learned_and_the_error_shrinks() -> None:
    prompts, chance = PromptSizes(), random.Random(1)
    errors = []
    for _ in range(400):
        size = chance.randrange(200, 4000)
        counted = max(1, int(size / 2.7 * chance.uniform(0.9, 1.1)))
        estimated = prompts.estimate(size)
        errors.append(abs(estimated - counted) / counted)
        prompts.learn(size, estimated, counted)
    assert prompts.bytes_a_token == pytest.approx(2.7, rel=0.05)
    assert sum(errors[200:]) / 200 < 0.07
    assert prompts.error_sum == pytest.approx(sum(errors)) and prompts.error_count == 400


def test_a_change_of_language_is_followed() -> None:
    prompts = PromptSizes()
    for bytes_a_token in (4, 2):
        for _ in range(400):
            prompts.learn(2000, prompts.estimate(2000), 2000 // bytes_a_token)
    assert prompts.bytes_a_token == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("mean", [20, 400, 3000])
def test_about_one_output_in_twenty_is_above_the_high_one(mean: int) -> None:
    outputs, chance = OutputSizes(), random.Random(2)
    above = 0
    for number in range(6000):
        tokens = int(chance.expovariate(1 / mean))
        above += number >= 1000 and tokens > outputs.high("ada")
        outputs.learn("ada", tokens)
    assert 0.02 <= above / 5000 <= 0.1


def test_a_new_tenant_is_taken_to_be_like_the_others_and_the_first_of_all_gets_room() -> None:
    outputs = OutputSizes()
    assert outputs.high("ada") == FIRST_OUTPUT_TOKENS
    for _ in range(100):
        outputs.learn("ada", 20)
    assert outputs.high("ada") == pytest.approx(21, abs=2) and outputs.high("new") == pytest.approx(21, abs=2)


@pytest.mark.parametrize(("held", "reached", "wanted"), [(256, 256, 320), (320, 1000, 1250), (4000, 100, 4000)])
def test_a_stream_grows_a_quarter_ahead_and_never_shrinks(held: int, reached: int, wanted: int) -> None:
    assert next_step(held, reached) == wanted
