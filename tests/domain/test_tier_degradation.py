"""Each tier of a deployment climbs its ladder for itself and for the tiers above it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.degradation import LOWER_AFTER_S, RAISE_AFTER_S, Asked, Change, Ladder, Step
from controlplane.domain.tier_degradation import TierLadders, TierSecond, saturations

WEIGHTS = {"interactive": 8.0, "standard": 4.0, "batch": 1.0}
LADDER = Ladder((Step("cap_tokens", max_tokens=512), Step("shed", ("batch",)), Step("shed", ("standard",))))


def make_seconds(**waits: float) -> dict[str, TierSecond]:
    return {name: TierSecond(weight, waits.get(name, 0.0)) for name, weight in WEIGHTS.items()}


def feed(ladders: TierLadders, seconds: int, kv_usage: float | None = None, **waits: float) -> list[Change]:
    found = []
    for second in range(seconds):
        found += ladders.observe(saturations(make_seconds(**waits), kv_usage), float(second))
        ladders.check_invariants()
    return found


def levels(ladders: TierLadders) -> dict[str, int]:
    return {name: one.level for name, one in ladders.by_tier.items()}


def test_a_long_queue_of_a_low_tier_makes_no_answer_of_a_higher_one_worse() -> None:
    ladders = TierLadders(LADDER, WEIGHTS)
    changes = feed(ladders, 60, batch=1.0)
    assert levels(ladders) == {"interactive": 0, "standard": 0, "batch": 3} and ladders.level == 3
    assert [(one.after, one.tiers) for one in changes] == [(1, ("batch",)), (2, ("batch",))], "the third is not for it"
    assert ladders.apply(Asked("interactive", 2048)).header == "" and ladders.apply(Asked("batch")).shed


def test_where_a_high_tier_suffers_those_below_are_degraded_with_it_the_lowest_first() -> None:
    ladders = TierLadders(LADDER, WEIGHTS)
    changes = feed(ladders, 60, interactive=1.0)
    assert levels(ladders) == dict.fromkeys(WEIGHTS, 3)
    assert [one.tiers for one in changes] == [("interactive", "standard", "batch"), ("batch",), ("standard",)]
    assert ladders.apply(Asked("interactive", 2048)).header == "max_tokens=512", "it is shed by no step"


SHED_ALL = Ladder((Step("shed"),))


def refused_at(ladders: TierLadders, seconds: range, kv_usage: float) -> list[tuple[int, tuple[str, ...]]]:
    """Which tiers are refused, each time that it changes."""
    found: list[tuple[int, tuple[str, ...]]] = []
    for second in seconds:
        ladders.observe(saturations(make_seconds(), kv_usage), float(second))
        ladders.check_invariants()
        shed = tuple(name for name in WEIGHTS if ladders.apply(Asked(name)).shed)
        if not found or found[-1][1] != shed:
            found.append((second, shed))
    return found


def test_a_step_that_refuses_all_takes_one_tier_after_the_other_the_lightest_first_and_lets_them_in_again() -> None:
    ladders = TierLadders(SHED_ALL, WEIGHTS)
    assert refused_at(ladders, range(60), 1.0) == [
        (0, ()), (14, ("batch",)), (19, ("standard", "batch")), (24, ("interactive", "standard", "batch")),
    ]  # fmt: skip
    assert refused_at(ladders, range(60, 120), 0.0)[-1][1] == ()


def shed_of(ladders: TierLadders) -> list[str]:
    return [name for name in WEIGHTS if ladders.apply(Asked(name)).shed]


def test_an_engine_that_has_nothing_to_do_gets_the_heaviest_tier_at_once_and_one_more_each_second() -> None:
    ladders = TierLadders(SHED_ALL, WEIGHTS)
    refused_at(ladders, range(30), 1.0)
    assert shed_of(ladders) == ["interactive", "standard", "batch"]
    still_runs = saturations(make_seconds(), 0.2)
    assert not ladders.observe(still_runs, 30.0), "as long as something runs there is no hurry"
    left, others = [], [["standard", "batch"], ["batch"], []]
    for second, rest in enumerate(others):
        left += ladders.observe(saturations(make_seconds(), 0.0), 31.0 + second, is_idle=True)
        ladders.check_invariants()
        assert shed_of(ladders) == rest
    assert [one.tiers for one in left] == [("interactive",), ("standard",), ("batch",)]
    assert {one.why for one in left} == {"Requests were refused while nothing ran and nothing waited any more."}


def test_steps_above_one_that_refuses_are_left_too_while_the_engine_is_idle_and_no_others() -> None:
    ladders = TierLadders(Ladder((Step("cap_tokens"), Step("shed"), Step("divert", deployment="small"))), WEIGHTS)
    feed(ladders, 60, interactive=2.0)
    assert levels(ladders) == dict.fromkeys(WEIGHTS, 3)
    for second in range(10):
        ladders.observe(saturations(make_seconds(), 0.0), 60.0 + second, is_idle=True)
        ladders.check_invariants()
    assert levels(ladders) == dict.fromkeys(WEIGHTS, 1), "shorter answers are no reason to be idle"


def test_a_freeze_holds_an_idle_engine_too() -> None:
    ladders = TierLadders(SHED_ALL, WEIGHTS)
    refused_at(ladders, range(30), 1.0)
    for second in range(10):
        ladders.observe(saturations(make_seconds(), 0.0), 30.0 + second, is_idle=True, frozen=True)
    assert shed_of(ladders) == list(WEIGHTS)


def idle_seconds(*, says_so: bool) -> int:
    """Of 600 s of lasting overload, in which a ladder's last step refuses all: how many the engine has nothing to do.
    Four seconds' worth of work run and wait while anybody is let in, and are worked off while all are refused."""
    ladders, left, idle = TierLadders(SHED_ALL, WEIGHTS), 0, 0
    for second in range(600):
        left = 4 if len(shed_of(ladders)) < len(WEIGHTS) else max(0, left - 1)
        waits = dict.fromkeys(WEIGHTS, left / 4)
        ladders.observe(saturations(make_seconds(**waits), None), float(second), is_idle=says_so and not left)
        idle += not left
    return idle


def test_under_lasting_overload_an_engine_is_busy_although_the_last_step_refuses_all() -> None:
    assert idle_seconds(says_so=True) <= idle_seconds(says_so=False) / 4


def test_who_is_refused_with_all_others_is_told_to_come_back_when_what_runs_may_have_ended() -> None:
    ladders = TierLadders(SHED_ALL, WEIGHTS)
    refused_at(ladders, range(30), 1.0)
    assert ladders.sheds_for_s("interactive", 30.0) == RAISE_AFTER_S
    assert ladders.sheds_for_s("batch", 30.0) == LOWER_AFTER_S


def test_a_heavier_tier_is_not_refused_where_refusing_the_lightest_was_enough() -> None:
    ladders = TierLadders(SHED_ALL, WEIGHTS)
    refused_at(ladders, range(16), 1.0)
    assert refused_at(ladders, range(16, 60), 0.5) == [(16, ("batch",)), (36, ())]


def test_a_tier_that_a_step_names_alone_waits_for_no_other() -> None:
    ladders = TierLadders(Ladder((Step("shed", ("interactive",)),)), WEIGHTS)
    assert refused_at(ladders, range(30), 1.0) == [(0, ()), (14, ("interactive",))]


@given(st.lists(st.tuples(*[st.floats(0.0, 2.0)] * 3, st.booleans()), max_size=150))
def test_no_tier_is_refused_while_a_lighter_one_is_let_in(waits: list[tuple[float, float, float, bool]]) -> None:
    ladders = TierLadders(Ladder((Step("shed"), Step("cap_tokens"), Step("shed", ("standard", "batch")))), WEIGHTS)
    before = 0
    for second, (one, two, three, is_idle) in enumerate(waits):
        now_is = saturations(make_seconds(interactive=one, standard=two, batch=three), None)
        ladders.observe(now_is, float(second), is_idle=is_idle)
        ladders.check_invariants()
        shed = [ladders.apply(Asked(name)).shed for name in WEIGHTS]
        assert shed == sorted(shed) and sum(shed) <= before + 1
        before = sum(shed)


def test_what_all_share_counts_for_all() -> None:
    found = saturations(make_seconds(), 0.95)
    assert {one.cause for one in found.values()} == {"kv"} and all((one.value or 0) > 0.8 for one in found.values())


def test_refusals_count_for_their_tier_and_those_below() -> None:
    tiers = {**make_seconds(), "standard": TierSecond(4.0, 0.0, 100, 10)}
    found = {name: round(one.value or 0.0, 6) for name, one in saturations(tiers, None).items()}
    assert found == {"interactive": 0.0, "standard": 2.0, "batch": 2.0}
    few = {"standard": TierSecond(4.0, 0.0, 1, 1)}
    assert saturations(few, None)["standard"].value == 4.0, "one of one counts as one of five"


@given(st.lists(st.tuples(*[st.floats(0.0, 2.0)] * 3), max_size=120))
def test_no_tier_stands_higher_than_one_below_it(waits: list[tuple[float, float, float]]) -> None:
    ladders = TierLadders(LADDER, WEIGHTS)
    for second, (one, two, three) in enumerate(waits):
        ladders.observe(saturations(make_seconds(interactive=one, standard=two, batch=three), None), float(second))
        values = [ladders.by_tier[name].value for name in WEIGHTS]
        assert values == sorted(values)


def test_tiers_come_and_go_and_a_shorter_ladder_is_left_at_once() -> None:
    ladders = TierLadders(LADDER, WEIGHTS)
    feed(ladders, 60, batch=1.0)
    ladders.set_rules(Ladder(LADDER.steps[:1]), {"batch": 1.0, "gold": 2.0})
    assert levels(ladders) == {"batch": 1, "gold": 0} and ladders.level == 1
    assert ladders.apply(Asked("standard", 100)).header == "", "of a tier that is none nothing is known"
    ladders.set_rules(Ladder(), {"gold": 2.0})
    assert (ladders.level, ladders.value) == (0, 0.0)


def test_a_freeze_holds_all() -> None:
    ladders = TierLadders(LADDER, WEIGHTS)
    for second in range(60):
        assert not ladders.observe(saturations(make_seconds(batch=2.0), None), float(second), frozen=True)
    assert ladders.level == 0 and ladders.value > 1.0
