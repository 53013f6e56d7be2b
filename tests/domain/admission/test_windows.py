"""A model of which some layers keep the last tokens only: a request holds less than its length."""

from __future__ import annotations

from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.queueing import Admission
from controlplane.domain.admission.ticket import Dispatch, Queued, Refusal
from controlplane.domain.sequence_kv import SequenceKv
from tests.domain.admission.making import LATE, ask, dispatched, make_ticket


def make_hybrid(seats: int = 8, capacity: int = 1000) -> Admission:
    """Of each sequence tokens beyond 100 count a quarter."""
    admission = Admission(Policy(kept_seats=0))
    admission.set_replicas({"r0": seats}, {"r0": capacity}, 0.0, sequence_kv=SequenceKv(100, 0.25, 10))
    return admission


def test_where_windows_forget_tokens_long_requests_hold_less_than_their_length() -> None:
    admission = make_hybrid()
    assert isinstance(ask(admission, make_ticket("long", prompt_tokens=2000, output_tokens=500)), Dispatch)
    assert admission.seated["long"].held_tokens == 10 + 100 + 600
    assert isinstance(ask(admission, make_ticket("short", prompt_tokens=50, output_tokens=50)), Dispatch)
    assert admission.places["r0"].ledger.reserved_tokens == 710 + 110
    assert isinstance(ask(admission, make_ticket("next", prompt_tokens=500, output_tokens=0)), Queued)
    assert dispatched(admission.ended("long", LATE)) == ["next"]
    for name in ("short", "next"):
        admission.ended(name, LATE)
    assert admission.places["r0"].ledger.reserved_tokens == 0 and not admission.seated
    admission.check_invariants()


def test_a_stream_in_a_window_grows_by_what_other_layers_keep() -> None:
    admission = make_hybrid()
    ask(admission, make_ticket("a", prompt_tokens=300, output_tokens=100))
    assert admission.grew("a", 800) == 0
    assert (admission.seated["a"].held_tokens, admission.seated["a"].covered_tokens) == (10 + 100 + 175, 800)
    admission.check_invariants()
    assert admission.grew("a", 4400) > 0, "more than the whole cache"
    admission.ended("a", LATE)
    assert admission.places["r0"].ledger.reserved_tokens == 0 and not admission.seated
    admission.check_invariants()


def test_only_what_is_too_long_for_the_layers_that_keep_all_is_refused() -> None:
    admission = make_hybrid()
    assert isinstance(ask(admission, make_ticket("long", prompt_tokens=3000, output_tokens=100)), Dispatch)
    answer = ask(admission, make_ticket("longer", prompt_tokens=3700, output_tokens=100))
    assert isinstance(answer, Refusal) and answer.code == "too_long"
    assert "a KV cache of 3660 tokens" in answer.why
