from __future__ import annotations

from dataclasses import replace

from controlplane.domain.desired import EngineSpec, NodeDesired, ReplicaDesired
from controlplane.domain.lifecycle import State
from controlplane.domain.lifecycle_events import GoalSet
from controlplane.domain.node_plan import CLOSING, DROPPED, Add, Forget, Occupant, Steer, is_newer, may_start, plan


def make_wish(replica_id: str = "a") -> ReplicaDesired:
    return ReplicaDesired(replica_id, "1", "d", 1, "h", "run", EngineSpec("vllm", "/m", "m"), (), "key", cause="ev")


def make_document(*wishes: ReplicaDesired, version: int = 5, published_at: float = 100.0) -> NodeDesired:
    return NodeDesired(1, "n", version, published_at, wishes)


def make_occupant(replica_id: str, state: State = "placed", *cards: str, since: float = 0.0) -> Occupant:
    return Occupant(replica_id, state, since, state not in ("placed", "stopped"), "none", cards or ("gpu-0",))


def test_without_a_document_nothing_is_touched() -> None:
    assert plan(None, {"a": "ready", "b": "stopped"}) == []


def test_an_unknown_replica_is_added() -> None:
    assert plan(make_document(make_wish()), {}) == [Add(make_wish())]


def test_a_known_replica_hears_its_goal_again_and_again() -> None:
    assert plan(make_document(make_wish()), {"a": "ready"}) == [
        Steer("a", make_wish(), GoalSet("run", 60.0, cause="ev"))
    ]


def test_what_is_no_longer_listed_is_stopped_and_then_forgotten() -> None:
    assert plan(make_document(), {"a": "ready"}) == [Steer("a", None, GoalSet("stop", reason=DROPPED))]
    assert plan(make_document(), {"a": "stopped"}) == [Forget("a")]


def test_a_stopped_replica_that_is_still_listed_is_kept() -> None:
    assert not any(isinstance(step, Forget) for step in plan(make_document(make_wish()), {"a": "stopped"}))


def test_while_closing_everything_stops_and_nothing_is_added() -> None:
    steps = plan(make_document(make_wish("a"), make_wish("b")), {"a": "ready", "c": "stopped"}, closing_drain_s=10)
    assert steps == [Steer("a", None, GoalSet("stop", 10, CLOSING))]


def test_closing_needs_no_document() -> None:
    assert plan(None, {"a": "failed"}, 0.0) == [Steer("a", None, GoalSet("stop", 0.0, CLOSING))]


def test_a_document_is_replaced_by_a_newer_one_only() -> None:
    current = make_document()
    assert is_newer(current, None)
    assert is_newer(replace(current, version=6, published_at=50.0), current), "a controller with a slow clock"
    assert is_newer(replace(current, version=1, published_at=200.0), current), "a restored database"
    assert not is_newer(replace(current, version=4, published_at=99.0), current), "a Valkey that lost its last second"
    assert not is_newer(current, current)


def test_engines_on_one_card_start_in_the_order_in_which_they_waited() -> None:
    assert may_start([make_occupant("a", since=2.0), make_occupant("b", since=1.0)]) == {"b"}


def test_engines_on_different_cards_start_together() -> None:
    assert may_start([make_occupant("a"), make_occupant("b", "placed", "gpu-1")]) == {"a", "b"}


def test_an_engine_over_two_cards_waits_for_both() -> None:
    both = make_occupant("b", "placed", "gpu-0", "gpu-1")
    assert may_start([make_occupant("a", "warming", "gpu-1"), both]) == frozenset()


def test_a_ready_engine_on_the_card_is_not_in_the_way() -> None:
    assert may_start([make_occupant("a", "ready"), make_occupant("b")]) == {"b"}


def test_an_engine_that_is_being_ended_is_in_the_way_until_it_is_gone() -> None:
    ending = replace(make_occupant("a", "draining"), exit_phase="kill")
    assert may_start([ending, make_occupant("b")]) == frozenset()
    assert may_start([replace(ending, has_process=False), make_occupant("b")]) == {"b"}


def test_an_engine_that_still_serves_its_last_requests_is_not_in_the_way() -> None:
    assert may_start([replace(make_occupant("a", "draining"), exit_phase="wait"), make_occupant("b")]) == {"b"}


def test_the_first_in_line_keeps_its_turn_for_all_its_cards() -> None:
    wide = make_occupant("a", "placed", "gpu-0", "gpu-1", since=1.0)
    narrow = make_occupant("b", "placed", "gpu-1", since=2.0)
    assert may_start([narrow, wide]) == {"a"}
