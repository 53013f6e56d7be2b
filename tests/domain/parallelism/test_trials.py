"""What is tried once serves all that is asked about the same requests."""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.capacity import sizing
from controlplane.domain.parallelism import ranking, trials
from controlplane.domain.parallelism.question import Load
from tests.domain.capacity.plans import make_demand
from tests.domain.parallelism.questions import make_large, make_mixture, make_question


def test_shared_trials_change_no_answer() -> None:
    for model in (make_large(), make_mixture()):
        question = make_question(model)
        demand = make_demand(40, 15)
        shared = trials.Trials(question)
        assert ranking.rank(question, shared) == ranking.rank(question)
        assert sizing.size(question, demand, held=shared) == sizing.size(question, demand)
        assert sizing.carry(question, held=shared) == sizing.carry(question)


def test_other_rates_are_served_and_other_lengths_are_not() -> None:
    question = make_question(make_large())
    shared = trials.Trials(question)
    lengths = question.load.lengths
    assert trials.of(replace(question, load=Load(lengths, 3.0)), shared) is shared
    longer = replace(lengths, output_tokens=lengths.output_tokens * 2)
    assert trials.of(replace(question, load=Load(longer)), shared) is not shared
    assert trials.of(replace(question, purpose="offline"), shared) is not shared


def test_what_is_done_to_the_lists_stays_with_the_caller() -> None:
    shared = trials.Trials(make_question(make_large()))
    found, rejected = shared.fitting()
    counts = len(found), len(rejected)
    found.clear()
    rejected.clear()
    again = shared.fitting()
    assert (len(again[0]), len(again[1])) == counts
