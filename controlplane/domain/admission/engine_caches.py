"""What the engines of one deployment say of their KV caches, against what is reserved in them.

Guarantees
    An engine that uses more than is reserved in it (estimates that were too low, work that came another way) has so
    much less for new requests, by the next second. A figure that is late does no harm: it is compared with the most
    that was reserved while it was on its way. A figure that is wrong takes no more than half of a cache.
Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

LATE_LOOKS = 6  # seconds that a figure may be on its way: scraped, written, read, and kept while Valkey is away
STEP_SHARE = 0.05  # of the cache: half-filled blocks are no news, and not every token is one
MOST_SHARE = 0.5

Elsewhere = Mapping[str, tuple[int, int]]  # replica id -> (seats, KV tokens)


@dataclass(slots=True)
class EngineCache:
    """One engine. `unseen_tokens` are used in it and not reserved; `preempted` counts requests since it is known; None
    = it does not say."""

    unseen_tokens: int = 0
    usage: float | None = None
    preempted: float | None = None
    _reserved: deque[int] = field(default_factory=lambda: deque(maxlen=LATE_LOOKS))

    def look(self, reserved_tokens: int, usage: float | None, capacity_tokens: int | None) -> bool:
        """Takes one second and returns whether `unseen_tokens` has changed."""
        self.usage = usage
        self._reserved.append(reserved_tokens)
        before, self.unseen_tokens = self.unseen_tokens, 0
        if usage is not None and capacity_tokens:
            step = max(1, int(STEP_SHARE * capacity_tokens))
            over = int(usage * capacity_tokens) - max(self._reserved)
            self.unseen_tokens = min(max(0, over // step) * step, int(MOST_SHARE * capacity_tokens))
        return before != self.unseen_tokens

    def preempted_by_now(self, so_far: float | None) -> float:
        """Takes how many requests it has preempted so far, and returns how many more these are than before."""
        if so_far is None:
            return 0.0
        before, self.preempted = self.preempted or 0.0, max(so_far, self.preempted or 0.0)
        return self.preempted - before


class EngineCaches:
    """The engines by replica id."""

    def __init__(self) -> None:
        self.by_replica: dict[str, EngineCache] = {}

    def of(self, replica_id: str) -> EngineCache:
        """Returns what is known of one engine."""
        cache = self.by_replica.get(replica_id)
        if cache is None:
            cache = self.by_replica[replica_id] = EngineCache()
        return cache

    def keep_only(self, replica_ids: Container[str]) -> None:
        """Forgets the engines of all other replicas."""
        for gone in [one for one in self.by_replica if one not in replica_ids]:
            del self.by_replica[gone]

    def added_to(self, elsewhere: Elsewhere) -> Elsewhere:
        """Returns what others hold, as far as they have told or it shows."""
        unseen = {name: one.unseen_tokens for name, one in self.by_replica.items() if one.unseen_tokens}
        if not unseen:
            return elsewhere
        nothing = (0, 0)
        return dict(elsewhere) | {
            name: (elsewhere.get(name, nothing)[0], elsewhere.get(name, nothing)[1] + tokens)
            for name, tokens in unseen.items()
        }
