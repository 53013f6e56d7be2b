from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.card_memory import (
    CardMemory,
    Claim,
    OversoldError,
    foreign_bytes,
    named_foreign_bytes,
    named_replica_bytes,
    of_card,
)

GIB = 2**30
sizes = st.integers(min_value=1, max_value=100 * GIB)


def make_card(*sizes_gib: float | None, total: float | None = 80, foreign: float = 0) -> CardMemory:
    claims = tuple(Claim(f"r{index}", None if one is None else int(one * GIB)) for index, one in enumerate(sizes_gib))
    return CardMemory(None if total is None else int(total * GIB), claims, int(foreign * GIB))


def test_the_parts_add_up() -> None:
    card = make_card(20, 30, foreign=5)
    card.check_invariants()
    assert (card.reserved_bytes, card.foreign_bytes, card.free_bytes) == (50 * GIB, 5 * GIB, 25 * GIB)


def test_a_whole_card_leaves_nothing_free() -> None:
    card = make_card(None, foreign=5)
    card.check_invariants()
    assert (card.reserved_bytes, card.foreign_bytes, card.free_bytes) == (75 * GIB, 5 * GIB, 0)
    assert not card.fits(1)
    assert not card.fits(None)


def test_several_fit_only_when_their_sum_does() -> None:
    card = make_card(30, foreign=10)
    assert card.fits(40 * GIB)
    assert not card.fits(40 * GIB + 1)
    with pytest.raises(OversoldError):
        card.with_claim(Claim("late", 41 * GIB))


def test_the_whole_can_only_be_had_of_an_empty_card() -> None:
    assert make_card().fits(None)
    assert not make_card(1).fits(None)


def test_of_unknown_memory_only_the_whole_can_be_had() -> None:
    card = make_card(total=None)
    assert card.fits(None)
    assert not card.fits(GIB)
    card.with_claim(Claim("a")).check_invariants()
    with pytest.raises(OversoldError):
        CardMemory(None, (Claim("a", GIB),)).check_invariants()


def test_processes_that_come_later_overdraw_what_was_promised() -> None:
    card = make_card(70, foreign=20)
    card.check_invariants()
    assert (card.foreign_bytes, card.free_bytes, card.overdrawn_bytes) == (10 * GIB, 0, 10 * GIB)


def test_what_was_sold_twice_is_noticed() -> None:
    with pytest.raises(OversoldError):
        make_card(50, 50).check_invariants()
    with pytest.raises(OversoldError):
        make_card(None, 1).check_invariants()


def test_use_without_a_name_is_somebody_elses() -> None:
    named = {"foreign_processes": [{"pid": 1, "used_bytes": 3 * GIB}, {"pid": 2, "used_bytes": None}]}
    assert named_foreign_bytes(named) == 3 * GIB
    assert foreign_bytes({**named, "memory_used_bytes": 50 * GIB}, 30 * GIB, 80 * GIB) == 20 * GIB
    assert foreign_bytes({"memory_used_bytes": GIB}, 0, 80 * GIB) == 0
    assert foreign_bytes({}, 0, 80 * GIB) == 0


def test_what_replicas_use_is_read_as_far_as_it_is_told() -> None:
    told: list[object] = [{"replica_id": "r1", "used_bytes": 3}, {"replica_id": "r2", "used_bytes": None}, 1, {}]
    assert named_replica_bytes({"replica_use": told}) == {"r1": 3}
    assert named_replica_bytes({"replica_use": "x"}) == named_replica_bytes({}) == {}


@pytest.mark.parametrize("observed", [{}, {"foreign_processes": "x"}, {"foreign_processes": [1, {"used_bytes": True}]}])
def test_odd_readings_count_nothing(observed: dict[str, object]) -> None:
    assert of_card(GIB, (), observed).foreign_seen_bytes == 0


@given(sizes, st.lists(st.one_of(st.none(), sizes), max_size=8), st.integers(min_value=0, max_value=200 * GIB))
def test_whatever_is_asked_and_used_nothing_is_oversold(total: int, asked: list[int | None], foreign: int) -> None:
    card = CardMemory(total, (), foreign)
    for index, size in enumerate(asked):
        if card.fits(size):
            card = card.with_claim(Claim(f"r{index}", size))
        card.check_invariants()
        assert card.free_bytes is not None
        assert 0 <= card.free_bytes <= total
    assert sum(one.size_bytes or 0 for one in card.claims) <= total


@given(sizes, st.lists(sizes, min_size=1, max_size=6))
def test_what_is_given_back_can_be_had_again(total: int, asked: list[int]) -> None:
    card = CardMemory(total)
    for index, size in enumerate(asked):
        if card.fits(size):
            card = card.with_claim(Claim(f"r{index}", size))
    for claim in card.claims:
        after = card.without({claim.owner})
        after.check_invariants()
        assert after.fits(claim.size_bytes)
