from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from controlplane.domain import memory_return
from controlplane.fleet import selectors
from controlplane.fleet.models import Accelerator, Node, Reservation
from controlplane.fleet.services import reservations
from controlplane.journal.models import Event
from tests.deployments.making import make_node

pytestmark = [pytest.mark.services]

GIB = 2**30
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_card(total_gib: int = 80, *, cards: int = 1, **observed: Any) -> Node:
    node = make_node(cards=cards, kind="gpu")
    Accelerator.objects.update(memory_total_bytes=total_gib * GIB, observed=observed)
    return node


def take(owner: str, gib: float | None, *uuids: str) -> bool:
    size = None if gib is None else int(gib * GIB)
    wanted = uuids or ("n1-0",)
    found = reservations.take(node="n1", uuids=wanted, owner_kind="replica", owner_id=owner, memory_bytes=size)
    return found is not None


def settle(at: datetime, *up: str) -> int:
    return reservations.settle(at, lambda owners: set(up) & set(owners))


def see(used_gib: float, at: datetime, **observed: Any) -> None:
    seen = {"memory_used_bytes": int(used_gib * GIB), "written_at": at.timestamp(), **observed}
    Accelerator.objects.update(observed=seen)


@pytest.mark.django_db
def test_engines_share_a_card_as_long_as_their_sum_fits() -> None:
    node = make_card(foreign_processes=[{"pid": 1, "name": "x", "used_bytes": 10 * GIB}])
    assert take("a", 30)
    assert take("b", 40)
    assert not take("c", 1)
    (card,) = selectors.card_shares(node)
    assert [(one.owner_id, one.reserved_bytes) for one in card.holders] == [("a", 30 * GIB), ("b", 40 * GIB)]
    assert (card.reserved_bytes, card.foreign_bytes, card.free_bytes) == (70 * GIB, 10 * GIB, 0)


@pytest.mark.django_db
def test_the_whole_card_stands_alone() -> None:
    make_card(cards=2)
    assert take("a", 1)
    assert not take("b", None)
    assert take("b", None, "n1-1")
    assert not take("c", 1, "n1-1")


@pytest.mark.django_db
def test_of_a_card_with_unknown_memory_only_the_whole_is_given() -> None:
    make_node(kind="gpu")
    assert not take("a", 1)
    assert take("a", None)


@pytest.mark.django_db
def test_an_owner_takes_a_card_once() -> None:
    make_card()
    assert take("a", 1)
    assert not take("a", 1)


@pytest.mark.django_db
def test_the_database_itself_refuses_two_whole_claims_and_empty_ones() -> None:
    make_card()
    card = Accelerator.objects.get()
    Reservation.objects.create(accelerator=card, owner_id="a")
    for fields in ({"owner_id": "b"}, {"owner_id": "c", "memory_bytes": 0}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Reservation.objects.create(accelerator=card, **fields)


@pytest.mark.django_db(transaction=True)
def test_placements_at_once_never_oversell_a_card() -> None:
    make_card(80, cards=3)
    start = threading.Barrier(8)
    won: list[str] = []

    def work(number: int) -> None:
        try:
            start.wait(20)
            for turn in range(6):
                cards = [f"n1-{(number + turn + one) % 3}" for one in range(1 + turn % 2)]
                with transaction.atomic():
                    owner = f"{number}-{turn}"
                    if take(owner, 7 + number, *(cards if number % 2 else reversed(cards))):
                        won.append(owner)
                        time.sleep(0.002)  # others run into the row's lock
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert won
    assert {row.owner_id for row in Reservation.objects.all()} == set(won)
    for card in Accelerator.objects.prefetch_related("reservations"):
        memory = selectors.card_memory_of(card)
        memory.check_invariants()
        assert sum(one.memory_bytes or 0 for one in card.reservations.all()) <= 80 * GIB
        assert (memory.free_bytes or 0) < 15 * GIB  # each of the eight was refused at least once


@pytest.mark.django_db(transaction=True)
def test_the_second_of_two_transactions_sees_what_the_first_one_took() -> None:
    make_card(80)
    holds, go = threading.Event(), threading.Event()
    answers: dict[str, bool] = {}

    def first() -> None:
        try:
            with transaction.atomic():
                answers["first"] = take("first", 50)
                holds.set()
                go.wait(20)
        finally:
            connection.close()

    def second() -> None:
        try:
            holds.wait(20)
            with transaction.atomic():
                answers["second"] = take("second", 50)
        finally:
            connection.close()

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    for thread in threads:
        thread.start()
    holds.wait(20)
    go.set()
    for thread in threads:
        thread.join(20)
    assert answers == {"first": True, "second": False}


@pytest.mark.django_db
def test_memory_is_free_only_when_a_newer_reading_shows_it() -> None:
    make_card()
    take("a", 50)
    see(50, NOW)
    assert reservations.release(owner_kind="replica", owner_id="a", now=NOW) == 1
    assert settle(NOW) == 0
    see(1, NOW + timedelta(seconds=2))  # may have been read before the end
    assert settle(NOW + timedelta(seconds=2)) == 0
    see(30, NOW + timedelta(seconds=8))  # not all of it is back
    assert settle(NOW + timedelta(seconds=8)) == 0
    assert not take("b", 40)
    see(1, NOW + timedelta(seconds=12))
    assert settle(NOW + timedelta(seconds=12)) == 1
    assert take("b", 40)
    assert not Event.objects.filter(verb="node.memory_not_back").exists()


@pytest.mark.django_db
def test_what_runs_beside_does_not_keep_memory_from_coming_back() -> None:
    make_card()
    take("a", 30)
    take("b", 40)
    see(70, NOW)
    reservations.release(owner_kind="replica", owner_id="a", now=NOW)
    see(40.5, NOW + timedelta(seconds=6), foreign_processes=[])
    assert settle(NOW + timedelta(seconds=6), "b") == 1
    assert [one.owner_id for one in Reservation.objects.all()] == ["b"]


@pytest.mark.django_db
def test_memory_that_does_not_come_back_is_told_once_and_goes_on_counting() -> None:
    node = make_card()
    take("a", 50)
    see(45, NOW)
    reservations.release(owner_kind="replica", owner_id="a", now=NOW)
    late = NOW + timedelta(seconds=memory_return.RELEASE_WITHIN_S)
    see(45, late)
    settle(late - timedelta(seconds=1))
    assert not Event.objects.exists()
    for later in (0, 10, 3600):
        assert settle(late + timedelta(seconds=later)) == 0
    told = Event.objects.get(verb="node.memory_not_back")
    assert "up to 45.0 GiB are not back" in told.message
    (card,) = selectors.card_shares(node)
    (holder,) = card.holders
    assert (holder.not_back_since, holder.not_back_bytes, holder.releasing) == (late, 45 * GIB, True)
    assert (card.reserved_bytes, card.foreign_bytes, card.free_bytes) == (50 * GIB, 0, 30 * GIB)
    assert not take("b", 40)
    see(20, late + timedelta(seconds=20))
    settle(late + timedelta(seconds=20))
    assert Reservation.objects.get().not_back_bytes == 20 * GIB
    see(0.5, late + timedelta(seconds=30))
    assert settle(late + timedelta(seconds=30)) == 1
    assert Event.objects.count() == 1


@pytest.mark.django_db
def test_the_empty_room_of_an_engine_that_starts_hides_nothing() -> None:
    make_card()
    take("a", 30)
    take("b", 40)
    see(68, NOW)
    reservations.release(owner_kind="replica", owner_id="a", now=NOW)
    see(35, NOW + timedelta(seconds=120))  # 30 that were left, and the first 5 of the one that starts
    assert settle(NOW + timedelta(seconds=120)) == 0
    assert not Event.objects.exists()  # nobody knows yet whose they are
    assert settle(NOW + timedelta(seconds=120), "b") == 1  # it is up with 35 of its 40


@pytest.mark.django_db
def test_a_ready_neighbours_unused_room_hides_nothing_where_the_card_names_who_uses_what() -> None:
    make_card()
    take("a", 30)
    take("b", 40)
    see(55, NOW)
    reservations.release(owner_kind="replica", owner_id="a", now=NOW)
    later = NOW + timedelta(seconds=61)
    see(39, later, replica_use=[{"replica_id": "b", "used_bytes": 25 * GIB}])
    assert settle(later, "b") == 0
    assert "up to 14.0 GiB are not back" in Event.objects.get().message
    see(25.4, later, replica_use=[{"replica_id": "b", "used_bytes": 25 * GIB}])
    assert settle(later, "b") == 1


@pytest.mark.django_db
def test_what_no_reading_shows_is_told_after_longer() -> None:
    make_card()
    take("a", 50)
    see(45, NOW)
    reservations.release(owner_kind="replica", owner_id="a", now=NOW)
    long = timedelta(seconds=memory_return.UNCLEAR_WITHIN_S)
    settle(NOW + long - timedelta(seconds=1))
    assert not Event.objects.exists()
    Accelerator.objects.update(observed={"written_at": (NOW + long).timestamp()})  # the driver is silent
    assert settle(NOW + long) == 0
    assert "the card does not tell its use any more" in Event.objects.get().message


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["cpu", "simulated"])
def test_what_has_no_readings_of_its_own_is_free_at_once(kind: str) -> None:
    make_node(kind=kind)
    take("a", None)
    reservations.release(owner_kind="replica", owner_id="a")
    assert take("b", None)


@pytest.mark.django_db(transaction=True)
def test_rows_of_whole_cards_are_kept_by_the_migration() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate([("fleet", "0004_node_identity")])
    try:
        old = executor.loader.project_state([("fleet", "0004_node_identity")]).apps
        pool = old.get_model("fleet", "Pool").objects.create(name="p")
        node = old.get_model("fleet", "Node").objects.create(name="n1", pool=pool)
        card = old.get_model("fleet", "Accelerator").objects.create(
            node=node, uuid="n1-0", index=0, kind="gpu", name="H100", address="0"
        )
        old.get_model("fleet", "Reservation").objects.create(accelerator=card, owner_id="a")
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())
    held = Reservation.objects.get()
    assert (held.owner_id, held.memory_bytes, held.releasing_since) == ("a", None, None)
    with transaction.atomic():
        assert not take("b", None)
