"""Random histories of a small fleet, driven through `reconcile` alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.placement import Site
from controlplane.domain.reconcile import (
    SURGE,
    Create,
    Drop,
    Member,
    Place,
    Remove,
    Stop,
    Wait,
    Wanted,
    reconcile,
    take,
)
from tests.domain.fleets import make_site, make_wanted
from tests.domain.wording import assert_plain


@dataclass
class World:
    """Applies actions as the controller and the nodes would; every replica gets ready one round after its place."""

    wanted: Wanted
    sites: dict[str, Site]
    members: dict[str, Member] = field(default_factory=dict)
    made: int = 0
    rounds: int = 0

    def decide(self) -> bool:
        """One pass of the controller; returns whether it changed anything."""
        actions = reconcile(self.wanted, list(self.members.values()), self.sites)
        self.check_actions(actions)
        before = dict(self.members)
        for action in actions:
            self.apply(action)
        self.check()
        return before != self.members

    def apply(self, action: object) -> None:
        self.rounds += 1
        match action:
            case Create():
                self.made += 1
                id = f"r{self.made}"
                self.members[id] = Member(id, self.wanted.revision, "pending", "run", float(self.rounds))
            case Place(replica_id=id, placement=place):
                self.members[id] = replace(self.members[id], state="placed", node=place.node, waiting_why="")
                self.sites[place.node] = take(self.sites[place.node], place.uuids, id)
            case Wait(replica_id=id, why=why):
                self.members[id] = replace(self.members[id], waiting_why=why)
            case Stop(replica_id=id):
                self.members[id] = replace(self.members[id], goal="stop")
            case Drop(replica_id=id):
                del self.members[id]
            case Remove():
                assert not self.members

    def nodes_act(self) -> bool:
        """What is placed gets ready, what shall stop is gone; nodes that are lost do nothing."""
        moved = False
        for one in list(self.members.values()):
            if one.node is None or self.sites[one.node].lost_for_s is not None:
                continue
            if one.goal == "stop":
                self.free(one)
                moved = True
            elif one.state in ("placed", "failed"):
                self.members[one.id] = replace(one, state="ready")
                moved = True
        return moved

    def free(self, one: Member) -> None:
        assert one.node is not None
        site = self.sites[one.node]
        slots = tuple(slot.without({one.id}) for slot in site.slots)
        self.sites[one.node] = replace(site, slots=slots)
        del self.members[one.id]

    def lost(self, one: Member) -> bool:
        lost_for_s = self.sites[one.node].lost_for_s if one.node else None
        return lost_for_s is not None and lost_for_s >= 60

    def running(self) -> list[Member]:
        return [one for one in self.members.values() if one.goal == "run" and not self.lost(one)]

    def check_actions(self, actions: list) -> None:
        """A ready replica that nobody asked to move is ended only when there are too many."""
        running = self.running()
        for action in actions:
            for text in (getattr(action, "why", ""), action.placement.why if isinstance(action, Place) else ""):
                if text:
                    assert_plain(text)
            if not isinstance(action, Stop):
                continue
            one = self.members[action.replica_id]
            site = self.sites[one.node or ""]
            asked = one.revision != self.wanted.revision or site.draining or site.pool != self.wanted.pool
            asked |= self.wanted.replicas == 0
            assert asked or one.state != "ready" or len(running) > self.wanted.replicas

    def check(self) -> None:
        held = [one.owner for site in self.sites.values() for slot in site.slots for one in slot.memory.claims]
        assert set(held) <= set(self.members)
        for one in self.members.values():
            assert (one.node is not None) == (held.count(one.id) == self.wanted.accelerators)

    def settle(self) -> None:
        for _ in range(80):
            acted = self.decide()
            if not (self.nodes_act() or acted):
                return
        raise AssertionError(f"does not come to rest: {self.members} {self.wanted}")


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("scale"), st.integers(0, 4)),
        st.tuples(st.just("revise"), st.just(0)),
        st.tuples(st.just("lose"), st.integers(0, 2)),
        st.tuples(st.just("find"), st.integers(0, 2)),
        st.tuples(st.just("empty"), st.integers(0, 2)),
        st.tuples(st.just("fill"), st.integers(0, 2)),
        st.tuples(st.just("fail"), st.integers(0, 5)),
        st.tuples(st.just("freeze"), st.integers(0, 1)),
        st.tuples(st.just("act"), st.just(0)),
        st.tuples(st.just("decide"), st.just(0)),
    ),
    max_size=25,
)


def happen(world: World, event: str, number: int) -> None:
    name = f"n{number}"
    match event:
        case "scale":
            world.wanted = replace(world.wanted, replicas=number)
        case "revise":
            world.wanted = replace(world.wanted, revision=world.wanted.revision + 1)
        case "lose":
            world.sites[name] = replace(world.sites[name], lost_for_s=100.0)
        case "find":
            world.sites[name] = replace(world.sites[name], lost_for_s=None)
        case "empty":
            world.sites[name] = replace(world.sites[name], draining=True, cordoned=True)
        case "fill":
            world.sites[name] = replace(world.sites[name], draining=False, cordoned=False)
        case "fail":
            ready = [one for one in world.members.values() if one.state == "ready"]
            if ready:
                one = ready[number % len(ready)]
                world.members[one.id] = replace(one, state="failed")
        case "freeze":
            world.wanted = replace(world.wanted, frozen=bool(number))
        case "act":
            world.nodes_act()
        case "decide":
            world.decide()


@settings(max_examples=300, deadline=None)
@given(EVENTS, st.integers(1, 2))
def test_every_history_comes_to_rest_with_what_was_wanted(events: list[tuple[str, int]], accelerators: int) -> None:
    world = World(make_wanted(2, accelerators=accelerators), {f"n{i}": make_site(f"n{i}", cards=4) for i in range(3)})
    for event, number in events:
        before = len(world.running())
        happen(world, event, number)
        if event == "decide":
            assert len(world.running()) <= max(before, world.wanted.replicas + SURGE)
    world.wanted = replace(world.wanted, frozen=False)
    for name, site in world.sites.items():
        world.sites[name] = replace(site, lost_for_s=None, draining=False, cordoned=False)
    world.settle()
    assert len(world.members) == world.wanted.replicas
    assert all(one.revision == world.wanted.revision for one in world.members.values())
    assert not world.decide()


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_a_rollout_always_comes_to_an_end_even_without_room(events: list[tuple[str, int]]) -> None:
    world = World(make_wanted(1), {f"n{i}": make_site(f"n{i}", cards=1 if i == 0 else 0) for i in range(3)})
    world.settle()
    for event, number in events:
        happen(world, event, min(number, 1) if event == "scale" else number)
    world.wanted = replace(world.wanted, frozen=False)
    for name, site in world.sites.items():
        world.sites[name] = replace(site, lost_for_s=None, draining=False, cordoned=False)
    world.settle()
    assert len(world.members) == world.wanted.replicas
    assert all(one.revision == world.wanted.revision for one in world.members.values())


@given(st.integers(1, 4), st.integers(0, 3))
def test_a_node_that_joins_moves_no_replica(replicas: int, joined: int) -> None:
    world = World(make_wanted(replicas), {"n0": make_site("n0", cards=4)})
    world.settle()
    before = dict(world.members)
    for index in range(joined):
        world.sites[f"x{index}"] = make_site(f"x{index}", cards=8)
    world.settle()
    assert world.members == before
