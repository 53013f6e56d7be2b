"""The seat that is kept for tenants with nothing running has KV tokens too: the cache may be full before the seats."""

from __future__ import annotations

from controlplane.domain.admission.queueing import Admission
from controlplane.domain.admission.tenants import SEVERAL_S
from controlplane.domain.admission.ticket import Dispatch, Queued
from tests.domain.admission.making import LATE, ask, make_admission, make_ticket


def fill_up(admission: Admission, now: float = LATE, *, prompt_tokens: int = 100, output_tokens: int = 100) -> int:
    """One tenant takes what it gets; returns how many of its requests run."""
    for number in range(20):
        ticket = make_ticket(
            f"greedy-{number}", "greedy", prompt_tokens=prompt_tokens, output_tokens=output_tokens, arrived_at=now,
            wait_until=now + 30.0,
        )  # fmt: skip
        ask(admission, ticket, now)
    return len(admission.seated)


def make_shared(seats: int, *, replicas: int = 1) -> Admission:
    """What two tenants use, of which one has nothing running."""
    admission = make_admission(seats, capacity=1000, replicas=replicas)
    ask(admission, make_ticket("first", "bob"))
    ask(admission, make_ticket("second", "greedy"))
    for name in ("first", "second"):
        admission.ended(name, LATE)
    return admission


def test_the_seat_that_is_kept_has_its_tokens_too() -> None:
    admission = make_shared(8)
    assert fill_up(admission) == 4, "a fifth one of 200 tokens would take all that is left"
    assert isinstance(ask(admission, make_ticket("small", "bob", prompt_tokens=60, output_tokens=60)), Dispatch)
    assert isinstance(ask(admission, make_ticket("small-2", "bob", prompt_tokens=60, output_tokens=60)), Queued)


def test_where_the_cache_is_full_long_before_the_seats_as_much_is_kept_as_others_hold() -> None:
    admission = make_shared(100)
    assert fill_up(admission, prompt_tokens=60, output_tokens=60) == 7
    assert isinstance(ask(admission, make_ticket("small", "bob", prompt_tokens=60, output_tokens=60)), Dispatch)


def test_where_there_is_one_tenant_its_requests_have_the_whole_cache() -> None:
    admission = make_admission(seats=8, capacity=1000)
    assert fill_up(admission) == 5


def test_where_only_one_has_asked_for_long_nothing_is_kept_any_more() -> None:
    admission = make_shared(8)
    assert fill_up(admission, LATE + SEVERAL_S) == 5


def test_no_more_than_an_eighth_of_the_cache_is_kept() -> None:
    admission = make_shared(4)
    assert fill_up(admission, prompt_tokens=400, output_tokens=30) == 2, "140 of 1000 are left"


def test_of_several_replicas_one_keeps_the_tokens() -> None:
    admission = make_shared(8, replicas=2)
    assert fill_up(admission) == 9, "five in one of them, four in the other"
    assert isinstance(ask(admission, make_ticket("small", "bob", prompt_tokens=60, output_tokens=60)), Dispatch)
