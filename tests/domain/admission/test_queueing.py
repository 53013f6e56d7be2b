from __future__ import annotations

import heapq
from dataclasses import replace

import pytest

from controlplane.domain.admission.policy import Policy, TenantShare
from controlplane.domain.admission.queueing import Admission
from controlplane.domain.admission.ticket import Dispatch, Queued, Refusal, Ticket
from controlplane.domain.admission.tiers import BATCH, INTERACTIVE, STANDARD
from tests.domain.admission.making import LATE, ask, dispatched, make_admission, make_ticket


def make_policy(**shares: TenantShare) -> Policy:
    return Policy(shares=shares, kept_seats=0)


def fill_up(admission: object, count: int, tenant: str = "greedy", **given: object) -> None:
    for number in range(count):
        ask(admission, make_ticket(f"{tenant}-{number}", tenant, **given))  # type: ignore[arg-type]


def test_a_request_that_finds_a_seat_is_dispatched_and_holds_its_tokens() -> None:
    admission = make_admission()
    assert ask(admission, make_ticket()) == Dispatch(make_ticket(), "r0")
    assert admission.places["r0"].ledger.reserved_tokens == 200


def test_it_goes_to_the_replica_with_the_least_reserved_tokens() -> None:
    admission = make_admission(replicas=2)
    for name, output, where in (("a", 5000, "r0"), ("b", 100, "r1"), ("c", 100, "r1"), ("d", 5000, "r1")):
        answer = ask(admission, make_ticket(name, name, output_tokens=output))
        assert isinstance(answer, Dispatch) and answer.replica_id == where, name


def test_a_session_stays_on_its_replica_unless_that_unbalances() -> None:
    admission = make_admission(replicas=2, seats=16)
    first = ask(admission, make_ticket("a", affinity="s"))
    again = ask(admission, make_ticket("b", "eve", affinity="s"))
    assert isinstance(first, Dispatch) and isinstance(again, Dispatch) and first.replica_id == again.replica_id
    long = ask(admission, make_ticket("c", "eve", affinity="s", output_tokens=4000))
    other = ask(admission, make_ticket("d", "bob", affinity="s"))
    assert isinstance(long, Dispatch) and isinstance(other, Dispatch) and other.replica_id != long.replica_id


def test_without_a_seat_it_waits_and_goes_when_one_is_free() -> None:
    admission = make_admission(seats=2, policy=Policy(kept_seats=0))
    fill_up(admission, 2)
    assert isinstance(ask(admission, make_ticket("late")), Queued)
    assert dispatched(admission.ended("greedy-0", LATE + 1)) == ["late"]


def test_without_tokens_it_waits_although_there_are_seats() -> None:
    admission = make_admission(seats=8, capacity=1000)
    ask(admission, make_ticket("big", output_tokens=800))
    assert isinstance(ask(admission, make_ticket("next", "eve")), Queued)
    assert dispatched(admission.ended("big", LATE + 1)) == ["next"]


def make_short(name: str, tier: str = "standard", **given: object) -> Ticket:
    return make_ticket(name, "bob", tier, prompt_tokens=10, output_tokens=10, **given)


def test_a_long_request_is_passed_by_short_ones_for_half_of_its_patience() -> None:
    admission = make_admission(seats=8, capacity=1000)
    ask(admission, make_ticket("running", output_tokens=500))
    ask(admission, make_ticket("long", "eve", output_tokens=700))
    assert isinstance(ask(admission, make_short("early"), LATE + 14.9), Dispatch)
    assert isinstance(ask(admission, make_short("late", wait_until=LATE + 60), LATE + 15), Queued)
    admission.ended("early", LATE + 16)
    assert dispatched(admission.ended("running", LATE + 16)) == ["long", "late"]


def test_a_long_request_of_a_lighter_tier_holds_up_no_heavier_one() -> None:
    admission = make_admission(seats=8, capacity=1000)
    ask(admission, make_ticket("running", output_tokens=500))
    ask(admission, make_ticket("long", "eve", output_tokens=700))
    assert isinstance(ask(admission, make_short("heavier", "interactive"), LATE + 20), Dispatch)


def test_a_prompt_that_takes_as_long_as_its_target_is_served_when_nobody_has_to_wait() -> None:
    admission = make_admission(seats=1)
    assert isinstance(ask(admission, make_ticket("t1", tier="interactive", wait_until=LATE), LATE + 0.003), Dispatch)
    answer = ask(admission, make_ticket("t2", tier="interactive", wait_until=LATE), LATE + 0.003)
    assert isinstance(answer, Refusal) and answer.code == "expired"
    admission.ended("t1", LATE + 1)
    answer = ask(admission, make_ticket("t3", tier="interactive", wait_until=LATE), LATE + 3)
    assert isinstance(answer, Refusal), "it came longer ago than its tier waits"


def serve(admission: Admission, count: int, hold_s: float) -> None:
    """So many requests before `LATE`, one after the other, so that it is known how long a seat is held."""
    for number in range(count):
        at = LATE - (count - number) * hold_s
        ask(admission, make_ticket(f"before-{number}", "before"), at)
        admission.ended(f"before-{number}", at + hold_s)


def test_a_guaranteed_tenant_waits_only_for_those_with_the_same_right() -> None:
    policy = make_policy(gold=TenantShare(guaranteed=0.5))
    admission = make_admission(seats=2, policy=policy)
    serve(admission, 10, 2.0)
    fill_up(admission, 12)
    answer = ask(admission, make_ticket("gold", "gold", wait_until=LATE + 3))
    assert isinstance(answer, Queued) and answer.ahead == 0 and answer.expected_wait_s == pytest.approx(1.0)
    assert dispatched(admission.ended("greedy-0", LATE + 0.5)) == ["gold"]


def test_a_guaranteed_tenant_finds_room_in_a_queue_full_of_equals() -> None:
    tiers = {"standard": replace(STANDARD, queue_most=3)}
    admission = make_admission(seats=1, policy=Policy(tiers, {"gold": TenantShare(guaranteed=0.5)}, kept_seats=0))
    ask(admission, make_ticket("runs"))
    for number in range(3):
        ask(admission, make_ticket(f"t{number}", f"tenant-{number}"))
    out, answer = admission.arrive(make_ticket("gold", "gold"), LATE)
    assert isinstance(out, Refusal) and out.code == "queue_full" and isinstance(answer, Queued)
    assert isinstance(ask(admission, make_ticket("gold-2", "gold")), Queued), "its right is to one more place"
    admission.check_invariants()


def test_turns_of_tenants_count_by_their_weights() -> None:
    policy = make_policy(heavy=TenantShare(weight=4.0), light=TenantShare(weight=1.0))
    admission = make_admission(seats=1, policy=policy)
    ask(admission, make_ticket("runs"))
    fill_up(admission, 8, "heavy")
    ask(admission, make_ticket("light-1", "light"))
    answer = ask(admission, make_ticket("light-2", "light"))
    assert isinstance(answer, Queued) and answer.ahead == 6, "five turns of the other's, and its own first"


def test_who_was_served_little_stands_before_those_who_were_served_much() -> None:
    """So it is not told that it would wait too long."""
    admission = make_admission(seats=2, policy=Policy(kept_seats=0))
    serve(admission, 10, 1.0)
    fill_up(admission, 12)
    for number in range(3):
        admission.ended(f"greedy-{number}", LATE + 1.0)
    answer = ask(admission, make_ticket("small", "small", wait_until=LATE + 1.6), LATE + 1.0)
    assert isinstance(answer, Queued) and answer.ahead == 0
    assert dispatched(admission.ended("greedy-3", LATE + 1.0)) == ["small"]


def test_how_long_it_takes_is_by_the_seats_that_can_be_taken() -> None:
    """45 seats of which the KV cache carries ten."""
    admission = make_admission(seats=45, capacity=2000, policy=Policy(kept_seats=0))
    serve(admission, 10, 5.0)
    fill_up(admission, 10)
    answer = ask(admission, make_ticket("next"))
    assert isinstance(answer, Queued) and answer.expected_wait_s == pytest.approx(0.5)


def told_after(admission: Admission, clients: int, seconds: int) -> tuple[float, int]:
    """So many clients of one tenant come back when they were told to; returns refusals a second at the end, and what
    somebody else is told then."""
    due = [(LATE + number / clients, number) for number in range(clients)]
    heapq.heapify(due)
    lately = 0
    while due[0][0] < LATE + seconds:
        at, number = heapq.heappop(due)
        answer = ask(admission, make_ticket(f"c{number}-{at}", "greedy", wait_until=at + 0.5), at)
        assert isinstance(answer, Refusal)
        lately += at >= LATE + seconds - 10
        heapq.heappush(due, (at + answer.retry_after_s, number))
    last = ask(admission, make_ticket("else", "small", wait_until=LATE + seconds + 0.1), LATE + seconds)
    assert isinstance(last, Refusal)
    return lately / 10, last.retry_after_s


def test_a_thousand_clients_that_are_refused_do_not_all_come_back_each_second() -> None:
    admission = make_admission(seats=2, policy=Policy(kept_seats=0))
    serve(admission, 10, 2.0)
    fill_up(admission, 2, "runs")
    per_s, other_s = told_after(admission, 1000, 120)
    assert per_s <= 25 and other_s <= 4


def test_a_few_that_are_refused_come_back_soon() -> None:
    admission = make_admission(seats=2, policy=Policy(kept_seats=0))
    serve(admission, 10, 2.0)
    fill_up(admission, 2, "runs")
    assert told_after(admission, 3, 60)[0] >= 0.5


def test_when_to_come_back_is_by_those_before_it_and_not_by_lighter_tiers() -> None:
    admission = make_admission(seats=1, policy=Policy(kept_seats=0))
    serve(admission, 10, 1.0)
    ask(admission, make_ticket("runs"))
    fill_up(admission, 100, "nightly", tier="batch", wait_until=LATE + 600)
    answer = ask(admission, make_ticket("now", tier="interactive", wait_until=LATE + 0.5))
    assert isinstance(answer, Refusal) and answer.retry_after_s <= 4


def test_a_request_longer_than_the_whole_cache_may_have_an_empty_replica() -> None:
    admission = make_admission(capacity=1000)
    assert isinstance(ask(admission, make_ticket(output_tokens=5000)), Dispatch)
    assert admission.places["r0"].ledger.reserved_tokens == 1000
    admission.ended("t1", LATE)
    admission.check_invariants()


def test_a_prompt_longer_than_any_cache_is_refused_at_once() -> None:
    answer = ask(make_admission(capacity=1000), make_ticket(prompt_tokens=2000))
    assert isinstance(answer, Refusal) and answer.code == "too_long" and "1000 tokens" in answer.why


def test_without_a_replica_it_is_refused_at_once() -> None:
    answer = ask(make_admission(replicas=0), make_ticket())
    assert isinstance(answer, Refusal) and answer.code == "no_replica"


@pytest.mark.parametrize(
    ("tier", "code"),
    [(replace(STANDARD, queue_most=1), "queue_full"), (replace(STANDARD, queue_most_bytes=1500), "queue_bytes")],
)
def test_a_queue_is_bounded_by_count_and_bytes(tier: object, code: str) -> None:
    admission = make_admission(seats=1, policy=Policy(tiers={"standard": tier}))  # type: ignore[dict-item]
    fill_up(admission, 2)
    answer = ask(admission, make_ticket("late"))
    assert isinstance(answer, Refusal) and answer.code == code and answer.retry_after_s >= 1


@pytest.mark.parametrize("bounds", [{"queue_most": 20}, {"queue_most_bytes": 20_000}], ids=["count", "bytes"])
def test_one_tenant_s_full_queue_keeps_nobody_else_out(bounds: dict[str, int]) -> None:
    admission = make_admission(seats=1, policy=Policy(tiers={"standard": replace(STANDARD, **bounds)}))  # type: ignore[arg-type]
    fill_up(admission, 21)
    answers = admission.arrive(make_ticket("small", "small"), LATE)
    out, last = answers
    assert isinstance(out, Refusal) and (out.ticket.id, out.code) == ("greedy-20", "queue_full") and "less" in out.why
    assert isinstance(last, Queued) and last.ticket.id == "small"
    admission.check_invariants()
    answer = ask(admission, make_ticket("more", "greedy"))
    assert isinstance(answer, Refusal) and answer.code in ("queue_full", "queue_bytes"), "nobody makes room for oneself"


def test_in_a_queue_that_is_full_of_equals_nobody_makes_room() -> None:
    admission = make_admission(seats=1, policy=Policy(tiers={"standard": replace(STANDARD, queue_most=4)}))
    ask(admission, make_ticket("runs"))
    for number in range(4):
        ask(admission, make_ticket(f"t{number}", f"tenant-{number % 2}"))
    assert isinstance(ask(admission, make_ticket("t4", "tenant-0")), Refusal)
    ask(admission, make_ticket("t5", "tenant-2"))
    answer = ask(admission, make_ticket("t6", "tenant-2"))
    assert isinstance(answer, Refusal), "of 2, 1 and 1 none holds more than the newcomer's would"


def test_a_large_request_pushes_out_as_many_as_it_needs_and_no_more_than_is_fair() -> None:
    tier = replace(STANDARD, queue_most_bytes=20_000)
    admission = make_admission(seats=1, policy=Policy(tiers={"standard": tier}))
    fill_up(admission, 21)
    answers = admission.arrive(make_ticket("large", "small", body_bytes=5000), LATE)
    assert len(answers) == 6 and isinstance(answers[-1], Queued)
    answers = admission.arrive(make_ticket("larger", "small", body_bytes=8000), LATE)
    assert len(answers) == 1 and isinstance(answers[0], Refusal), "it would hold more than the other then"
    admission.check_invariants()


def test_a_request_that_can_not_make_it_is_refused_at_once() -> None:
    admission = make_admission(seats=1, policy=Policy(kept_seats=0))
    for number in range(20):  # one a second is served
        ask(admission, make_ticket(f"a{number}"), LATE + number)
        admission.ended(f"a{number}", LATE + number + 0.9)
    now = LATE + 20
    ask(admission, make_ticket("running"), now)
    for number in range(5):
        ask(admission, make_ticket(f"b{number}", wait_until=now + 30), now)
    answer = ask(admission, make_ticket("late", wait_until=now + 2), now)
    assert isinstance(answer, Refusal) and answer.code == "too_slow" and 3 <= answer.retry_after_s <= 10


def test_what_has_waited_too_long_is_told_and_never_dispatched() -> None:
    admission = make_admission(seats=1)
    fill_up(admission, 1)
    ask(admission, make_ticket("late", wait_until=LATE + 2))
    assert admission.next_due() == LATE + 2
    assert admission.tick(LATE + 1.9) == []
    (answer,) = admission.tick(LATE + 2)
    assert isinstance(answer, Refusal) and answer.code == "expired"
    assert admission.ended("greedy-0", LATE + 3) == []


def test_what_was_abandoned_is_never_dispatched() -> None:
    admission = make_admission(seats=1)
    fill_up(admission, 1)
    ask(admission, make_ticket("gone"))
    assert admission.abandoned("gone") and not admission.abandoned("gone")
    assert admission.ended("greedy-0", LATE) == []


# -- fairness ----------------------------------------------------------------------------------------------------------


def test_tenants_take_turns_by_tokens_and_not_by_requests() -> None:
    admission = make_admission(seats=1, capacity=None, policy=Policy(kept_seats=0))
    ask(admission, make_ticket("first", "eve"))
    for number in range(8):
        ask(admission, make_ticket(f"long-{number}", "ada", output_tokens=900))
        ask(admission, make_ticket(f"short-{number}", "bob", output_tokens=100))
    order, running = [], "first"
    for _ in range(8):
        (running,) = dispatched(admission.ended(running, LATE))
        order.append(running.partition("-")[0])
    assert order.count("long") == 2 and order.count("short") == 6


def test_who_was_away_has_no_credit_for_it() -> None:
    admission = make_admission(seats=1, capacity=None, policy=Policy(kept_seats=0))
    for number in range(50):
        ask(admission, make_ticket(f"x{number}", "ada"))
        admission.ended(f"x{number}", LATE)
    ask(admission, make_ticket("running", "eve"))
    for number in range(4):
        ask(admission, make_ticket(f"new-{number}", "bob"))
        ask(admission, make_ticket(f"old-{number}", "ada"))
    order, running = [], "running"
    for _ in range(6):
        (running,) = dispatched(admission.ended(running, LATE))
        order.append(running.partition("-")[0])
    assert 2 <= order.count("new") <= 4, order


def test_a_tenant_pays_for_what_it_used_and_not_for_what_it_asked() -> None:
    admission = make_admission(seats=1, capacity=None, policy=Policy(kept_seats=0))
    ask(admission, make_ticket("a", "ada", output_tokens=10_000))
    ask(admission, make_ticket("a2", "ada"))
    ask(admission, make_ticket("b", "bob", output_tokens=1000))
    ask(admission, make_ticket("b2", "bob"))
    assert dispatched(admission.ended("a", LATE, used_tokens=110)) == ["b"]
    assert dispatched(admission.ended("b", LATE, used_tokens=1100)) == ["a2"]


def test_the_last_seat_is_kept_for_who_has_nothing_running() -> None:
    admission = make_admission(seats=4)
    fill_up(admission, 10)
    assert len(admission.seated) == 3
    assert isinstance(ask(admission, make_ticket("small", "bob")), Dispatch)
    assert isinstance(ask(admission, make_ticket("small-2", "bob")), Queued)


def test_who_has_little_of_what_all_have_may_take_the_last_seat_too() -> None:
    admission = make_admission(seats=9)
    fill_up(admission, 20)
    assert len(admission.seated) == 8
    assert isinstance(ask(admission, make_ticket("small", "bob")), Dispatch)
    assert dispatched(admission.ended("greedy-0", LATE)) == [], "the seat is kept again"
    assert isinstance(ask(admission, make_ticket("small-2", "bob")), Dispatch), "two of nine are less than a third"


def test_of_several_who_ask_much_none_takes_the_last_seat() -> None:
    admission = make_admission(seats=9)
    for number in range(20):
        ask(admission, make_ticket(f"a-{number}", "a"))
        ask(admission, make_ticket(f"b-{number}", "b"))
    assert len(admission.seated) == 8
    assert isinstance(ask(admission, make_ticket("small", "bob")), Dispatch)


def test_how_little_is_counts_by_weight() -> None:
    policy = Policy(shares={"bob": TenantShare(weight=8.0)})
    admission = make_admission(seats=9, policy=policy)
    fill_up(admission, 20)
    for number in range(6):
        assert isinstance(ask(admission, make_ticket(f"bob-{number}", "bob")), Dispatch), "up to eight tenths"
        admission.ended(f"greedy-{number}", LATE)


def test_a_single_seat_is_kept_for_nobody() -> None:
    admission = make_admission(seats=1)
    assert isinstance(ask(admission, make_ticket("a")), Dispatch)
    ask(admission, make_ticket("b"))
    assert dispatched(admission.ended("a", LATE)) == ["b"]


# -- tiers and shares --------------------------------------------------------------------------------------------------


def test_tiers_share_by_weight_while_all_of_them_wait() -> None:
    admission = make_admission(seats=1, capacity=None, policy=Policy(kept_seats=0))
    ask(admission, make_ticket("running-0", "eve"))
    for number in range(40):
        for tier in ("interactive", "standard", "batch"):
            ask(admission, make_ticket(f"{tier}-{number}", tier, tier, wait_until=LATE + 900))
    order, running = [], "running-0"
    for _ in range(26):
        (running,) = dispatched(admission.ended(running, LATE))
        order.append(running.partition("-")[0])
    counts = [order.count(tier.name) for tier in (INTERACTIVE, STANDARD, BATCH)]
    assert counts[0] >= 14 and counts[1] >= 6 and 1 <= counts[2] <= 4, counts


def test_a_share_of_the_cache_is_kept_from_batch_and_others_pass_it() -> None:
    admission = make_admission(seats=16, capacity=1000)
    for number in range(6):
        ask(admission, make_ticket(f"batch-{number}", f"b{number}", "batch", wait_until=LATE + 900))
    assert len(admission.seated) == 4, "4 x 200 of 1000 tokens are 80 %"
    assert isinstance(ask(admission, make_ticket("now", "ada", "interactive")), Dispatch)


def test_a_guarantee_that_was_lent_comes_back_with_the_next_seats() -> None:
    admission = make_admission(seats=4, capacity=None, policy=make_policy(ada=TenantShare(guaranteed=0.5)))
    fill_up(admission, 8)
    assert len(admission.seated) == 4, "an idle guarantee is lent"
    for number in range(3):
        ask(admission, make_ticket(f"ada-{number}"))
    served = [dispatched(admission.ended(f"greedy-{number}", LATE)) for number in range(3)]
    assert served[:2] == [["ada-0"], ["ada-1"]] and served[2] != ["ada-2"]


def test_a_tenant_never_has_more_than_its_most() -> None:
    admission = make_admission(seats=4, policy=make_policy(greedy=TenantShare(most=0.5)))
    fill_up(admission, 8)
    assert len(admission.seated) == 2
    assert isinstance(ask(admission, make_ticket()), Dispatch)


def test_more_guaranteed_than_there_is_is_shown() -> None:
    assert make_policy(a=TenantShare(guaranteed=0.7), b=TenantShare(guaranteed=0.5)).oversold() == pytest.approx(1.2)


# -- replicas ----------------------------------------------------------------------------------------------------------


def test_a_draining_replica_gets_nothing_new_and_is_forgotten_when_it_is_empty() -> None:
    admission = make_admission(replicas=2, seats=2)
    ask(admission, make_ticket("a"))
    ask(admission, make_ticket("b", "bob"))
    admission.set_replicas({"r1": 2}, {"r1": 10_000}, LATE)
    assert admission.places["r0"].leaving
    ask(admission, make_ticket("c", "eve"))
    assert admission.seated["c"].replica_id == "r1"
    admission.ended("a", LATE)
    assert "r0" not in admission.places
    admission.check_invariants()


def test_a_replica_that_comes_back_while_it_drains_serves_on() -> None:
    admission = make_admission(replicas=2, seats=2)
    ask(admission, make_ticket("a"))
    admission.set_replicas({"r1": 2}, {}, LATE)
    admission.set_replicas({"r0": 2, "r1": 2}, {}, LATE)
    admission.ended("a", LATE)
    assert admission.places["r0"].free_seats(LATE) == 2


def test_the_first_replicas_start_at_full_speed_all_of_them() -> None:
    admission = make_admission(seats=10, replicas=2)
    assert [place.free_seats(0.0) for place in admission.places.values()] == [10, 10]


def test_a_new_replica_beside_others_starts_slowly() -> None:
    admission = make_admission(seats=10)
    admission.set_replicas({"r0": 10, "r1": 10}, {}, LATE)
    place = admission.places["r1"]
    assert [place.free_seats(LATE + age) for age in (0, 5, 10)] == [1, 5, 10]


def test_a_replica_that_rests_gets_nothing_until_then() -> None:
    admission = make_admission(replicas=1)
    admission.rest("r0", LATE + 5)
    assert isinstance(ask(admission, make_ticket("a")), Queued)
    assert dispatched(admission.tick(LATE + 5)) == ["a"]


def test_a_stream_that_grows_is_counted_and_never_cut() -> None:
    admission = make_admission(capacity=300)
    ask(admission, make_ticket("a"))
    assert admission.grew("a", 290) == 0
    assert admission.grew("a", 350) == 50
    admission.check_invariants()
    admission.ended("a", LATE)
    assert admission.places["r0"].ledger.reserved_tokens == 0
    assert admission.grew("a", 10) == 0


def test_what_is_guaranteed_is_called_back_from_a_tier_that_goes_first() -> None:
    """The lender waits in the tier that gets least; the borrower asks in the one that gets most."""
    policy = make_policy(lender=TenantShare(guaranteed=0.5))
    admission = make_admission(seats=4, policy=policy)
    fill_up(admission, 8, "borrower", tier="interactive")
    for number in range(3):
        ask(admission, make_ticket(f"own-{number}", "lender", tier="batch"))
    found = [dispatched(admission.ended(f"borrower-{number}", LATE + number)) for number in range(3)]
    assert found == [["own-0"], ["own-1"], ["borrower-4"]]


def test_what_is_guaranteed_counts_in_kv_tokens_as_well() -> None:
    policy = make_policy(lender=TenantShare(guaranteed=0.25))
    admission = make_admission(seats=8, capacity=1000, policy=policy)
    fill_up(admission, 5, "borrower")
    ask(admission, make_ticket("own-0", "lender", output_tokens=200))
    assert admission.ended("borrower-0", LATE) == [], "300 tokens are owed, and waited for"
    assert admission.tenants.is_below_guarantee("lender")
    assert dispatched(admission.ended("borrower-1", LATE)) == ["own-0"]
    assert not admission.tenants.is_below_guarantee("lender"), "it has a seat of two, and more than 250 tokens"


def test_changed_rules_hold_at_once_and_nobody_who_waits_is_lost() -> None:
    admission = make_admission(seats=4, policy=make_policy(greedy=TenantShare(most=0.5)))
    fill_up(admission, 4)
    assert (len(admission.seated), len(admission.waiting)) == (2, 2)
    answers = admission.set_policy(make_policy(greedy=TenantShare(most=0.75)), LATE)
    assert dispatched(answers) == ["greedy-2"]
    admission.check_invariants()
    only_batch = Policy(tiers={"batch": BATCH}, kept_seats=0)
    assert dispatched(admission.set_policy(only_batch, LATE)) == ["greedy-3"]
    admission.check_invariants()
    assert "standard" in admission.policy.tiers, "its requests are still there"
    for number in range(4):
        admission.ended(f"greedy-{number}", LATE)
    admission.set_policy(only_batch, LATE)
    assert list(admission.policy.tiers) == list(admission.queue.tiers) == ["batch"]
    admission.check_invariants()


def test_who_has_waited_too_long_gets_no_seat_that_becomes_free_later() -> None:
    admission = make_admission(seats=1)
    ask(admission, make_ticket("runs"))
    assert isinstance(ask(admission, make_ticket("waits", "eve")), Queued)
    (answer,) = admission.ended("runs", LATE + 31.0)
    assert isinstance(answer, Refusal) and answer.code == "expired"
    admission.check_invariants()
    late = admission.arrive(make_ticket("late"), LATE + 50.0)[-1]
    assert isinstance(late, Refusal) and late.code == "expired"
    assert not admission.seated and not admission.waiting


def test_a_request_longer_than_its_tiers_share_goes_when_the_tier_holds_nothing() -> None:
    admission = make_admission(policy=make_policy())
    long = make_ticket("long", tier="batch", output_tokens=9000)
    short = make_ticket("short", "eve", tier="batch", output_tokens=20)
    assert isinstance(ask(admission, short), Dispatch)
    assert isinstance(ask(admission, long), Queued)
    assert dispatched(admission.ended("short", LATE + 1.0)) == ["long"]
    admission.ended("long", LATE + 2.0)
    admission.check_invariants()
    assert admission.places["r0"].ledger.reserved_tokens == 0


def test_what_is_longer_than_its_tiers_share_goes_only_when_no_other_tier_waits() -> None:
    admission = make_admission(policy=make_policy())
    ask(admission, make_ticket("runs", output_tokens=8000))
    long = make_ticket("long", "eve", tier="batch", output_tokens=8500)
    ask(admission, make_ticket("waits", "bob", output_tokens=3000))
    ask(admission, long)
    admission.abandoned("waits")
    ask(admission, make_ticket("later", "bob", output_tokens=9700))
    short = make_ticket("short", "cid", tier="batch", output_tokens=20)
    assert isinstance(ask(admission, short), Dispatch), "it is not held up by what is not let in"
    admission.ended("short", LATE)
    assert dispatched(admission.ended("runs", LATE + 1.0)) == ["later"], "the share is kept for it"
    assert dispatched(admission.ended("later", LATE + 2.0)) == ["long"]
    admission.check_invariants()


def test_one_that_lacks_the_cache_and_not_its_tiers_share_is_waited_for_by_lighter_tiers() -> None:
    tiers = {tier.name: tier for tier in (STANDARD, BATCH, replace(BATCH, name="idle", weight=0.5))}
    admission = make_admission(policy=Policy(tiers=tiers, kept_seats=0))
    for number in range(3):
        ask(admission, make_ticket(f"runs-{number}", output_tokens=1900))
    ask(admission, make_ticket("long", "eve", tier="batch", output_tokens=7000))
    assert isinstance(ask(admission, make_ticket("short", "bob", "idle", output_tokens=20)), Queued)
    assert dispatched(admission.ended("runs-0", LATE + 1.0)) == [], "7,100 tokens are waited for"
    assert dispatched(admission.ended("runs-1", LATE + 2.0)) == ["long", "short"]
    admission.check_invariants()


def test_a_stream_that_outgrows_its_tiers_share_is_seen() -> None:
    admission = make_admission(policy=make_policy())
    stream, share = make_ticket("stream", tier="batch"), BATCH.kv_share
    ask(admission, stream)
    admission.grew("stream", 8000)
    assert not admission.serving.is_beyond_share(stream, share)
    admission.grew("stream", 8100)
    assert admission.serving.is_beyond_share(stream, share) and not admission.serving.is_beyond_share(stream, 1.0)
    admission.ended("stream", LATE)
    admission.check_invariants()


def test_one_that_a_replica_failed_at_avoids_it_waits_anew_and_holds_up_nobody() -> None:
    admission = make_admission(seats=1, replicas=2, policy=Policy(kept_seats=0))
    full, failed = make_ticket("full"), make_ticket("failed")
    assert ask(admission, full) == Dispatch(full, "r0")
    assert ask(admission, failed) == Dispatch(failed, "r1")
    admission.ended("failed", LATE + 40)
    failed.go_elsewhere(LATE + 40)
    assert (failed.avoid, failed.wait_until) == ("r1", LATE + 70)
    assert isinstance(ask(admission, failed, LATE + 40), Queued)
    next_one = make_ticket("next", arrived_at=LATE + 41, wait_until=LATE + 71)
    assert ask(admission, next_one, LATE + 41) == Dispatch(next_one, "r1")
    assert admission.ended("next", LATE + 42) == [], "where it failed there is room, and it does not go there"
    assert admission.ended("full", LATE + 43) == [Dispatch(failed, "r0")]
    admission.ended("failed", LATE + 44)
    admission.check_invariants()
    admission.rest("r1", LATE + 100)
    assert not admission.serving.has_other("r0", LATE + 44)


def test_a_tier_in_which_nobody_may_wait_refuses_at_once() -> None:
    tiers = {"standard": replace(STANDARD, queue_most=0), "batch": BATCH}
    admission = make_admission(seats=1, policy=Policy(tiers=tiers, kept_seats=0))
    ask(admission, make_ticket("runs"))
    answer = ask(admission, make_ticket("waits", "eve"))
    assert isinstance(answer, Refusal) and answer.code == "queue_full"
