from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain import memory_return
from controlplane.domain.card_memory import CardMemory, Claim
from controlplane.domain.memory_return import Reading, Return

GIB = 2**30
parts = st.integers(min_value=0, max_value=40 * GIB)


def make_card(*others: Claim, mine_gib: float | None = 30, foreign_gib: float = 0) -> CardMemory:
    mine = Claim("mine", None if mine_gib is None else int(mine_gib * GIB), releasing=True)
    return CardMemory(80 * GIB, (mine, *others), int(foreign_gib * GIB))


def judge(card: CardMemory, used_gib: float | None, *steady: str, newer: bool = True, **by_owner_gib: float) -> Return:
    used = None if used_gib is None else int(used_gib * GIB)
    by_owner = {owner: int(gib * GIB) for owner, gib in by_owner_gib.items()}
    return memory_return.judge(card, "mine", Reading(used, newer, by_owner), steady)


def test_memory_is_back_when_others_alone_could_use_what_is_used() -> None:
    card = make_card(Claim("up", 20 * GIB), foreign_gib=4)
    assert judge(card, 60, "up") == Return("held", 30 * GIB)  # more than it ever had is not all its own
    assert judge(card, 24, "up") == Return("back", 0)
    assert judge(card, 25, "up").verdict == "back"  # the driver keeps a little
    assert judge(card, 26, "up") == Return("held", 2 * GIB)


def test_the_room_that_a_starting_engine_has_not_filled_does_not_hide_what_was_left() -> None:
    card = make_card(Claim("starts", 40 * GIB))
    found = judge(card, 35)  # 30 left and 5 of 40 loaded
    assert (found.verdict, found.missing_bytes) == ("unclear", 30 * GIB)
    assert "starts" in found.because
    assert judge(card, 0.3).verdict == "back"  # nothing of anybody's is there
    assert judge(card, 71).verdict == "held"  # more than the starting one may have
    assert judge(card, 39, "starts").verdict == "back"  # it is up


def test_a_neighbour_that_uses_less_than_its_claim_hides_nothing_where_the_driver_tells_its_use() -> None:
    card = make_card(Claim("up", 40 * GIB))
    assert judge(card, 39, "up").verdict == "back"  # nobody can tell that it uses 25 of them
    assert judge(card, 39, "up", up=25) == Return("held", 14 * GIB)
    assert judge(card, 25.5, "up", up=25).verdict == "back"
    assert judge(card, 44, "up", up=43).verdict == "back"  # or more than it was sold


def test_of_a_starting_engine_whose_use_is_told_nothing_is_unclear() -> None:
    card = make_card(Claim("starts", 40 * GIB))
    assert judge(card, 35, starts=5) == Return("held", 30 * GIB)
    assert judge(card, 5.5, starts=5).verdict == "back"
    both = make_card(Claim("starts", 20 * GIB), Claim("other", 20 * GIB))
    assert judge(both, 24, starts=5).verdict == "unclear"  # of the other one nothing is told


def test_what_another_left_behind_does_not_keep_the_next_one() -> None:
    left = Claim("before", 20 * GIB, releasing=True, missing_bytes=10 * GIB)
    assert judge(make_card(left), 10.5).verdict == "back"
    assert judge(make_card(left), 25) == Return("held", 15 * GIB)
    assert judge(make_card(replace(left, missing_bytes=None)), 10.5).verdict == "held"  # nobody knows whose it is


@pytest.mark.parametrize(("used", "newer"), [(None, True), (0, False)])
def test_without_a_newer_reading_nothing_is_seen(used: float | None, newer: bool) -> None:
    found = judge(make_card(), used, newer=newer)
    assert (found.verdict, found.missing_bytes) == ("unclear", 30 * GIB)


def test_a_whole_card_is_back_when_it_is_empty() -> None:
    assert judge(make_card(mine_gib=None), 0.4).verdict == "back"
    assert judge(make_card(mine_gib=None), 5) == Return("held", 5 * GIB)


def test_it_is_told_late_where_a_reading_shows_it_and_much_later_where_none_can() -> None:
    assert not Return("held", 1).is_late(59)
    assert Return("held", 1).is_late(60)
    assert not Return("unclear", 1).is_late(599)
    assert Return("unclear", 1).is_late(600)
    assert not Return("back", 0).is_late(1e9)


@given(parts, parts, parts, st.booleans())
def test_what_was_left_is_never_seen_as_back(left: int, loaded: int, room: int, up: bool) -> None:
    """Whatever another engine has loaded of its claim, 3 GiB and more that were left are not taken for free memory."""
    size = loaded if up else loaded + room
    others = (Claim("other", size),) if size else ()
    card = CardMemory(200 * GIB, (Claim("mine", 40 * GIB, releasing=True), *others))
    found = memory_return.judge(card, "mine", Reading(left + loaded, True), {"other"} if up else ())
    if left > 4 * GIB:
        assert found.verdict != "back"
        assert found.missing_bytes >= left
    if left + loaded == 0:
        assert found.verdict == "back"


@given(parts, parts, parts, st.booleans())
def test_where_the_driver_tells_who_uses_what_the_verdict_is_exact(left: int, used: int, room: int, up: bool) -> None:
    card = CardMemory(200 * GIB, (Claim("mine", 60 * GIB, releasing=True), Claim("other", used + room + 1)))
    found = memory_return.judge(card, "mine", Reading(left + used, True, {"other": used}), {"other"} if up else ())
    assert found.verdict == ("back" if left <= 4 * GIB else "held")
    if found.verdict == "held":
        assert found.missing_bytes == left


@given(parts, parts, parts, st.one_of(st.none(), parts))
def test_the_parts_of_a_card_add_up_while_memory_is_not_back(
    mine: int, others: int, foreign: int, missing: int | None
) -> None:
    claims = (Claim("mine", mine + 1, releasing=True, missing_bytes=missing), Claim("other", others + 1))
    card = CardMemory(82 * GIB, claims, foreign)
    card.check_invariants()
    assert card.reserved_bytes == mine + others + 2
    assert ("mine" in card.leaving) is (missing is None)  # placement waits for what comes, not for what does not
