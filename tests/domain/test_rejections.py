from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.card_memory import CardMemory, Claim
from controlplane.domain.placement import Asked, Looks, Make, NoRoom, Placement, Site, Slot, place
from controlplane.domain.reconcile import Wait, reconcile, take
from controlplane.domain.rejections import (
    CardGroups,
    CardReasons,
    CardsAt,
    Rejected,
    from_plain,
    of_ranges,
    ranges,
    to_plain,
)
from tests.domain.fleets import make_member, make_need, make_site, make_wanted, named

GIB = 2**30
GROUPS = st.lists(
    st.tuples(st.sampled_from(["taken", "cordoned", "small"]), st.sampled_from([(0,), (1, 2), (3,)])),
    unique_by=lambda one: one[1],
    max_size=3,
).map(tuple)


def make_fleet(nodes: int, kinds: int) -> list[Site]:
    """Nodes of eight cards of which a part is held, in so many ways."""
    return [
        Site(
            f"gpu-{number:04}", "default", engines={"vllm": "0.32"},
            slots=tuple(
                Slot(f"GPU-{number}-{index}", "gpu", "H100", index, CardMemory(
                    80 * GIB, (Claim("h", (45 + number % kinds) * GIB),), GIB // 2
                ))
                for index in range(8)
            ),
        )
        for number in range(nodes)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("indexes", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 3, 5), "0-3,5"), ((0, 2, 4), "0,2,4"), ((8, 9, 10), "8-10")]
)
def test_cards_are_written_as_ranges(indexes: tuple[int, ...], text: str) -> None:
    assert (ranges(indexes), of_ranges(text)) == (text, indexes)


@given(st.sets(st.integers(0, 200)))
def test_ranges_lose_nothing(indexes: set[int]) -> None:
    assert of_ranges(ranges(sorted(indexes))) == tuple(sorted(indexes))


def test_what_is_stored_is_read_again() -> None:
    rejected = (
        Rejected("is cordoned", ("a", "b")),
        Rejected("taken", cards=(CardsAt((0, 1, 2), ("c", "d")), CardsAt((7,), ("e",))), more_cards=4),
    )
    assert from_plain(json.loads(json.dumps(to_plain(rejected)))) == rejected
    assert [one.count for one in rejected] == [2, 11]


@given(st.lists(st.tuples(st.sampled_from("abc"), GROUPS), max_size=12))
def test_cards_put_one_by_one_are_as_if_put_together_anew(puts: list[tuple[str, CardGroups]]) -> None:
    kept, last = CardReasons(), {}
    for node, groups in puts:
        kept.put(node, groups)
        last[node] = groups
        anew = CardReasons()
        for name, newest in last.items():
            anew.put(name, newest)
        assert sorted(named(kept.rejected()), key=str) == sorted(named(anew.rejected()), key=str)


def test_looks_that_are_kept_tell_what_a_first_look_would() -> None:
    need = make_need(asked={Make("gpu", "H100", 80 * GIB, "0.32"): Asked(20 * GIB)})
    sites = {one.name: one for one in [*make_fleet(3, 3), make_site("full", cards=1, labels={})]}
    looks = Looks()
    for number in range(12):
        found, first = place(need, sites.values(), {}, looks=looks), place(need, sites.values(), {})
        assert sorted(named(found.rejected), key=str) == sorted(named(first.rejected), key=str)
        if isinstance(found, Placement):
            sites[found.node] = take(sites[found.node], found.uuids, f"r{number}", found.memory_bytes)
    fewer = list(sites.values())[1:]
    told = named(place(need, fewer, {}, looks=looks).rejected)
    assert {node for node, _card, _why in told} <= {one.name for one in fewer}


def test_every_candidate_of_a_thousand_nodes_is_named_in_some_tens_of_kilobytes() -> None:
    need = make_need(asked={Make("gpu", "H100", 80 * GIB, "0.32"): Asked(40 * GIB)})
    found = place(need, make_fleet(1000, 9), {})
    assert isinstance(found, NoRoom) and len(named(found.rejected)) == 9000
    assert len(json.dumps(to_plain(found.rejected))) < 64_000


def test_where_there_is_no_room_for_one_the_others_are_told_the_same() -> None:
    waiting = [make_member(f"r{number}", "pending", node=None) for number in range(3)]
    actions = reconcile(make_wanted(3), waiting, {"n1": make_site("n1", cards=0)})
    assert [(type(one), one.rejected) for one in actions if isinstance(one, Wait)] == [
        (Wait, (Rejected("has no accelerators", ("n1",)),))
    ] * 3
