"""The owner of a deployment is found without asking anybody, and moves only when it must."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.ownership import could_have_answered_s, is_hung, owner

names = st.text(min_size=1, max_size=20)
members = st.lists(names, min_size=1, max_size=8, unique=True)


@given(names, members, st.randoms())
def test_the_owner_is_one_of_the_members_whatever_their_order(name: str, ids: list[str], random: object) -> None:
    first = owner(name, ids)
    random.shuffle(ids)  # type: ignore[attr-defined]
    assert first in ids
    assert owner(name, ids) == first


@given(st.lists(names, max_size=30), members, names)
def test_a_new_member_takes_deployments_for_itself_alone(deployments: list[str], ids: list[str], new: str) -> None:
    for name in deployments:
        assert owner(name, [*ids, new]) in (owner(name, ids), new)


@given(st.lists(names, max_size=30), members)
def test_only_the_deployments_of_a_dead_member_move(deployments: list[str], ids: list[str]) -> None:
    dead, *others = ids
    for name in deployments:
        if owner(name, ids) != dead:
            assert owner(name, others) == owner(name, ids)


def test_nobody_owns_anything_without_members() -> None:
    assert owner("chat", []) is None


def test_deployments_are_spread_evenly() -> None:
    ids = [f"gateway-{number}" for number in range(4)]
    counts = Counter(owner(f"deployment-{number}", ids) for number in range(4000))
    assert min(counts.values()) > 850


@pytest.mark.parametrize(
    ("ran_s", "waited_s", "wants_cpu", "given_up"),
    [
        (0.0, 0.0, False, True),  # stopped, or waits for what does not come
        (1.4, 0.0, True, True),  # goes round in a circle
        (0.3, 1.1, True, False),  # got little of the CPU
        (0.0, 0.0, True, False),  # got nothing of it all the time, which is not yet counted as waiting
        (0.1, 1.2, False, False),  # sleeps again by now
    ],
)
def test_a_silent_process_hangs_when_it_could_have_answered(
    ran_s: float, waited_s: float, wants_cpu: bool, given_up: bool
) -> None:
    assert is_hung(1.4, could_have_answered_s(1.4, ran_s, waited_s, wants_cpu=wants_cpu)) is given_up


def test_nobody_waits_for_ever_for_one_that_gets_no_cpu_or_tells_nothing_of_it() -> None:
    assert not is_hung(4.9, 0.0)
    assert not is_hung(4.9, None)
    assert is_hung(5.1, 0.0)
    assert is_hung(5.1, None)
