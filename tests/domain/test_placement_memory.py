from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.card_memory import CardMemory, Claim
from controlplane.domain.placement import Asked, Make, Need, NoRoom, Placement, Site, Slot, place
from controlplane.domain.reconcile import Place, Stop, reconcile, take
from controlplane.domain.topology import SELF, Topology
from tests.domain.fleets import make_member, make_need, make_wanted, named, reasons_of_cards, reasons_of_nodes

GIB = 2**30
TOTAL = 80 * GIB


def make_card(index: int, *held: int | None, name: str = "H100", total: int = TOTAL, **fields: Any) -> Slot:
    """A card of 80 GiB of which others hold so many GiB each (None = all)."""
    claims = tuple(Claim(f"h{index}-{n}", None if one is None else one * GIB) for n, one in enumerate(held))
    memory = CardMemory(total, claims, fields.pop("foreign_gib", 0) * GIB)
    return Slot(uuid=f"c{index}", kind="gpu", name=name, index=index, memory=memory, **fields)


def make_node(name: str, *slots: Slot, **fields: Any) -> Site:
    return Site(**{"name": name, "pool": "default", "engines": {"vllm": "0.32"}, "slots": slots, **fields})


def make_asked(gib: int | None, name: str = "H100", total: int = TOTAL, **fields: Any) -> dict[Make, Asked]:
    return {Make("gpu", name, total, "0.32"): Asked(None if gib is None else gib * GIB, **fields)}


def placed(need: Need, *sites: Site, siblings: dict[str, int] | None = None) -> Placement:
    found = place(need, sites, siblings or {})
    assert isinstance(found, Placement), found
    return found


def test_two_engines_share_a_card_when_both_fit() -> None:
    need = make_need(asked=make_asked(40))
    found = placed(need, make_node("a", make_card(0, 30)))
    assert (found.uuids, found.memory_bytes) == (("c0",), 40 * GIB)
    assert isinstance(place(need, [make_node("a", make_card(0, 41))], {}), NoRoom)


def test_a_card_without_room_says_the_sum() -> None:
    found = place(make_need(asked=make_asked(40)), [make_node("a", make_card(0, 41, foreign_gib=9))], {})
    assert isinstance(found, NoRoom)
    assert (
        reasons_of_cards(found.rejected)[0] == "needs 40.0 GiB, 30.0 of 80.0 free (41.0 reserved, 9.0 used by others)"
    )
    assert "1 with less than 40.0 GiB free, 30.0 at most" in found.reasons["a"]


def test_without_a_ledger_only_a_whole_card_will_do() -> None:
    assert isinstance(place(make_need(), [make_node("a", make_card(0, 1))], {}), NoRoom)
    assert placed(make_need(), make_node("a", make_card(0))).memory_bytes is None


def test_a_card_that_can_not_run_it_keeps_its_reason_though_another_does() -> None:
    asked = make_asked(None, "V100", refusal="V100 has no FP8.", support="none") | make_asked(20)
    found = placed(make_need(asked=asked), make_node("a", make_card(0, name="V100"), make_card(1)))
    assert found.uuids == ("c1",)
    assert named(found.rejected) == [("a", 0, "V100 has no FP8.")]


def test_a_node_of_cards_that_can_not_run_it_says_so() -> None:
    asked = make_asked(None, refusal="Nothing is left for the cache.")
    found = place(make_need(asked=asked), [make_node("a", make_card(0), make_card(1))], {})
    assert isinstance(found, NoRoom)
    assert found.reasons["a"] == "can't run it (Nothing is left for the cache)"


def test_nodes_that_would_do_say_who_was_better() -> None:
    found = placed(make_need(asked=make_asked(20)), make_node("a", make_card(0, 5)), make_node("b", make_card(0)))
    assert found.node == "b"
    assert found.rejected[0].reason == "would do, but b is better: fewer of its accelerators would be shared"


def test_pack_fills_what_is_begun() -> None:
    sites = (make_node("a", make_card(0)), make_node("b", make_card(0), make_card(1, 30)))
    assert placed(make_need(asked=make_asked(40)), *sites).node == "a"
    found = placed(make_need(asked=make_asked(40), strategy="pack"), *sites)
    assert (found.node, found.uuids) == ("b", ("c1",))


def test_labels_are_asked_for() -> None:
    need = make_need(labels={"rack": "r1"})
    found = place(need, [make_node("a", make_card(0), labels={"rack": "r2"})], {})
    assert isinstance(found, NoRoom)
    assert found.reasons == {"a": "has no label rack=r1"}
    assert placed(need, make_node("a", make_card(0), labels={"rack": "r1", "x": "y"})).node == "a"


def test_the_cheaper_of_two_makes_is_taken_when_both_do() -> None:
    asked = make_asked(20, price_per_hour=3.0) | make_asked(20, "L40S", 48 * GIB, price_per_hour=1.0)
    node = make_node("a", make_card(0), make_card(1, name="L40S", total=48 * GIB))
    assert placed(make_need(asked=asked), node).uuids == ("c1",)


def test_a_card_that_calculates_in_the_precision_goes_before_a_cheaper_one() -> None:
    asked = make_asked(20, price_per_hour=3.0, support="native")
    asked |= make_asked(20, "A100", price_per_hour=1.0, support="emulated")
    node = make_node("a", make_card(0), make_card(1, name="A100"))
    assert placed(make_need(asked=asked), node).uuids == ("c0",)


def pairs(size: int) -> Topology:
    """Cards 1-2, 3-4 … joined by NVLink; card 0 alone."""

    def link(i: int, j: int) -> str:
        return SELF if i == j else "NV4" if (i + 1) // 2 == (j + 1) // 2 else "SYS"

    return Topology(tuple(tuple(link(i, j) for j in range(size)) for i in range(size)), (None,) * size)


def test_cards_that_work_together_are_joined_by_nvlink() -> None:
    cards = [make_card(index) for index in range(5)]
    need = make_need(2, tensor_parallel=2)
    found = placed(need, make_node("a", *cards, topology=pairs(5)))
    assert found.uuids == ("c1", "c2")
    held = [make_card(0), make_card(1, None), make_card(2), make_card(3), make_card(4)]
    assert placed(need, make_node("a", *held, topology=pairs(5))).uuids == ("c3", "c4")


def test_a_node_whose_cards_are_joined_goes_first() -> None:
    apart = make_node("a", make_card(0), make_card(1), topology=pairs(2))
    joined = make_node("b", make_card(1), make_card(2), topology=pairs(3))
    found = placed(make_need(2, tensor_parallel=2), apart, joined)
    assert found.node == "b"
    alone = placed(make_need(2, tensor_parallel=2), apart)
    assert "NVLink does not join them" in alone.why


def test_healthy_replicas_stay_where_they_are_when_a_new_one_comes() -> None:
    site = make_node("n1", make_card(0, 60), make_card(1))
    full = take(site, ["c1"], "new", None)
    members = [make_member("old", "ready", node="n1")]
    wanted = make_wanted(2, asked=make_asked(70))
    actions = reconcile(wanted, [*members, make_member("late", "pending", node=None)], {"n1": full})
    assert not [one for one in actions if isinstance(one, Stop | Place)]


def test_what_one_placement_takes_the_next_one_does_not_get() -> None:
    wanted = make_wanted(3, asked=make_asked(40))
    pending = [make_member(id, "pending", node=None) for id in ("a", "b", "c")]
    actions = reconcile(wanted, pending, {"n1": make_node("n1", make_card(0))})
    assert [one.replica_id for one in actions if isinstance(one, Place)] == ["a", "b"]


@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 80)), min_size=1, max_size=6),
    st.lists(st.integers(1, 90), min_size=1, max_size=8),
    st.sampled_from(["spread", "pack"]),
)
def test_no_order_of_placements_oversells(cards: list[tuple[int, int]], sizes: list[int], strategy: str) -> None:
    slots = tuple(
        make_card(index, *([held] if held else []), foreign_gib=foreign) for index, (held, foreign) in enumerate(cards)
    )
    site = make_node("a", *slots)
    for number, size in enumerate(sizes):
        found = place(make_need(asked=make_asked(size), strategy=strategy), [site], {})
        if isinstance(found, Placement):
            site = take(site, found.uuids, f"r{number}", found.memory_bytes)
        else:
            assert all((slot.memory.free_bytes or 0) < size * GIB for slot in site.slots)
        for slot in site.slots:
            slot.memory.check_invariants()


@pytest.mark.parametrize("count", [1, 300])
def test_every_candidate_keeps_its_reason(count: int) -> None:
    sites = [make_node(f"n{number:03}", make_card(0, None)) for number in range(count)]
    found = place(make_need(), sites, {})
    assert isinstance(found, NoRoom)
    assert len(named(found.rejected)) == 2 * count
    assert reasons_of_nodes(found.rejected) == found.reasons
    assert len(found.rejected) == 2, "each reason once"


def test_nodes_that_can_not_do_it_are_told_before_those_that_would_do() -> None:
    lost = [replace(make_node(f"lost{number:03}", make_card(0)), lost_for_s=9.0) for number in range(70)]
    full = [make_node(f"n{number:03}", make_card(0, 41 + number % 39)) for number in range(90)]
    good = [make_node(f"z{number:03}", make_card(0)) for number in range(40)]
    found = place(make_need(asked=make_asked(40)), [*lost, *full, *good], {})
    assert isinstance(found, Placement)
    first, *_, last = [one for one in found.rejected if one.nodes]
    assert (first.reason, len(first.nodes)) == ("is lost (it does not report)", 70)
    assert (last.reason, len(last.nodes)) == ("would do as well as z000", 39)
    assert len(reasons_of_nodes(found.rejected)) == 199
    assert sum(one.count for one in found.rejected if one.cards) == 90


def test_each_card_of_the_chosen_node_that_was_not_taken_says_why() -> None:
    other = replace(make_card(3), name="A100")
    slots = (make_card(0), make_card(1), replace(make_card(2), foreign=True), other)
    found = place(make_need(accelerators=1), [make_node("a", *slots)], {})
    assert isinstance(found, Placement)
    assert found.uuids == ("c0",)
    assert reasons_of_cards(found.rejected) == {
        1: "would do, and is not needed",
        2: "would do, but a process that is not ours is on it, and on the others is none",
        3: "would do, but H100 of the node suits better",
    }


def test_cards_of_a_make_with_too_few_say_so() -> None:
    other = replace(make_card(3), name="A100")
    found = place(make_need(accelerators=2), [make_node("a", make_card(0), make_card(1), other)], {})
    assert isinstance(found, Placement)
    reason = "is the only free one of its make in the node, and a replica needs 2"
    assert reasons_of_cards(found.rejected) == {3: reason}
    none = place(make_need(accelerators=2), [make_node("a", make_card(0), other)], {})
    assert reasons_of_cards(none.rejected) == {0: reason, 3: reason}


def test_while_memory_is_on_its_way_back_no_second_replica_is_ended_for_it() -> None:
    claims = (Claim("gone", None, releasing=True),)
    slots = (
        Slot("c0", "gpu", "H100", 0, CardMemory(TOTAL, claims)),
        make_card(1).with_claim("old", None),
    )
    members = [make_member("old", "ready", revision=1), make_member("new", "pending", revision=2, node=None)]
    members[1] = replace(members[1], waiting_why="No node can take it.")
    wanted = make_wanted(2, revision=2)
    actions = reconcile(wanted, members, {"n1": make_node("n1", *slots)})
    assert not [one for one in actions if isinstance(one, Stop | Place)]
    back = make_node("n1", make_card(0, None), slots[1])
    assert [one.replica_id for one in reconcile(wanted, members, {"n1": back}) if isinstance(one, Stop)] == ["old"]


def test_a_card_whose_memory_is_not_back_says_so() -> None:
    slot = Slot("c0", "gpu", "H100", 0, CardMemory(TOTAL, (Claim("gone", 60 * GIB, releasing=True),)))
    found = place(make_need(asked=make_asked(40)), [make_node("a", slot)], {})
    assert isinstance(found, NoRoom)
    assert "not seen to be back yet" in found.rejected[-1].reason


def test_the_price_of_a_nodes_cards_goes_before_the_typical_rent() -> None:
    asked = make_asked(20, price_per_hour=3.0)
    cheap = replace(make_node("n2", make_card(0)), card_price_per_hour=1.5)
    found = place(make_need(asked=asked), [make_node("n1", make_card(0)), cheap], {})
    assert isinstance(found, Placement)
    assert found.node == "n2"
    assert [one.reason for one in found.rejected] == ["would do, but n2 is better: its accelerators cost less"]
    free = replace(make_node("n3", make_card(0)), card_price_per_hour=0.0)
    found = place(make_need(asked=asked), [cheap, free], {})
    assert isinstance(found, Placement)
    assert found.node == "n3"
