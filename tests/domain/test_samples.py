from __future__ import annotations

import math
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.samples import (
    HISTOGRAMS,
    PART_STALE_AFTER_S,
    SAMPLE_FIELDS,
    SUMMED,
    Merge,
    SamplePart,
    fresh,
    is_subject,
    merge_parts,
    merge_values,
)

PLAIN_FIELDS = [name for name in SAMPLE_FIELDS if name[-4:-2] != "_p"]
values = st.dictionaries(
    st.sampled_from(PLAIN_FIELDS), st.none() | st.integers(0, 10**6).map(float), max_size=len(PLAIN_FIELDS)
)
counts = st.dictionaries(st.integers(0, 300), st.integers(1, 1000), max_size=8)
parts = st.builds(
    SamplePart,
    subject=st.just("deployment:chat"),
    source=st.sampled_from(["collector:n1", "collector:n2", "gateway:g1"]),
    at=st.just(0.0),
    values=values,
    histograms=st.dictionaries(st.sampled_from(HISTOGRAMS), counts, max_size=3),
    weight=st.integers(1, 8).map(float),
    problems=st.lists(st.sampled_from(["no_answer", "missing_series:running"]), max_size=2).map(tuple),
)


def seen(merge: Merge) -> tuple[object, ...]:
    rounded = {name: round(value, 6) for name, value in merge.values().items()}
    return rounded, {name: dict(found) for name, found in merge.histograms.items()}, merge.problems


@given(st.lists(parts, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_parts_does_not_matter(made: list[SamplePart], random: Random) -> None:
    shuffled = list(made)
    random.shuffle(shuffled)
    assert seen(merge_parts(made)) == seen(merge_parts(shuffled))


@given(st.lists(parts, max_size=3), st.lists(parts, max_size=3), st.lists(parts, max_size=3))
def test_merges_may_be_merged_in_any_grouping(
    first: list[SamplePart], second: list[SamplePart], third: list[SamplePart]
) -> None:
    left = merge_parts(first)
    left.combine(merge_parts(second))
    left.combine(merge_parts(third))
    right = merge_parts(second)
    right.combine(merge_parts(third))
    other = merge_parts(first)
    other.combine(right)
    assert seen(left) == seen(other) == seen(merge_parts([*first, *second, *third]))


@given(st.lists(parts, max_size=6))
def test_what_no_part_has_is_absent_and_never_zero(made: list[SamplePart]) -> None:
    have = {name for part in made for name, value in part.values.items() if value is not None}
    assert set(merge_parts(made).values()) == have
    assert {n for n, v in merge_values([part.values for part in made]).items() if v is not None} == have


@given(st.lists(parts, max_size=6))
def test_sums_are_at_least_and_means_at_most_their_largest_part(made: list[SamplePart]) -> None:
    for name, value in merge_parts(made).values().items():
        largest = max(found for part in made if (found := part.values.get(name)) is not None)
        if name not in SUMMED:
            assert value <= largest * (1 + 1e-9)


def make_part(source: str, **given_values: float | None) -> SamplePart:
    return SamplePart("deployment:chat", source, 100.0, given_values)


def test_tokens_are_those_that_the_gateway_counted_and_the_engines_only_without_one() -> None:
    engines = [make_part("collector:n1", tokens_per_s=100), make_part("collector:n2", tokens_per_s=50)]
    gateway = make_part("gateway:g1", tokens_per_s=149, requests_per_s=2)
    assert merge_parts([*engines, gateway]).values() == {"tokens_per_s": 149, "requests_per_s": 2}
    assert merge_parts(engines).values() == {"tokens_per_s": 150}


def test_an_idle_replica_shows_no_tokens_although_its_engine_generates_to_show_that_it_lives() -> None:
    parts = [make_part("collector:n1", tokens_per_s=2), make_part("gateway:g1", tokens_per_s=0)]
    assert merge_parts(parts).values() == {"tokens_per_s": 0}


def test_a_mean_is_weighted_by_the_replicas_behind_it() -> None:
    three = SamplePart("deployment:chat", "collector:n1", 0, {"kv_usage": 0.2}, weight=3)
    one = SamplePart("deployment:chat", "collector:n2", 0, {"kv_usage": 0.6}, weight=1)
    assert math.isclose(merge_parts([three, one]).values()["kv_usage"], 0.3)


def test_nan_is_no_value() -> None:
    assert merge_values([{"running": math.nan}])["running"] is None


def test_a_part_is_fresh_for_some_seconds() -> None:
    part = make_part("collector:n1", running=1)
    assert fresh([part], 100.0 + PART_STALE_AFTER_S) == [part]
    assert fresh([part], 100.1 + PART_STALE_AFTER_S) == []


def test_subjects_have_a_kind_and_a_plain_name() -> None:
    assert all(map(is_subject, ["deployment:chat", "replica:7f3a", "node:gpu-01.rack_2"]))
    assert not any(map(is_subject, ["chat", "tenant:x", "node:", "node:a b", "node:../x", "node:" + "x" * 90, "log:r"]))
