"""Measured points of a set-up, and what they teach of it and of other splits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.parallelism import copy_ledger, layout, measured, ranking, speed, trials
from controlplane.domain.parallelism.measured import MeasuredPoint
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.speed import Copy
from controlplane.domain.parallelism.split import Split
from tests.domain.parallelism.questions import make_large, make_question

SPLIT = Split(4)


def make_copy(question: Question) -> Copy:
    return Copy(question, SPLIT, copy_ledger.of(question, SPLIT), layout.lie(SPLIT, question.hardware))


def make_points(truth: Copy, *concurrencies: float) -> list[MeasuredPoint]:
    points = [truth.point(one) for one in concurrencies]
    return [MeasuredPoint(one.concurrency, one.tpot_ms, one.ttft_ms) for one in points]


def make_truth(question: Question) -> Copy:
    """A machine that reads memory more slowly and launches later than its class says."""
    return make_copy(replace(question, factors={"memory": 1.3, "kv": 1.3, "launch": 1.3, "host": 1.3, "compute": 1.3}))


def test_one_point_takes_most_of_the_error_away_at_other_loads() -> None:
    question = make_question(make_large(), input_tokens=200)
    truth, plain = make_truth(question), make_copy(question)
    calibrated = make_copy(measured.teach(plain, make_points(truth, 8)).applied(question))

    def error(copy: Copy) -> float:
        others = [1, 2, 16, 32]
        return sum(abs(copy.point(one).tpot_ms / truth.point(one).tpot_ms - 1) for one in others) / len(others)

    assert error(calibrated) < error(plain) / 2


def test_more_points_bring_the_prediction_nearer_to_them() -> None:
    question = make_question(make_large())
    taught = measured.teach(make_copy(question), make_points(make_truth(question), 1, 8, 64))
    assert taught.error_after < taught.error_before / 4
    assert taught.tpot_factor == pytest.approx(1.3, rel=0.1)


def test_what_was_predicted_for_a_point_is_told_before_and_after() -> None:
    question = make_question(make_large())
    plain = make_copy(question)
    taught = measured.teach(plain, [MeasuredPoint(8, 2 * plain.point(8).tpot_ms, 2 * plain.point(8).ttft_ms)])
    (row,) = taught.rows
    assert row.tpot_before_ms == pytest.approx(plain.point(8).tpot_ms)
    calibrated = make_copy(taught.applied(question)).point(8)
    assert (row.tpot_after_ms, row.ttft_after_ms) == pytest.approx((calibrated.tpot_ms, calibrated.ttft_ms))
    assert row.tpot_before_ms < row.tpot_after_ms and row.ttft_before_ms < row.ttft_after_ms
    assert taught.sentence.startswith("Calibrated by 1 point: time per token x 1.") and taught.parts


def test_a_point_of_other_lengths_is_compared_at_its_own() -> None:
    question, longer = make_question(make_large()), make_question(make_large(), input_tokens=6000, output_tokens=1000)
    (there,) = make_points(make_copy(longer), 8)
    own = replace(there, input_tokens=6000, output_tokens=1000)
    taught = measured.teach(make_copy(question), [own])
    assert taught.tpot_factor == pytest.approx(1, abs=0.02)
    assert measured.teach(make_copy(question), [there]).tpot_factor > 1.1


def test_a_point_as_predicted_changes_nothing() -> None:
    question = make_question(make_large())
    plain = make_copy(question)
    taught = measured.teach(plain, make_points(plain, 4, 32))
    assert taught.parts == () and taught.first_token_factor == pytest.approx(1, abs=0.01)


def test_a_later_first_token_moves_the_knee_and_the_whole_request() -> None:
    question = make_question(make_large())
    plain, later = make_copy(question), make_copy(replace(question, first_token_factor=3.0))
    assert later.point(8).ttft_ms == pytest.approx(3 * plain.point(8).ttft_ms)
    gone_by = (later.point(8).latency_p95_s - plain.point(8).latency_p95_s) * 1000
    assert gone_by == pytest.approx(2 * plain.point(8).ttft_ms)
    assert speed.of(later, question.target).knee.concurrency < speed.of(plain, question.target).knee.concurrency


def test_calibrated_trials_keep_what_fits_and_work_out_times_anew() -> None:
    question = make_question(make_large())
    plain = trials.Trials(question)
    before = ranking.rank(question, plain)
    slower = replace(question, factors={"memory": 1.5})
    after = ranking.rank(slower, plain.calibrated(slower))
    assert after == ranking.rank(slower)
    assert after.candidates[0].at_load.requests_s < before.candidates[0].at_load.requests_s
