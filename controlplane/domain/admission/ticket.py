"""What admission is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

# queue_full, queue_bytes and too_slow are told at once; expired and shed after waiting;
# engine_full when the engine itself had no room, which its seats should have kept from happening
Refused = Literal[
    "queue_full", "queue_bytes", "too_slow", "expired", "no_replica", "too_long", "too_many", "engine_full"
]


@dataclass(slots=True)
class Ticket:
    """One request that asks for a seat. `prompt_tokens` and `output_tokens` are estimates; the second is what it may
    generate over all its choices (`n`). Each of its `sequences` takes a place in the running batch, and so a seat.
    `sure_tokens` is the part of both that is no guess: what it asks for in so many words. Admission alone writes the
    last six fields; all others stay as they came, but for `go_elsewhere`."""

    id: str
    tenant: str
    tier: str
    prompt_tokens: int
    output_tokens: int
    arrived_at: float
    wait_until: float  # it is refused when it has no seat by then
    body_bytes: int = 0
    affinity: str = ""  # requests with the same text profit from the same replica (a session, a common prefix)
    sequences: int = 1
    sure_tokens: int = 0
    avoid: str = ""  # the replica that has failed at it
    replica_id: str = field(default="", compare=False)  # where it has its seats
    held_seats: int = field(default=0, compare=False)
    held_tokens: int = field(default=0, compare=False)  # what is reserved for it there
    covered_tokens: int = field(default=0, compare=False)  # prompt and output that it may have with that
    seated_at: float = field(default=0.0, compare=False)
    waited: bool = field(default=False, compare=False)

    @property
    def tokens(self) -> int:
        """Estimated tokens, prompt and output."""
        return self.prompt_tokens + self.output_tokens

    def go_elsewhere(self, now: float) -> None:
        """The replica where it had a seat has failed at it: it is to avoid that one, and may wait as long again."""
        self.avoid, self.waited = self.replica_id, False
        self.wait_until = max(self.wait_until, now + self.wait_until - self.arrived_at)


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send it to this replica now; its seat and tokens are reserved until `ended`."""

    ticket: Ticket
    replica_id: str


@dataclass(frozen=True, slots=True)
class Queued:
    """It waits; `ahead` requests are expected to go first, which takes about `expected_wait_s` (None = not known)."""

    ticket: Ticket
    ahead: int
    expected_wait_s: float | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """It gets no seat. `retry_after_s` is when asking again makes sense, from the queue as it is now."""

    ticket: Ticket
    code: Refused
    why: str
    retry_after_s: int


Answer = Dispatch | Queued | Refusal
