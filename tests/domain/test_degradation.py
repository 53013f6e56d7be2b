from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.degradation import (
    KINDS,
    LOWER_AFTER_S,
    LOWER_AT,
    RAISE_AFTER_S,
    Asked,
    Change,
    Degrader,
    Ladder,
    Step,
    needless,
    problems,
    uses,
)
from controlplane.domain.saturation import RAISE_AT, Saturation, Signal, saturation

FULL = Ladder(
    (
        Step("cap_tokens", max_tokens=512),
        Step("shed", tiers=("batch",)),
        Step("divert", tiers=("standard", "interactive"), deployment="small"),
        Step("shed", tiers=("standard",)),
    )
)


def make_level(level: int, ladder: Ladder = FULL) -> Degrader:
    degrader = Degrader(ladder)
    degrader.level, degrader.climbed_at = level, [0.0] * level
    return degrader


def feed(degrader: Degrader, values: list[float], start: float = 0.0) -> list[tuple[float, Change]]:
    """One value a second; returns when what was changed."""
    found: list[tuple[float, Change]] = []
    for second, value in enumerate(values):
        change = degrader.observe(Saturation(value, "queue_wait"), start + second)
        degrader.check_invariants()
        if change is not None:
            found.append((start + second, change))
    return found


@pytest.mark.parametrize(
    ("signal", "value", "cause"),
    [
        (Signal(), None, "unknown"),
        (Signal(wait_ratio=0.5, kv_usage=0.19), 0.5, "queue_wait"),
        (Signal(wait_ratio=0.1, kv_usage=0.9), 0.8, "kv"),
        (Signal(wait_ratio=0.1, kv_usage=1.0), 1.0, "kv"),
        (Signal(kv_usage=0.45), 0.4, "kv"),
        (Signal(kv_usage=0.5, refused_ratio=0.1), 2.0, "refusals"),
        (Signal(wait_ratio=float("nan"), kv_usage=0.0), 0.0, "kv"),
    ],
)
def test_the_signal_is_the_limit_that_is_nearest(signal: Signal, value: float | None, cause: str) -> None:
    found = saturation(signal)
    assert found.cause == cause
    assert found.value == (None if value is None else pytest.approx(value))


def test_lasting_overload_climbs_one_step_at_a_time() -> None:
    degrader = Degrader(FULL)
    changes = feed(degrader, [2.0] * 60)
    assert [change.after for _, change in changes] == [1, 2, 3, 4]
    assert changes[0][1].why == "The saturation is 160%: requests wait nearly as long as their tier allows."


def test_it_is_climbed_before_requests_wait_so_long_that_they_are_refused() -> None:
    assert [change.after for _, change in feed(Degrader(FULL), [0.9] * 20)] == [1]
    assert not feed(Degrader(FULL), [0.75] * 100)


def test_a_short_peak_changes_nothing() -> None:
    assert not feed(Degrader(FULL), [0.2] * 10 + [2.0] * 4 + [0.2] * 30)


@given(st.lists(st.floats(min_value=LOWER_AT + 0.01, max_value=RAISE_AT - 0.01), max_size=200), st.integers(0, 4))
def test_noise_between_the_thresholds_changes_nothing(values: list[float], level: int) -> None:
    degrader = make_level(level)
    degrader.value = 0.7
    assert not feed(degrader, values)


@given(st.lists(st.floats(min_value=0.0, max_value=3.0), max_size=300))
def test_changes_are_single_steps_with_time_between_them(values: list[float]) -> None:
    changes = feed(Degrader(FULL), values)
    for (before_at, before), (at, after) in pairwise(changes):
        assert after.before == before.after
        assert abs(after.after - after.before) == 1
        turned = (after.after > after.before) != (before.after > before.before)
        assert at - before_at >= (RAISE_AFTER_S if after.after > after.before else LOWER_AFTER_S)
        if turned:  # the smoothed signal had to cross the whole gap and stay there
            assert at - before_at > RAISE_AFTER_S


@given(st.lists(st.floats(min_value=0.0, max_value=3.0), max_size=120))
def test_when_the_load_is_gone_everything_is_undone_step_by_step(values: list[float]) -> None:
    degrader = Degrader(FULL)
    feed(degrader, values)
    changes = feed(degrader, [0.1] * 120, start=float(len(values)))
    downs = [(at, change) for at, change in changes if change.after < change.before]
    assert degrader.level == 0
    assert all(later - earlier >= LOWER_AFTER_S for (earlier, _), (later, _) in pairwise(downs))
    assert all(change.before - change.after == 1 for _, change in downs)


@given(st.floats(min_value=0.0, max_value=0.19))
def test_it_does_not_flap_around_the_upper_threshold(swing: float) -> None:
    changes = feed(Degrader(FULL), [RAISE_AT + swing, RAISE_AT - swing] * 150)
    assert all(change.after > change.before for _, change in changes)


def test_what_is_not_known_or_frozen_changes_nothing() -> None:
    degrader = make_level(2)
    assert not any(degrader.observe(Saturation(None, "unknown"), float(second)) for second in range(100))
    assert not any(degrader.observe(Saturation(2.0, "kv"), 100.0 + n, frozen=True) for n in range(100))
    assert degrader.level == 2


def test_the_steps_apply_each_to_its_own_tiers() -> None:
    degrader = make_level(3)
    assert degrader.apply(Asked("interactive", 2048)).header == "max_tokens=512, model=small"
    assert degrader.apply(Asked("interactive", 100)).header == "model=small"
    assert degrader.apply(Asked("interactive")).max_tokens == 512
    shed = degrader.apply(Asked("batch", 2048))
    assert (shed.shed, shed.header) == (True, "shed")
    assert "tier batch" in shed.why
    assert make_level(0).apply(Asked("batch", 2048)).header == ""


def test_who_opts_out_gets_the_full_answer_or_none() -> None:
    found = make_level(3).apply(Asked("standard", 2048, opted_out=True))
    assert (found.max_tokens, found.divert_to, found.header, found.shed) == (2048, "", "", False)
    assert make_level(4).apply(Asked("standard", 2048, opted_out=True)).shed


def test_a_request_is_sent_elsewhere_once_and_only_where_it_may_go() -> None:
    degrader = make_level(3)
    assert degrader.apply(Asked("standard", 10, diverted=True)).divert_to == ""
    assert degrader.apply(Asked("standard", 10), reachable={"other"}).divert_to == ""
    assert degrader.apply(Asked("standard", 10), reachable={"small"}).divert_to == "small"


def test_how_long_a_tier_is_shed_at_least_follows_from_the_steps_above_and_the_calm_so_far() -> None:
    degrader = make_level(4)
    assert degrader.sheds_for_s("interactive", 0.0) == 0.0
    assert (degrader.sheds_for_s("standard", 0.0), degrader.sheds_for_s("batch", 0.0)) == (15.0, 45.0)
    changes = feed(degrader, [0.0] * 11)
    assert not changes and degrader.sheds_for_s("standard", 10.0) == 5.0
    assert degrader.sheds_for_s("standard", 100.0) == 0.0


def test_a_shorter_ladder_is_left_at_once() -> None:
    degrader = make_level(4)
    degrader.set_ladder(Ladder(FULL.steps[:1]))
    assert degrader.level == 1
    degrader.set_ladder(Ladder())
    assert degrader.apply(Asked("batch", 4096)).header == ""


def test_a_step_of_a_newer_version_does_nothing() -> None:
    newer = Ladder((Step("answer_from_cache"), Step("cap_tokens", max_tokens=64)))
    assert make_level(2, newer).apply(Asked("standard", 100)).header == "max_tokens=64"
    assert problems(newer, "chat", {"standard"}) == {"steps.0.kind": "Use one of cap_tokens, divert, shed."}


def test_what_a_kind_of_step_does_not_use_is_told_by_its_field() -> None:
    assert needless("shed", ["max_tokens", "deployment"]) == {
        "max_tokens": "Only a step of the kind cap_tokens uses it; leave it out.",
        "deployment": "Only a step of the kind divert uses it; leave it out.",
    }
    assert needless("divert", ["deployment"]) == {} and needless("cap_tokens", ["max_tokens"]) == {}
    assert {kind for kind in KINDS if uses(kind, "tiers")} == set(KINDS), "tiers are of all kinds"


def test_a_ladder_that_can_not_work_is_told_so() -> None:
    wrong = Ladder((Step("divert"), Step("divert", deployment="chat"), Step("cap_tokens", ("vip",), max_tokens=0)))
    assert problems(wrong, "chat", {"batch"}) == {
        "steps.0.deployment": "Name the deployment that requests are sent to.",
        "steps.1.deployment": "Name another deployment than this one.",
        "steps.2.tiers": "There is no tier vip; there are batch.",
        "steps.2.max_tokens": "Give a number of tokens from 1 to 10,000,000.",
    }
    assert not problems(FULL, "chat", {"batch", "standard", "interactive"})
