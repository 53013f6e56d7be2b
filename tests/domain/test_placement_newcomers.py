"""Whoever comes anew finds room beside what runs well, or waits: over fleets of all shapes nothing healthy is moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.placement import Asked, Make, Site
from controlplane.domain.reconcile import Drop, Member, Place, Stop, Wait, Wanted, reconcile, take
from tests.domain.fleets import make_member, make_site, make_slot, make_wanted

GIB = 2**30
CARD = Make("gpu", "H100", 80 * GIB, "0.32")


def make_asked(gib: int) -> dict[Make, Asked]:
    return {CARD: Asked(gib * GIB)}


@dataclass
class Fleet:
    """Nodes, and deployments whose replicas are where they were placed."""

    sites: dict[str, Site]
    wanted: dict[str, Wanted] = field(default_factory=dict)
    members: dict[str, list[Member]] = field(default_factory=dict)

    def add(self, wanted: Wanted) -> None:
        """A deployment whose replicas are all wished for and not placed yet."""
        names = [f"{wanted.name}-{number}" for number in range(wanted.replicas)]
        self.wanted[wanted.name] = wanted
        self.members[wanted.name] = [make_member(name, "pending", node=None) for name in names]

    def step(self) -> list[object]:
        """One round over all deployments; what is placed is ready at once. Returns all that was decided."""
        decided: list[object] = []
        for name, wanted in self.wanted.items():
            for action in reconcile(wanted, self.members[name], self.sites):
                decided.append(action)
                if isinstance(action, Place):
                    self._place(name, action)
                elif isinstance(action, Wait):
                    self._change(name, action.replica_id, waiting_why=action.why)
        return decided

    def _place(self, name: str, action: Place) -> None:
        found = action.placement
        self.sites[found.node] = take(self.sites[found.node], found.uuids, action.replica_id, found.memory_bytes)
        self._change(name, action.replica_id, state="ready", node=found.node)

    def _change(self, name: str, replica: str, **values: object) -> None:
        self.members[name] = [
            replace(one, **values) if one.id == replica else one  # type: ignore[arg-type]
            for one in self.members[name]
        ]

    def placed(self) -> dict[str, tuple[tuple[str, int | None], ...]]:
        """Replica -> the cards that it holds, with how much of each."""
        found: dict[str, list[tuple[str, int | None]]] = {}
        for site in self.sites.values():
            for slot in site.slots:
                slot.memory.check_invariants()
                for claim in slot.memory.claims:
                    found.setdefault(claim.owner, []).append((slot.uuid, claim.size_bytes))
        return {owner: tuple(sorted(cards)) for owner, cards in found.items()}


def make_fleet(cards: Sequence[int]) -> Fleet:
    sites = {}
    for number, count in enumerate(cards):
        slots = tuple(make_slot(f"n{number}/{index}", index=index, total=80 * GIB) for index in range(count))
        sites[f"n{number}"] = make_site(f"n{number}", slots=slots)
    return Fleet(sites)


DEPLOYMENTS = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(5, 80), st.sampled_from(["spread", "pack"]))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(DEPLOYMENTS, min_size=1, max_size=4),
    st.lists(DEPLOYMENTS, min_size=1, max_size=3),
)
def test_newcomers_never_move_what_is_healthy(
    cards: list[int], there: list[tuple[int, int, int, str]], new: list[tuple[int, int, int, str]]
) -> None:
    fleet = make_fleet(cards)
    for number, (replicas, each, gib, strategy) in enumerate(there):
        fleet.add(
            make_wanted(replicas, name=f"old{number}", accelerators=each, asked=make_asked(gib), strategy=strategy)
        )
        fleet.step()
    settled = {name: list(members) for name, members in fleet.members.items()}
    before = fleet.placed()
    for number, (replicas, each, gib, strategy) in enumerate(new):
        fleet.add(
            make_wanted(replicas, name=f"new{number}", accelerators=each, asked=make_asked(gib), strategy=strategy)
        )
    for _ in range(3):
        decided = fleet.step()
        assert not [one for one in decided if isinstance(one, Stop | Drop)]
    after = fleet.placed()
    assert {owner: after[owner] for owner in before} == before
    for name, members in settled.items():
        where = {one.id: one.node for one in fleet.members[name]}
        assert all(where[one.id] == one.node for one in members if one.state == "ready")
    assert all(isinstance(one, Wait) for one in fleet.step()), "who has no room waits, all else is at rest"
