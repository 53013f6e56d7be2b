from __future__ import annotations

import random

import pytest

from controlplane.domain.admission.pace import FEW, Hold, Prefill
from controlplane.domain.admission.quantile import High


def make_prefill(count: int = 500, *, base_s: float = 0.03, token_s: float = 0.0007, noise_s: float = 0.0) -> Prefill:
    chance, prefill = random.Random(1), Prefill()
    for _ in range(count):
        tokens = chance.randint(20, 800)
        prefill.learn(tokens, base_s + token_s * tokens + chance.expovariate(1.0) * noise_s)
    return prefill


def test_while_nothing_is_known_nothing_is_claimed() -> None:
    assert Prefill().high_s(1000) == 0.0
    assert make_prefill(FEW - 1).slope_s == 0.0


@pytest.mark.parametrize("tokens", [20, 400, 1600])
def test_a_prompt_takes_what_the_line_says(tokens: int) -> None:
    assert make_prefill().expected_s(tokens) == pytest.approx(0.03 + 0.0007 * tokens, rel=0.01)


def test_nearly_all_stay_below_the_high_one() -> None:
    prefill, chance = make_prefill(2000, noise_s=0.05), random.Random(2)
    above = 0
    for _ in range(2000):
        tokens = chance.randint(20, 800)
        seconds = 0.03 + 0.0007 * tokens + chance.expovariate(1.0) * 0.05
        above += seconds > prefill.high_s(tokens)
        prefill.learn(tokens, seconds)
    assert 0.002 <= above / 2000 <= 0.06


def test_equal_prompts_give_no_slope_and_still_a_time() -> None:
    prefill = Prefill()
    for _ in range(50):
        prefill.learn(100, 0.2)
    assert prefill.slope_s == 0.0 and prefill.high_s(100) == pytest.approx(0.2)


def test_what_was_long_ago_counts_no_more() -> None:
    prefill = make_prefill()
    chance = random.Random(3)
    for _ in range(200):
        tokens = chance.randint(20, 800)
        prefill.learn(tokens, 0.002 * tokens)
    assert prefill.slope_s == pytest.approx(0.002, rel=0.1)


def test_how_long_a_seat_is_held_is_a_mean_of_the_last_ones() -> None:
    hold = Hold()
    for seconds in (1.0, 2.0, 3.0):
        hold.learn(seconds)
    assert hold.seconds == pytest.approx(2.0)
    for _ in range(200):
        hold.learn(5.0)
    assert hold.seconds == pytest.approx(5.0, rel=0.01)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("share", [0.9, 0.98])
def test_a_high_quantile_is_found_in_any_unit(unit: float, share: float) -> None:
    chance, high, above = random.Random(4), High(share), 0
    for _ in range(2000):
        high.learn(chance.gauss(10.0, 2.0) * unit)
    for _ in range(2000):
        seen = chance.gauss(10.0, 2.0) * unit
        above += seen > high.value
        high.learn(seen)
    assert above / 2000 == pytest.approx(1.0 - share, abs=0.03)
