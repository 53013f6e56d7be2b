"""What each tenant holds of one deployment, and what its share lets it have.

Guarantees
    What is guaranteed and idle is lent to whoever wants it, and called back: as long as a tenant that waits is below
    its guarantee in seats and in KV tokens, what becomes free is its own, in whichever tier it waits.
Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.serving import Serving
from controlplane.domain.admission.ticket import Ticket

KEPT_PART = 8  # of a replica's KV tokens one in so many is kept at most for tenants with nothing running
SEVERAL_S = 600.0  # so long after a second tenant has asked they are kept: where there is only one, for nobody


class Tenants:
    """`running` maps tenant -> seats it has; `kv` -> tokens it holds, counted only where tenants have shares."""

    __slots__ = ("_asked_last", "_serving", "_several_until", "kv", "policy", "running", "shared")

    def __init__(self, policy: Policy, serving: Serving) -> None:
        self._serving = serving
        self.running: dict[str, int] = {}
        self.kv: dict[str, int] = {}
        self.policy = policy
        self.shared = bool(policy.shares)
        self._asked_last = ""
        self._several_until = 0.0

    def set_policy(self, policy: Policy, seated: Iterable[Ticket]) -> None:
        """Takes over changed shares; `seated` are the requests that have seats."""
        self.policy, self.shared = policy, bool(policy.shares)
        self.kv = {}
        if self.shared:
            for ticket in seated:
                self._count_kv(ticket.tenant, ticket.held_tokens)

    def weight(self, tenant: str) -> float:
        """Returns how much a tenant gets while several wait, compared with 1.0."""
        return self.policy.share(tenant).weight if self.shared else 1.0

    def took(self, tenant: str, seats: int, tokens: int) -> None:
        """A request of a tenant got so many seats and holds so many KV tokens."""
        self.running[tenant] = self.running.get(tenant, 0) + seats
        if self.shared:
            self._count_kv(tenant, tokens)

    def grew(self, tenant: str, tokens: int) -> None:
        """One of its requests holds so many tokens more."""
        if self.shared:
            self._count_kv(tenant, tokens)

    def gave_back(self, tenant: str, seats: int, tokens: int) -> None:
        """One of its requests is over and held so many seats and tokens."""
        left = self.running[tenant] - seats
        if left:
            self.running[tenant] = left
        else:
            del self.running[tenant]
        if self.kv:
            self._count_kv(tenant, -tokens)

    def may_have_seat(self, ticket: Ticket, now: float) -> bool:
        """Whether this tenant may take as many of the seats that are free now as it has sequences. One with nothing
        running may have them all: a request that takes a whole replica would never run else. The seats that are kept
        are also for one that has little of what all have: who asks little shall not wait for who asks much."""
        serving, running = self._serving, self.running.get(ticket.tenant, 0)
        if ticket.tenant != self._asked_last:
            self._several_until = now + SEVERAL_S if self._asked_last else 0.0
            self._asked_last = ticket.tenant
        if running:
            kept = self.policy.kept_seats + ticket.sequences - 1
            free = serving.seats - serving.taken  # or more: seats on leaving replicas count as taken
            if (
                serving.seats > kept
                and (free <= kept or now < serving.settled_at)
                and serving.free_seats(now) <= kept
                and not self._is_within_equal_part(ticket, running)
            ):
                return False
            tokens = serving.kv_tokens
            if tokens is not None and now < self._several_until and not self._leaves_kept_tokens(ticket, tokens, now):
                return False
        if not self.shared:
            return True
        share = self.policy.share(ticket.tenant)
        if share.most >= 1.0:
            return True
        if running and running + ticket.sequences > max(1.0, share.most * serving.seats):
            return False
        if serving.kv_tokens is not None:
            held = self.kv.get(ticket.tenant, 0)
            return not held or held + serving.kv_of(ticket) <= share.most * serving.kv_tokens
        return True

    def _is_within_equal_part(self, ticket: Ticket, running: int) -> bool:
        """Whether all its requests together would have no more seats than fall to it when they are divided, by weight,
        among all that have some and one that may come: where all of these ask much, what is kept stays free for it."""
        if len(self.running) < 2:
            return False
        part = 1.0 / (len(self.running) + 1)
        if self.shared:
            weights = sum(self.weight(one) for one in self.running)
            part = self.weight(ticket.tenant) / (weights + self.policy.share("").weight)
        return running + ticket.sequences <= part * self._serving.seats

    def _leaves_kept_tokens(self, ticket: Ticket, kv_tokens: int, now: float) -> bool:
        """Whether a replica keeps the KV tokens of the seats that are kept: without them these would be of no use. Each
        has a seat's part, or what those who run hold on average where that is more."""
        serving, kept_seats = self._serving, self.policy.kept_seats
        if not kept_seats or serving.seats <= kept_seats:
            return True
        most = next_most = held = 0  # of free tokens; who has the most gets the request, as a rule
        for place in serving.places.values():
            reserved, capacity = place.ledger.reserved_tokens, place.ledger.capacity_tokens
            held += reserved
            if capacity is None or place.leaving or now < place.rests_until:
                continue
            free = capacity - reserved
            if free > most:
                most, next_most = free, most
            elif free > next_most:
                next_most = free
        each = max(kv_tokens // serving.seats, held // max(1, serving.taken))
        kept = min(kept_seats * each, (serving.largest or 0) // KEPT_PART)
        tokens = serving.kv_of(ticket)
        return most < tokens or most - tokens >= kept or next_most >= kept  # what does not fit is waited for elsewhere

    def is_below_guarantee(self, tenant: str) -> bool:
        """Whether a tenant holds less than it was guaranteed, of seats and of KV tokens."""
        guaranteed = self.policy.share(tenant).guaranteed
        if guaranteed <= 0 or self.running.get(tenant, 0) >= guaranteed * self._serving.seats:
            return False
        tokens = self._serving.kv_tokens
        return tokens is None or self.kv.get(tenant, 0) < guaranteed * tokens

    def check_invariants(self, seated: Iterable[Ticket]) -> None:
        """Raises AssertionError with the sum that is wrong."""
        running: dict[str, int] = {}
        kv: dict[str, int] = {}
        for ticket in seated:
            running[ticket.tenant] = running.get(ticket.tenant, 0) + ticket.held_seats
            kv[ticket.tenant] = kv.get(ticket.tenant, 0) + ticket.held_tokens
        assert running == self.running, f"{running} run, {self.running} counted"
        held = {name: tokens for name, tokens in kv.items() if tokens} if self.shared else {}
        assert held == self.kv, f"{held} held, {self.kv} counted"

    def _count_kv(self, tenant: str, change: int) -> None:
        left = self.kv.get(tenant, 0) + change
        if left:
            self.kv[tenant] = left
        else:
            self.kv.pop(tenant, None)
