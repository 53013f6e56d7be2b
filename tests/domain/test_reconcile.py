from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.domain.placement import Site
from controlplane.domain.reconcile import (
    Action,
    Create,
    Drop,
    Hold,
    Member,
    Place,
    Remove,
    Stop,
    Wait,
    Wanted,
    is_routed,
    reconcile,
    take,
)
from tests.domain.fleets import make_member, make_site, make_wanted


def decide(wanted: Wanted, members: list[Member], *sites: Site) -> list[Action]:
    return reconcile(wanted, members, {site.name: site for site in sites or (make_site(cards=8),)})


def stopped(actions: list[Action]) -> list[str]:
    return [action.replica_id for action in actions if isinstance(action, Stop)]


def created(actions: list[Action]) -> int:
    return sum(isinstance(action, Create) for action in actions)


def test_missing_replicas_are_made() -> None:
    assert created(decide(make_wanted(3), [])) == 3
    assert created(decide(make_wanted(3), [make_member("a")])) == 2


def test_what_is_as_wanted_is_left_alone() -> None:
    assert decide(make_wanted(2), [make_member("a"), make_member("b")]) == []


def test_a_failed_replica_is_left_to_its_node() -> None:
    assert decide(make_wanted(1), [make_member("a", "failed")]) == []


def test_a_pending_replica_is_placed() -> None:
    actions = decide(make_wanted(1), [make_member("a", "pending", node=None)])
    assert isinstance(actions[0], Place)
    assert actions[0].placement.node == "n1"


def test_a_replica_without_a_place_waits_and_says_why() -> None:
    actions = decide(make_wanted(1), [make_member("a", "pending", node=None)], make_site(cards=0))
    assert actions == [Wait("a", "No node can take it. n1: has no accelerators.")]


def test_two_pending_replicas_get_different_accelerators() -> None:
    members = [make_member(id, "pending", node=None) for id in ("a", "b", "c")]
    actions = decide(make_wanted(3), members, make_site(cards=2))
    placed = [action.placement.uuids for action in actions if isinstance(action, Place)]
    assert sorted(placed) == [("n1/0",), ("n1/1",)]
    assert sum(isinstance(action, Wait) for action in actions) == 1


def test_scaling_down_ends_those_not_ready_first_and_then_the_youngest() -> None:
    members = [
        make_member("old", created_at=1.0),
        make_member("young", created_at=3.0),
        make_member("starting", "starting", created_at=2.0),
    ]
    assert stopped(decide(make_wanted(2), members)) == ["starting"]
    assert stopped(decide(make_wanted(1), members)) == ["starting", "young"]


def test_nothing_wanted_ends_everything() -> None:
    members = [make_member("a"), make_member("b", "pending", node=None), make_member("c", "failed")]
    actions = decide(make_wanted(0, drain_timeout_s=3600.0), members)
    assert stopped(actions) == ["a", "c"]
    assert Drop("b") in actions
    assert all(action.drain_timeout_s == 3600.0 for action in actions if isinstance(action, Stop))


def test_an_ending_replica_does_not_count_and_is_not_ended_twice() -> None:
    actions = decide(make_wanted(1), [make_member("a", "draining", goal="stop")])
    assert (created(actions), stopped(actions)) == (1, [])


def test_a_pending_replica_that_shall_stop_is_dropped() -> None:
    assert decide(make_wanted(0), [make_member("a", "pending", node=None, goal="stop")]) == [Drop("a")]


def test_a_leaving_deployment_is_removed_when_nothing_lives() -> None:
    assert decide(make_wanted(0, leaving=True), [make_member("a", "draining", goal="stop")]) == []
    assert decide(make_wanted(0, leaving=True), []) == [Remove()]


# -- a new revision


def test_a_new_revision_is_started_beside_the_old_one() -> None:
    actions = decide(make_wanted(2, revision=2), [make_member("a"), make_member("b")])
    assert (created(actions), stopped(actions)) == (1, [])


def test_the_old_one_is_ended_when_the_new_one_is_ready() -> None:
    members = [make_member("a"), make_member("b", created_at=1.0), make_member("c", "warming", revision=2)]
    assert decide(make_wanted(2, revision=2), members) == []
    members[2] = replace(members[2], state="ready")
    actions = decide(make_wanted(2, revision=2), members)
    assert stopped(actions) == ["a"]
    assert created(actions) == 1


def test_old_replicas_that_serve_nothing_are_ended_at_once() -> None:
    actions = decide(make_wanted(1, revision=2), [make_member("a", "failed")])
    assert (created(actions), stopped(actions)) == (1, ["a"])


def test_without_room_the_old_one_ends_first_and_the_decision_says_so() -> None:
    site = take(make_site(cards=1), ["n1/0"], "a")
    waiting = make_member("b", "pending", revision=2, node=None, waiting_why="No node can take it.")
    actions = decide(make_wanted(1, revision=2), [make_member("a"), waiting], site)
    stop = next(action for action in actions if isinstance(action, Stop))
    assert (stop.replica_id, stop.rule) == ("a", "drain_first")
    assert "No accelerators are free" in stop.why


def test_the_successor_is_tried_before_anything_is_ended() -> None:
    site = take(make_site(cards=1), ["n1/0"], "a")
    actions = decide(
        make_wanted(1, revision=2), [make_member("a"), make_member("b", "pending", revision=2, node=None)], site
    )
    assert [type(action) for action in actions] == [Wait]


def test_what_serves_goes_on_when_its_end_would_make_no_room() -> None:
    site = take(make_site(cards=1), ["n1/0"], "a")
    waiting = make_member("b", "pending", revision=2, node=None, waiting_why="No node can take it.")
    actions = decide(make_wanted(1, revision=2, accelerators=4), [make_member("a"), waiting], site)
    assert stopped(actions) == []
    assert any(isinstance(action, Hold) for action in actions)


def test_only_one_makes_room_at_a_time() -> None:
    site = take(take(make_site(cards=2), ["n1/0"], "a"), ["n1/1"], "b")
    waiting = make_member("c", "pending", revision=2, node=None, waiting_why="full")
    members = [make_member("a", "draining", goal="stop"), make_member("b"), waiting]
    assert stopped(decide(make_wanted(2, revision=2), members, site)) == []


def test_scaling_down_during_a_rollout_keeps_the_new_revision() -> None:
    members = [make_member("a"), make_member("b"), make_member("c", revision=2)]
    assert set(stopped(decide(make_wanted(1, revision=2), members))) == {"a", "b"}


# -- nodes


def test_a_short_silence_of_a_node_changes_nothing() -> None:
    assert decide(make_wanted(1), [make_member("a")], make_site(lost_for_s=20.0)) == []


def test_after_a_long_silence_a_replacement_is_made_and_the_old_one_is_not_ended() -> None:
    actions = decide(make_wanted(1), [make_member("a")], make_site(lost_for_s=61.0), make_site("n2"))
    assert (created(actions), stopped(actions)) == (1, [])


def test_when_the_node_is_back_the_older_replica_stays() -> None:
    members = [make_member("a", created_at=0.0), make_member("b", created_at=9.0, node="n2")]
    assert stopped(decide(make_wanted(1), members, make_site(), make_site("n2"))) == ["b"]


def test_a_new_node_moves_nothing() -> None:
    members = [make_member("a"), make_member("b")]
    assert decide(make_wanted(2), members, make_site(cards=2), make_site("n2", cards=8)) == []


def test_a_node_that_is_emptied_gets_successors_elsewhere_first() -> None:
    emptied = make_site(draining=True, cordoned=True)
    actions = decide(make_wanted(1), [make_member("a")], emptied, make_site("n2"))
    assert (created(actions), stopped(actions)) == (1, [])
    members = [make_member("a"), make_member("b", node="n2")]
    assert stopped(decide(make_wanted(1), members, emptied, make_site("n2"))) == ["a"]


def test_a_replica_of_another_pool_makes_room() -> None:
    actions = decide(make_wanted(1, pool="fast"), [make_member("a")], make_site(), make_site("n2", pool="fast"))
    assert created(actions) == 1


@pytest.mark.parametrize(
    ("state", "goal", "lost_for_s", "routed"),
    [
        ("ready", "run", None, True),
        ("ready", "stop", None, False),
        ("warming", "run", None, False),
        ("draining", "run", None, False),
        ("failed", "run", None, False),
        ("ready", "run", 100.0, True),
        ("ready", "run", 601.0, False),
    ],
)
def test_only_what_can_serve_is_routed(state: str, goal: str, lost_for_s: float | None, routed: bool) -> None:
    assert is_routed(state, goal, lost_for_s) is routed


# -- frozen


def test_a_failed_replica_whose_accelerator_vanished_is_replaced() -> None:
    sites = {"n1": make_site("n1", cards=0), "n2": make_site("n2")}
    broken = make_member("a", "failed", gone="GPU-1")
    stop, create = reconcile(make_wanted(), [broken], sites)
    assert isinstance(stop, Stop) and "does not see its accelerator GPU-1" in stop.why
    assert isinstance(create, Create)


@pytest.mark.parametrize("state", ["placed", "starting", "warming", "ready"])
def test_a_replica_that_has_not_failed_is_left_alone_whatever_the_driver_sees(state: str) -> None:
    sites = {"n1": make_site("n1", cards=0), "n2": make_site("n2")}
    assert reconcile(make_wanted(), [make_member("a", state, gone="GPU-1")], sites) == []


def test_a_frozen_deployment_gets_no_replacement_and_says_so() -> None:
    actions = decide(make_wanted(2, frozen=True), [make_member("a")])
    assert [type(action) for action in actions] == [Hold]


def test_where_everything_is_frozen_it_says_so() -> None:
    [hold] = decide(make_wanted(2, frozen=True, all_frozen=True), [make_member("a")])
    assert isinstance(hold, Hold) and "but everything is frozen: nothing is changed." in hold.why


@pytest.mark.parametrize(("all_frozen", "what"), [(False, "The deployment"), (True, "Everything")])
def test_a_pending_replica_of_a_frozen_deployment_says_why_it_waits(all_frozen: bool, what: str) -> None:
    pending = make_member("a", "pending", node=None)
    wanted = make_wanted(frozen=True, all_frozen=all_frozen)
    assert decide(wanted, [pending]) == [Wait("a", f"{what} is frozen, so it is not placed.", "frozen")]
    assert isinstance(decide(make_wanted(), [pending])[0], Place)


def test_a_frozen_deployment_gets_no_new_revision() -> None:
    actions = decide(
        make_wanted(1, frozen=True, revision=2),
        [
            make_member("a"),
        ],
    )
    assert [type(action) for action in actions] == [Hold]


def test_a_frozen_deployment_is_stopped_when_a_person_says_so() -> None:
    assert stopped(decide(make_wanted(0, frozen=True), [make_member("a")])) == ["a"]
    assert stopped(decide(make_wanted(1, frozen=True), [make_member("a"), make_member("b", created_at=1.0)])) == ["b"]


def test_a_frozen_deployment_that_is_as_wanted_says_nothing() -> None:
    assert decide(make_wanted(1, frozen=True), [make_member("a")]) == []


# -- external endpoints


def make_endpoint(**fields: object) -> Wanted:
    return make_wanted(**{"engine": "external", "managed": False, **fields})  # type: ignore[arg-type]


def test_an_endpoint_gets_one_member_and_no_place() -> None:
    assert created(decide(make_endpoint(), [])) == 1
    assert decide(make_endpoint(), [make_member("a", "failed", node=None)]) == []
    assert decide(make_endpoint(), [make_member("a", "pending", node=None)]) == []


def test_a_changed_endpoint_is_another_member() -> None:
    actions = decide(make_endpoint(revision=2), [make_member("a", node=None)])
    assert actions[0] == Drop("a")
    assert created(actions) == 1


def test_an_endpoint_that_is_not_wanted_is_dropped_without_a_drain() -> None:
    assert decide(make_endpoint(replicas=0), [make_member("a", node=None)]) == [Drop("a")]
    assert decide(make_endpoint(replicas=0, leaving=True), []) == [Remove()]
