"""How long a request would wait for a seat, and what it is told when it gets none.

Concurrency
    One owner; `hold` and `rate` change in place as requests get seats and end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from controlplane.domain.admission.fair_queue import FairQueue
from controlplane.domain.admission.pace import Hold
from controlplane.domain.admission.rate import Rate
from controlplane.domain.admission.serving import Serving
from controlplane.domain.admission.tenants import Tenants
from controlplane.domain.admission.ticket import Refusal, Refused, Ticket
from controlplane.domain.admission.tiers import Tier

RETRY_AFTER_MOST_S = 60
MOST_TENANTS = 10_000  # are remembered
FEW = 5  # requests that have ended before the time of a seat is believed


@dataclass(slots=True)
class SentAway:
    """A tenant's requests that were refused lately, and when the last one was to come back."""

    rate: Rate = field(default_factory=Rate)
    back_after_s: int = 1

    def count(self, now: float) -> int:
        """Returns how many are on their way back."""
        return int((self.rate.per_s(now) or 0.0) * self.back_after_s)


class Refusing:
    """The words and sums of refusals of one deployment."""

    def __init__(self, queue: FairQueue, serving: Serving, tenants: Tenants) -> None:
        self.hold = Hold()
        self.rate = Rate()
        self._queue = queue
        self._serving = serving
        self._tenants = tenants
        self._sent_away: dict[str, SentAway] = {}  # by tenant, who was refused last comes last

    def ahead_of(self, ticket: Ticket) -> int:
        """Returns how many requests are expected to go before this one: in fair turns; of a tenant below its guarantee
        only its own, and those of others who have such a right."""
        has_right = self._tenants.is_below_guarantee
        if not self._tenants.shared or not has_right(ticket.tenant):
            return self._queue.ahead_of(ticket, self._tenants.weight)
        return sum(
            len(line) for tier in self._queue.tiers.values() for tenant, line in tier.lines.items() if has_right(tenant)
        )

    def expected_wait_s(self, ahead: int, now: float) -> float | None:
        """Returns how long `ahead` requests and the next one take: by how long seats are held and how many are taken
        (Little 1961; there may be more that the KV cache does not carry now), by how many a second got one lately while
        that is not known."""
        serving = self._serving
        if self.hold.count >= FEW and serving.seats:
            return (ahead + 1) * self.hold.seconds / max(1, min(serving.seats, serving.taken))
        rate = self.rate.per_s(now)
        return ahead / rate if rate else None

    def refuse(self, ticket: Ticket, code: Refused, why: str, now: float) -> Refusal:
        """Returns what a request is told; it may ask again when those before it have had their turn: who wait, and who
        were sent away as it is now. So a thousand clients of one tenant do not all come back each second."""
        away = self._sent_away.pop(ticket.tenant, None) or SentAway()
        self._sent_away[ticket.tenant] = away
        if len(self._sent_away) > MOST_TENANTS:
            del self._sent_away[next(iter(self._sent_away))]
        wait_s = self.expected_wait_s(self.ahead_of(ticket) + 1 + away.count(now), now)
        retry_after_s = 1 if wait_s is None else max(1, min(RETRY_AFTER_MOST_S, math.ceil(wait_s)))
        away.rate.add(now)
        away.back_after_s = retry_after_s
        return Refusal(ticket, code, why, retry_after_s)

    def too_slow(self, ticket: Ticket, expected_s: float, now: float) -> Refusal:
        """It could not make it."""
        why = f"It would wait about {expected_s:.1f} s and may wait {max(0.0, ticket.wait_until - now):.1f} s."
        return self.refuse(ticket, "too_slow", why, now)

    def queue_is_full(self, ticket: Ticket, tier: Tier, now: float) -> Refusal:
        """The queue of its tier takes no more, by count or by bytes."""
        queue = self._queue.tiers[tier.name]
        if queue.count >= tier.queue_most:
            why = f"{queue.count} requests of the tier {tier.name} wait already, and no more may."
            return self.refuse(ticket, "queue_full", why, now)
        why = f"The waiting requests of the tier {tier.name} hold {queue.bytes} bytes, and no more may."
        return self.refuse(ticket, "queue_bytes", why, now)

    def pushed_out(self, ticket: Ticket, now: float) -> Refusal:
        """Somebody else got its place in the queue."""
        why = f"The queue of the tier {ticket.tier} is full, and its place went to a tenant with less in it."
        return self.refuse(ticket, "queue_full", why, now)

    def never_fits(self, ticket: Ticket, now: float) -> Refusal:
        """Not even an empty replica holds what it needs."""
        prompt, most = ticket.prompt_tokens, f"a KV cache of {self._serving.longest_tokens} tokens"
        if ticket.sequences == 1:
            return self.refuse(ticket, "too_long", f"The prompt of about {prompt} tokens is longer than {most}.", now)
        why = (
            f"Its {ticket.sequences} answers together need about {ticket.tokens} tokens ({prompt} of prompts), more"
            f" than {most}. Ask for fewer or shorter answers in a request."
        )
        return self.refuse(ticket, "too_many", why, now)

    def expired(self, ticket: Ticket, now: float) -> Refusal:
        """It has waited as long as it may."""
        waited_s = now - ticket.arrived_at
        why = f"No seat became free within {waited_s:.1f} s; the tier {ticket.tier} waits no longer."
        return self.refuse(ticket, "expired", why, now)
