from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from controlplane.domain.errors import RefusedError
from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.fleet.services import nodes, pools, reservations
from controlplane.journal.models import Event
from tests.deployments.making import ADA, make_deployment, make_node

pytestmark = [pytest.mark.services]


@pytest.mark.django_db
def test_a_cordon_is_written_once_with_its_reason() -> None:
    make_node()
    nodes.cordon(actor=ADA, name="n1", reason="new disks")
    node = nodes.cordon(actor=ADA, name="n1", reason="new disks")
    assert (node.cordoned, node.cordon_reason, node.version) == (True, "new disks", 2)
    nodes.uncordon(actor=ADA, name="n1")
    nodes.uncordon(actor=ADA, name="n1")
    assert list(Event.objects.order_by("id").values_list("verb", flat=True)) == ["node.cordoned", "node.uncordoned"]


@pytest.mark.django_db
def test_a_drain_also_keeps_new_replicas_away() -> None:
    make_node()
    node = nodes.drain(actor=ADA, name="n1")
    assert (node.draining, node.cordoned) == (True, True)
    assert not nodes.uncordon(actor=ADA, name="n1").draining


@pytest.mark.django_db
def test_an_unknown_node_is_a_clear_refusal() -> None:
    for call in (nodes.cordon, nodes.uncordon, nodes.drain):
        with pytest.raises(RefusedError, match="There is no node n9"):
            call(actor=ADA, name="n9")
    with pytest.raises(RefusedError, match="There is no node n9"):
        selectors.node("n9")


@pytest.mark.django_db
def test_a_node_changed_meanwhile_is_a_conflict() -> None:
    make_node()
    nodes.cordon(actor=ADA, name="n1")
    with pytest.raises(RefusedError) as refused:
        nodes.uncordon(actor=ADA, name="n1", expected_version=1)
    assert refused.value.kind == "conflict"
    assert "ada" in refused.value.message


@pytest.mark.django_db
def test_a_node_goes_into_another_pool() -> None:
    make_node()
    pools.apply(actor=ADA, name="fast")
    assert nodes.move(actor=ADA, name="n1", pool="fast").pool.name == "fast"
    with pytest.raises(RefusedError) as refused:
        nodes.move(actor=ADA, name="n1", pool="none")
    assert "pool" in refused.value.fields


@pytest.mark.django_db
def test_an_accelerator_is_cordoned_alone() -> None:
    make_node()
    row = nodes.cordon_accelerator(actor=ADA, node="n1", uuid="n1-1", cordoned=True)
    nodes.cordon_accelerator(actor=ADA, node="n1", uuid="n1-1", cordoned=True)
    assert row.cordoned
    assert Event.objects.count() == 1
    with pytest.raises(RefusedError):
        nodes.cordon_accelerator(actor=ADA, node="n1", uuid="none", cordoned=True)


@pytest.mark.django_db
def test_a_pool_is_declarative() -> None:
    made = pools.apply(actor=ADA, name="batch", purpose="offline", hot=False)
    again = pools.apply(actor=ADA, name="batch", purpose="offline", hot=False)
    assert (made.created, again.changed, again.row.version) == (True, False, 1)
    assert pools.apply(actor=ADA, name="batch", purpose="mixed").row.version == 2
    with pytest.raises(RefusedError) as refused:
        pools.apply(actor=ADA, name="No", purpose="x")
    assert set(refused.value.fields) == {"name", "purpose"}


@pytest.mark.django_db
def test_a_pool_in_use_stays() -> None:
    make_deployment()
    with pytest.raises(RefusedError) as refused:
        pools.delete(actor=ADA, name="default")
    assert refused.value.code == "pool_in_use"
    pools.apply(actor=ADA, name="empty")
    pools.delete(actor=ADA, name="empty")
    with pytest.raises(RefusedError, match="There is no pool empty"):
        pools.delete(actor=ADA, name="empty")


@pytest.mark.django_db
def test_nodes_are_listed_with_their_accelerators_in_one_query(django_assert_num_queries) -> None:  # type: ignore[no-untyped-def]
    for name in ("a", "b"):
        make_node(name, cards=3)
    reservations.take(node="a", uuids=["a-0", "a-1"], owner_kind="replica", owner_id="r")
    Accelerator.objects.filter(uuid="b-2").update(present=False)
    with django_assert_num_queries(1):
        found = {node.name: node for node in selectors.nodes()}
    assert (found["a"].accelerators_total, found["a"].accelerators_taken) == (3, 2)  # type: ignore[attr-defined]
    assert found["b"].accelerators_total == 2  # type: ignore[attr-defined]


@pytest.mark.django_db
def test_nodes_and_accelerators_are_filtered() -> None:
    make_node("a", kind="simulated")
    make_node("b", lost=True, cordoned=True)
    assert [one.name for one in selectors.nodes(simulated=True)] == ["a"]
    assert [one.name for one in selectors.nodes(lost=True, cordoned=True)] == ["b"]
    assert [one.name for one in selectors.nodes(search="B", pool="default")] == ["b"]
    reservations.take(node="a", uuids=["a-0"], owner_kind="replica", owner_id="r")
    assert [one.uuid for one in selectors.accelerators(node="a", free=True)] == ["a-1"]
    assert [one.uuid for one in selectors.accelerators(kind="simulated", free=False)] == ["a-0"]
    pool = selectors.pool("default")
    assert (pool.nodes_total, pool.nodes_lost) == (2, 1)  # type: ignore[attr-defined]


@pytest.mark.django_db
def test_accelerators_are_taken_together_or_not_at_all() -> None:
    make_node(cards=3)
    assert reservations.take(node="n1", uuids=["n1-1"], owner_kind="replica", owner_id="a") is not None
    assert reservations.take(node="n1", uuids=["n1-0", "n1-1"], owner_kind="replica", owner_id="b") is None
    Accelerator.objects.filter(uuid="n1-2").update(cordoned=True)
    assert reservations.take(node="n1", uuids=["n1-2"], owner_kind="replica", owner_id="b") is None
    assert Reservation.objects.get().owner_id == "a"
    assert reservations.release(owner_kind="replica", owner_id="a") == 1


@pytest.mark.django_db(transaction=True)
def test_many_at_once_never_take_one_accelerator_twice() -> None:
    make_node(cards=4)
    start = threading.Barrier(8)
    won: list[str] = []

    def work(owner: str) -> None:
        try:
            start.wait(20)
            for index in (0, 1, 2, 3) if owner < "4" else (3, 2, 1, 0):
                with transaction.atomic():
                    pair = [f"n1-{index}", f"n1-{(index + 1) % 4}"]
                    if reservations.take(node="n1", uuids=pair, owner_kind="replica", owner_id=owner):
                        won.append(owner)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 1 <= len(won) <= 2
    assert Reservation.objects.count() == 2 * len(won)
    assert Node.objects.count() == 1


@pytest.mark.django_db
def test_labels_are_replaced_as_a_whole() -> None:
    make_node()
    nodes.label(actor=ADA, name="n1", labels={"rack": "r1", "zone": "a"})
    node = nodes.label(actor=ADA, name="n1", labels={"rack": "r2"})
    nodes.label(actor=ADA, name="n1", labels={"rack": "r2"})
    assert (node.labels, node.version) == ({"rack": "r2"}, 3)
    assert Event.objects.filter(verb="node.labelled").count() == 2


@pytest.mark.django_db
@pytest.mark.parametrize("labels", [{"Rack": "r"}, {"rack": ""}, {"rack": "a b"}, {f"l{n}": "v" for n in range(33)}])
def test_odd_labels_are_refused_with_what_would_be_right(labels: dict[str, str]) -> None:
    make_node()
    with pytest.raises(RefusedError) as refused:
        nodes.label(actor=ADA, name="n1", labels=labels)
    assert "labels" in refused.value.fields


@pytest.mark.django_db
def test_a_pool_keeps_its_strategy_unless_told() -> None:
    pools.apply(actor=ADA, name="fast", strategy="pack")
    assert pools.apply(actor=ADA, name="fast", hot=False).row.strategy == "pack"
    with pytest.raises(RefusedError) as refused:
        pools.apply(actor=ADA, name="fast", strategy="heap")
    assert "strategy" in refused.value.fields


@pytest.mark.django_db
def test_a_node_has_a_price_of_its_cards_until_it_is_taken_back() -> None:
    make_node()
    nodes.price(actor=ADA, name="n1", card_price_per_hour=2.5)
    node = nodes.price(actor=ADA, name="n1", card_price_per_hour=2.5)
    assert (node.card_price_per_hour, node.version) == (2.5, 2)
    assert Event.objects.get(verb="node.priced").message == "A card of node n1 costs 2.5 an hour."
    assert nodes.price(actor=ADA, name="n1", card_price_per_hour=None).card_price_per_hour is None


@pytest.mark.django_db
@pytest.mark.parametrize("price", [-0.01, 1e7, float("nan"), float("inf")])
def test_an_odd_price_is_refused_at_its_field(price: float) -> None:
    make_node()
    with pytest.raises(RefusedError) as refused:
        nodes.price(actor=ADA, name="n1", card_price_per_hour=price)
    assert "card_price_per_hour" in refused.value.fields
