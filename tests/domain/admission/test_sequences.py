"""A request of several answers takes a place in the running batch for each of them."""

from __future__ import annotations

from typing import Any

from controlplane.domain.admission.policy import Policy, TenantShare
from controlplane.domain.admission.ticket import Dispatch, Queued, Refusal, Ticket
from tests.domain.admission.making import LATE, ask, dispatched, make_admission, make_ticket
from tests.domain.admission.test_queueing_properties import is_at_rest

ALL = Policy(kept_seats=0)


def make_several(name: str, sequences: int, tenant: str = "ada", **given: Any) -> Ticket:
    return make_ticket(name, tenant, sequences=sequences, **given)


def test_it_takes_a_seat_for_each_and_gives_all_of_them_back() -> None:
    admission = make_admission(seats=8, policy=ALL)
    assert isinstance(ask(admission, make_several("a", 5)), Dispatch)
    assert (admission.places["r0"].running, admission.tenants.running) == (5, {"ada": 5})
    admission.ended("a", LATE)
    is_at_rest(admission)


def test_it_waits_until_so_many_are_free_at_once_and_is_not_passed_by_smaller_ones_for_ever() -> None:
    admission = make_admission(seats=4, policy=ALL)
    for name in ("a", "b"):
        ask(admission, make_several(name, 1))
    assert isinstance(ask(admission, make_several("three", 3, "eve")), Queued)
    assert isinstance(ask(admission, make_several("one", 1, "bob"), LATE + 20), Queued)
    assert dispatched(admission.ended("a", LATE + 21)) == ["three"]
    assert admission.places["r0"].running == 4


def test_one_of_more_than_all_seats_takes_all_of_them() -> None:
    admission = make_admission(seats=4)
    assert isinstance(ask(admission, make_several("a", 100)), Dispatch)
    assert admission.places["r0"].running == 4
    admission.set_replicas({"r0": 2}, {"r0": 10_000}, LATE)  # what was taken is given back, not what there is by then
    admission.ended("a", LATE)
    is_at_rest(admission)


def test_it_goes_where_there_are_seats_enough() -> None:
    admission = make_admission(seats=4, replicas=2, policy=ALL)
    for name, tokens in (("a", 900), ("b", 10), ("c", 100)):
        ask(admission, make_several(name, 1, output_tokens=tokens))
    least = min(admission.places.values(), key=lambda one: one.load())
    assert least.running == 2, "the emptier one by tokens has fewer seats free"
    answer = ask(admission, make_several("d", 3, "eve"))
    assert isinstance(answer, Dispatch) and answer.replica_id != least.id


def test_a_new_replica_gets_no_more_of_them_than_of_single_ones() -> None:
    admission = make_admission(seats=8, policy=ALL)
    ask(admission, make_several("all", 8))
    admission.set_replicas({"r0": 8, "r1": 8}, {"r0": 10_000, "r1": 10_000}, LATE)
    assert isinstance(ask(admission, make_several("a", 6, "eve")), Queued)
    assert dispatched(admission.tick(LATE + 5)) == []
    assert dispatched(admission.tick(LATE + 9)) == ["a"]


def test_the_seat_that_is_kept_for_others_is_kept_from_them_too() -> None:
    admission = make_admission(seats=8)
    ask(admission, make_several("a", 4))
    assert isinstance(ask(admission, make_several("b", 4)), Queued)
    assert isinstance(ask(admission, make_several("c", 4, "eve")), Dispatch)


def test_a_tenant_s_most_counts_each_of_them() -> None:
    admission = make_admission(seats=8, policy=Policy(shares={"ada": TenantShare(most=0.5)}, kept_seats=0))
    ask(admission, make_several("a", 2))
    assert isinstance(ask(admission, make_several("b", 3)), Queued)
    assert isinstance(ask(admission, make_several("c", 2, "eve")), Dispatch)


def test_what_no_replica_can_ever_hold_is_refused_at_once_with_the_sum() -> None:
    given: dict[str, Any] = {"prompt_tokens": 400, "output_tokens": 900, "sure_tokens": 1300}
    answer = ask(make_admission(capacity=1000), make_several("a", 9, **given))
    assert isinstance(answer, Refusal) and answer.code == "too_many"
    assert "9 answers" in answer.why and "1300 tokens" in answer.why and "1000 tokens" in answer.why


def test_what_is_only_a_guess_is_let_in() -> None:
    given: dict[str, Any] = {"prompt_tokens": 400, "output_tokens": 900, "sure_tokens": 400}
    assert isinstance(ask(make_admission(capacity=1000), make_several("a", 4, **given)), Dispatch)
