"""One replica as admission sees it, and which one a request goes to."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from controlplane.domain.admission.kv_ledger import KvLedger

SLOW_START_S = 10.0
AFFINITY_SLACK = 0.15  # of the load: so much fuller may the replica be that a session has its prefix on


@dataclass(slots=True)
class Place:
    """`seats` is how many may run in it at once; `ready_at` when it came. A leaving replica gets nothing new."""

    id: str
    seats: int
    ready_at: float
    ledger: KvLedger = field(default_factory=KvLedger)
    running: dict[str, str] = field(default_factory=dict)  # ticket -> tenant
    leaving: bool = False
    rests_until: float = 0.0

    def free_seats(self, now: float) -> int:
        """Seats that may be given away now: fewer while it is new, none while it leaves or rests."""
        if self.leaving or now < self.rests_until:
            return 0
        seats, age = self.seats, now - self.ready_at
        if age < SLOW_START_S:
            seats = max(1, int(seats * max(0.0, age) / SLOW_START_S))
        return max(0, seats - len(self.running))


def choose(
    places: Iterable[Place], *, tier: str, tokens: int, tier_share: float, now: float, wanted: str = "",
    excluded: Collection[str] = (),
) -> Place | None:  # fmt: skip
    """Returns the place with the least reserved share that has a seat and the tokens; the `wanted` one when it is not
    much fuller; None when there is none."""
    best: Place | None = None
    liked: Place | None = None
    for place in places:
        if place.id in excluded or place.free_seats(now) <= 0:
            continue
        if not place.ledger.has_room(tier, at_most(tokens, place), tier_share):
            continue
        if place.id == wanted:
            liked = place
        if best is None or _load(place) < _load(best):
            best = place
    if best is not None and liked is not None and _load(liked)[0] <= _load(best)[0] + AFFINITY_SLACK:
        return liked
    return best


def _load(place: Place) -> tuple[float, float]:
    taken = len(place.running) / max(1, place.seats)
    return (place.ledger.load if place.ledger.capacity_tokens else taken, taken)


def at_most(tokens: int, place: Place) -> int:
    """A request that is estimated longer than the whole cache may still have an empty replica: it rarely gets there."""
    capacity = place.ledger.capacity_tokens
    return tokens if capacity is None else min(tokens, capacity)
