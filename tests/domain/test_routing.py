from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.routing import (
    SNAPSHOT_MAX_AGE_S,
    SNAPSHOT_SCHEMA,
    CoolDowns,
    RoutedReplica,
    RoutingSnapshot,
    choose_replica,
    is_accepted_schema,
    is_newer,
    is_too_old,
)


def make_replicas(count: int) -> tuple[RoutedReplica, ...]:
    return tuple(RoutedReplica(f"r{number}", "http://x", "k", "m") for number in range(count))


def make_snapshot(version: int, published_at: float) -> RoutingSnapshot:
    return RoutingSnapshot(SNAPSHOT_SCHEMA, version, published_at)


def chosen(*args: object, **more: object) -> str | None:
    replica = choose_replica(*args, **more)  # type: ignore[arg-type]
    return None if replica is None else replica.id


def test_the_least_loaded_replica_is_chosen() -> None:
    assert chosen(make_replicas(3), {"r0": 2, "r1": 1, "r2": 3}) == "r1"


def test_equals_take_turns() -> None:
    assert [chosen(make_replicas(3), {}, turn=turn) for turn in range(4)] == ["r0", "r1", "r2", "r0"]


def test_excluded_replicas_are_never_chosen() -> None:
    assert chosen(make_replicas(2), {"r1": 9}, {"r0"}) == "r1"
    assert chosen(make_replicas(2), {}, {"r0", "r1"}) is None
    assert chosen((), {}) is None


@given(st.integers(1, 8), st.lists(st.integers(0, 5), min_size=8, max_size=8), st.integers(0, 1000))
def test_no_other_replica_has_less_to_do_than_the_chosen_one(count: int, loads: list[int], turn: int) -> None:
    in_flight = {f"r{number}": load for number, load in enumerate(loads)}
    replica = choose_replica(make_replicas(count), in_flight, (), turn)
    assert replica is not None
    assert in_flight[replica.id] == min(loads[:count])


def test_requests_one_after_another_spread_evenly() -> None:
    in_flight: dict[str, int] = {}
    for turn in range(90):
        replica = choose_replica(make_replicas(3), in_flight, (), turn)
        assert replica is not None
        in_flight[replica.id] = in_flight.get(replica.id, 0) + 1
    assert in_flight == {"r0": 30, "r1": 30, "r2": 30}


def test_this_schema_and_the_one_before_are_accepted() -> None:
    accepted = [schema for schema in range(SNAPSHOT_SCHEMA + 3) if is_accepted_schema(schema)]
    assert accepted == [SNAPSHOT_SCHEMA - 1, SNAPSHOT_SCHEMA]


def test_versions_grow_and_the_same_version_may_be_published_again() -> None:
    current = make_snapshot(5, 100)
    assert is_newer(current, None)
    assert is_newer(make_snapshot(6, 90), current)
    assert is_newer(make_snapshot(5, 105), current)
    assert not is_newer(make_snapshot(5, 100), current)
    assert not is_newer(make_snapshot(4, 110), current)


def test_a_lower_version_is_taken_when_ours_has_long_not_been_published_again() -> None:
    assert is_newer(make_snapshot(1, 161), make_snapshot(5, 100))


def test_a_snapshot_ends_after_a_day() -> None:
    assert not is_too_old(make_snapshot(1, 0), SNAPSHOT_MAX_AGE_S)
    assert is_too_old(make_snapshot(1, 0), SNAPSHOT_MAX_AGE_S + 1)


def test_a_refusing_replica_is_left_alone_twice_as_long_each_time_up_to_half_a_minute() -> None:
    cool_downs, now, waits = CoolDowns(), 0.0, []
    for _ in range(7):
        waits.append(cool_downs.refused("r0", now))
        now += waits[-1]
        assert cool_downs.cooling(now - 0.01) == {"r0"}
        assert not cool_downs.cooling(now)
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_refusals_at_the_same_time_count_once() -> None:
    cool_downs = CoolDowns()
    assert [cool_downs.refused("r0", 0.0), cool_downs.refused("r0", 0.4)] == [1.0, 0.6]
    assert cool_downs.refused("r0", 1.0) == 2.0


def test_a_replica_that_accepts_again_begins_anew() -> None:
    cool_downs = CoolDowns()
    cool_downs.refused("r0", 0.0)
    cool_downs.accepted("r0")
    assert not cool_downs.cooling(0.5)
    assert cool_downs.refused("r0", 5.0) == 1.0


def test_replicas_that_are_gone_are_forgotten() -> None:
    cool_downs = CoolDowns()
    cool_downs.refused("r0", 0.0)
    cool_downs.refused("r1", 0.0)
    cool_downs.keep_only({"r1"})
    assert cool_downs.cooling(0.5) == {"r1"}
