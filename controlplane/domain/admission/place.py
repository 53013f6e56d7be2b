"""One replica as admission sees it, and which one a request goes to."""

from __future__ import annotations

import math
from collections.abc import Iterable
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
    running: int = 0  # seats that are taken
    leaving: bool = False
    rests_until: float = 0.0
    # what other gateway processes hold of it: `seats` and the ledger's capacity are less these
    elsewhere_seats: int = 0
    elsewhere_tokens: int = 0
    prefilled_at: float = 0.0  # when it will have computed all prompts that it was given, one after the other
    turn: int = 0  # grows with each request that it gets, so that equals take turns

    settled_at: float = field(init=False)  # from then on it neither starts slowly nor rests

    def __post_init__(self) -> None:
        self.rest_until(self.rests_until)

    def rest_until(self, until: float) -> None:
        """Nothing new goes here until then."""
        self.rests_until = until
        self.settled_at = max(self.ready_at + SLOW_START_S, until)

    def load(self) -> float:
        """The reserved share of its KV tokens, and a little for the seats, so that equals take turns."""
        seats = self.seats + self.elsewhere_seats
        taken = (self.running + self.elsewhere_seats) / seats if self.seats else 1.0
        capacity = self.ledger.capacity_tokens
        if not capacity:
            return taken
        held = self.ledger.reserved_tokens + self.elsewhere_tokens
        return held / (capacity + self.elsewhere_tokens) + taken * 1e-6

    @property
    def whole_tokens(self) -> int | None:
        """Its whole KV cache, whoever holds of it."""
        capacity = self.ledger.capacity_tokens
        return None if capacity is None else capacity + self.elsewhere_tokens

    def free_seats(self, now: float) -> int:
        """Seats that may be given away now: fewer while it is new, none while it leaves or rests."""
        if self.leaving or now < self.rests_until:
            return 0
        seats, age = self.seats, now - self.ready_at
        if age < SLOW_START_S:
            seats = max(1, int(seats * max(0.0, age) / SLOW_START_S))
        free = seats - self.running
        return free if free > 0 else 0


def choose(
    places: Iterable[Place],
    tier: str,
    tokens: int,
    tier_share: float,
    *,
    now: float,
    is_alone: bool = True,
    wanted: str = "",
    sequences: int = 1,
    prefilled_by: float = math.inf,
) -> Place | None:
    """Returns the place with the least reserved share that has a seat for each sequence and the tokens, and will have
    computed the prompts that it has by `prefilled_by`; the `wanted` one when it is not much fuller; None when there is
    none."""
    best: Place | None = None
    liked: Place | None = None
    least: float | None = None  # the load of the best one, worked out when there is something to compare it with
    for place in places:
        if place.running >= place.seats or (now < place.settled_at and place.free_seats(now) <= 0) or place.leaving:
            continue
        if sequences > 1 and place.free_seats(now) < seats_for(sequences, place):
            continue
        if place.prefilled_at > prefilled_by:
            continue
        ledger = place.ledger
        capacity = ledger.capacity_tokens
        if capacity is not None:
            needed = tokens if tokens < capacity else capacity
            if ledger.reserved_tokens + needed > capacity:
                continue
            if tier_share < 1.0 and not ledger.is_in_share(tier, needed, tier_share, is_alone=is_alone):
                continue
        if place.id == wanted:
            liked = place
        if best is None:
            best = place
            continue
        if least is None:
            least = best.load()
        load = place.load()
        if load < least or (load == least and place.turn < best.turn):
            best, least = place, load
    if liked is not None and best is not None and liked is not best:
        return liked if liked.load() <= best.load() + AFFINITY_SLACK else best
    return best


def seats_for(sequences: int, place: Place) -> int:
    """Returns how many seats a request of so many sequences takes here: what is beyond all of them waits in the engine
    for those before it."""
    return sequences if sequences < place.seats else place.seats


def at_most(tokens: int, place: Place) -> int:
    """A request that is estimated longer than the whole cache may still have an empty replica: it rarely gets there."""
    capacity = place.ledger.capacity_tokens
    return tokens if capacity is None or tokens < capacity else capacity
