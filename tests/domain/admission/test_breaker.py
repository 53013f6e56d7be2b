from __future__ import annotations

import pytest

from controlplane.domain.admission.breaker import (
    FAILURES_IN_A_ROW,
    PLAIN_STALL_S,
    REST_MOST_S,
    STREAM_STALL_S,
    Breaker,
    Progress,
    goes_elsewhere,
    is_failure,
    is_success,
)


def test_some_failures_in_a_row_bring_rest_and_each_further_one_more_of_it() -> None:
    breaker = Breaker()
    rests = [breaker.failed("r0") for _ in range(FAILURES_IN_A_ROW + 6)]
    assert rests[: FAILURES_IN_A_ROW - 1] == [None] * (FAILURES_IN_A_ROW - 1)
    assert rests[FAILURES_IN_A_ROW - 1 :] == [5.0, 10.0, 20.0, 40.0, REST_MOST_S, REST_MOST_S, REST_MOST_S]


def test_one_success_forgets_the_failures() -> None:
    breaker = Breaker()
    for _ in range(20):
        for _ in range(FAILURES_IN_A_ROW - 1):
            assert breaker.failed("r0") is None
        breaker.succeeded("r0")


@pytest.mark.parametrize(
    ("status", "fails"),
    [(one, one in (500, 502, 504, 520)) for one in (200, 400, 404, 429, 500, 501, 502, 503, 504, 520)],
)
def test_only_the_replicas_own_faults_count(status: int, fails: bool) -> None:
    assert is_failure(status) is fails
    assert is_success(status) is (status == 200), "what is no fault of its own forgets none either"


@pytest.mark.parametrize(
    ("status", "elsewhere"),
    [(one, one in (429, 500, 502, 503)) for one in (200, 400, 404, 422, 429, 500, 501, 502, 503, 504)],
)
def test_what_another_replica_may_do_better_goes_there(status: int, elsewhere: bool) -> None:
    assert goes_elsewhere(status) is elsewhere


def test_streams_without_a_token_stall_and_one_token_ends_that() -> None:
    progress = Progress(0.0)
    assert not progress.look(streams=2, plain=0, moved=False, now=STREAM_STALL_S - 1)
    assert progress.look(streams=2, plain=0, moved=False, now=STREAM_STALL_S)
    assert not progress.look(streams=2, plain=0, moved=True, now=STREAM_STALL_S + 1)


def test_plain_requests_show_nothing_for_long_and_an_idle_replica_never_stalls() -> None:
    progress = Progress(0.0)
    assert not progress.look(streams=0, plain=3, moved=False, now=PLAIN_STALL_S - 1)
    assert progress.look(streams=0, plain=3, moved=False, now=PLAIN_STALL_S)
    assert not progress.look(streams=0, plain=0, moved=False, now=10 * PLAIN_STALL_S)


def test_a_long_prompt_may_take_longer_before_its_first_token() -> None:
    progress = Progress(0.0)
    assert not progress.look(streams=2, plain=0, moved=False, now=STREAM_STALL_S + 9, longest_prompt_tokens=5000)
    assert progress.look(streams=2, plain=0, moved=False, now=STREAM_STALL_S + 10, longest_prompt_tokens=5000)


def test_an_engine_whose_own_figures_move_gets_on_and_one_whose_figures_stand_still_does_not() -> None:
    progress = Progress(0.0)
    for now in range(1, 400):
        assert not progress.look(streams=1, plain=0, moved=False, now=float(now), kv_usage=now / 400)
        assert not progress.look(streams=0, plain=1, moved=False, now=float(now), kv_usage=0.5, tokens_per_s=9.0)
    progress.look(streams=1, plain=0, moved=False, now=400.0, kv_usage=0.5, tokens_per_s=0.0)
    stalls = [progress.look(streams=1, plain=0, moved=False, now=400.0 + one, kv_usage=0.5) for one in (5, 18, 19)]
    assert stalls == [False, False, True]
    assert progress.look(streams=1, plain=0, moved=False, now=430.0), "nothing is known of the engine any more"
