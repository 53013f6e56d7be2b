from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.placement import NoRoom, Placement, place
from tests.domain.fleets import make_need, make_site, make_slot


def reason(site: object, **need: object) -> str:
    found = place(make_need(**need), [site], {})  # type: ignore[arg-type, list-item]
    assert isinstance(found, NoRoom)
    return found.reasons["n1"]


def test_a_free_accelerator_is_taken() -> None:
    found = place(make_need(), [make_site(cards=1)], {})
    assert isinstance(found, Placement)
    assert (found.node, found.uuids) == ("n1", ("n1/0",))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"pool": "batch"}, "belongs to pool batch, not default"),
        ({"lost_for_s": 20.0}, "is lost (it does not report)"),
        ({"cordoned": True}, "is cordoned"),
        ({"cordoned": True, "cordon_reason": "new disks"}, "is cordoned (new disks)"),
        ({"cordoned": True, "draining": True}, "is being emptied"),
        ({"engines": {"vllm": None}}, "has no engine vllm installed"),
        ({"engines": {}}, "has no engine vllm installed"),
        ({"slots": ()}, "has no accelerators"),
    ],
)
def test_each_node_that_drops_out_says_why(fields: dict, why: str) -> None:
    assert reason(make_site(**fields)) == why


def test_taken_and_cordoned_accelerators_are_counted_in_the_reason() -> None:
    slots = (make_slot("a", holder="r1"), make_slot("b", unusable="cordoned"), make_slot("c"))
    assert reason(make_site(slots=slots), accelerators=2) == (
        "has 1 free accelerator of 3 (1 taken, cordoned), and a replica needs 2"
    )


def test_a_real_engine_does_not_go_on_simulated_accelerators() -> None:
    site = make_site(slots=(make_slot(kind="simulated"),))
    assert reason(site) == "has no accelerators but simulated ones"


def test_a_simulated_engine_does_not_go_on_real_accelerators() -> None:
    assert reason(make_site(), engine="simulated") == "has no simulated accelerators"
    simulated = make_site(slots=(make_slot(kind="simulated"),), engines={})
    assert isinstance(place(make_need(engine="simulated"), [simulated], {}), Placement)


def test_a_deployment_is_spread_over_nodes() -> None:
    found = place(make_need(), [make_site("n1"), make_site("n2")], {"n1": 1})
    assert isinstance(found, Placement)
    assert found.node == "n2"


def test_among_equals_the_fuller_node_is_filled_up() -> None:
    found = place(make_need(), [make_site("n1", cards=8), make_site("n2", cards=2)], {})
    assert isinstance(found, Placement)
    assert found.node == "n2"


def test_accelerators_with_foreign_processes_come_last() -> None:
    busy = make_site("n1", slots=(make_slot("a", foreign=True),))
    found = place(make_need(), [busy, make_site("n2", cards=8)], {})
    assert isinstance(found, Placement)
    assert found.node == "n2"
    assert isinstance(place(make_need(), [busy], {}), Placement)


def test_a_replica_gets_accelerators_of_one_make() -> None:
    mixed = make_site(slots=(make_slot("a"), make_slot("b", name="A100"), make_slot("c", name="A100")))
    found = place(make_need(2), [mixed], {})
    assert isinstance(found, Placement)
    assert found.uuids == ("b", "c")
    apart = make_site(slots=(make_slot("a"), make_slot("b", name="A100")))
    assert reason(apart, accelerators=2) == "has 2 free accelerators of 2, and a replica needs 2 of one make"


def test_accelerators_of_those_who_would_end_count_as_free_when_asked() -> None:
    site = make_site(slots=(make_slot("a", holder="r1"),))
    assert isinstance(place(make_need(), [site], {}), NoRoom)
    assert isinstance(place(make_need(), [site], {}, {"r1"}), Placement)


def test_equal_reasons_are_told_once() -> None:
    sites = [make_site(f"n{index}", lost_for_s=20.0) for index in range(3)]
    found = place(make_need(), [*sites, make_site("z", cordoned=True)], {})
    assert isinstance(found, NoRoom)
    assert found.sentence() == (
        "No node can take it. n0 and 2 more: each is lost (it does not report); z: is cordoned."
    )


def test_without_nodes_the_sentence_says_so() -> None:
    found = place(make_need(), [], {})
    assert isinstance(found, NoRoom)
    assert found.sentence() == "No node has reported yet."


def test_the_choice_does_not_depend_on_the_order_of_nodes() -> None:
    sites = [make_site("n2"), make_site("n1"), replace(make_site("n3"), cordoned=True)]
    assert place(make_need(), sites, {}) == place(make_need(), list(reversed(sites)), {})
