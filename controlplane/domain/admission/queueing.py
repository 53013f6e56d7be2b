"""Admission of one deployment: a seat and KV tokens before an engine sees a request, or a place in a bounded queue.

Guarantees
    A ticket is in exactly one of: a queue, a replica, gone. Its reservation is made before it is dispatched and given
    back exactly once, by `ended`. An expired or abandoned request is never dispatched. When nothing runs and nothing
    waits every counter is 0. `check_invariants` says all this with the sum that is wrong.
Does not do
    I/O, clocks, randomness: `now` is seconds of one monotonic clock and is passed in. Who may ask at all (keys, quotas)
    is decided before.
Concurrency
    One owner (the gateway process that owns the deployment); changes in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from controlplane.domain.admission import place as placing
from controlplane.domain.admission.fair_queue import FairQueue, TierQueue
from controlplane.domain.admission.place import Place
from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.rate import Rate
from controlplane.domain.admission.ticket import Answer, Dispatch, Queued, Refusal, Refused, Ticket

MOST_SESSIONS = 4096
RETRY_AFTER_MOST_S = 60


class Admission:
    """The rules; `places` maps replica id -> what is known of it."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.queue = FairQueue({name: tier.weight for name, tier in policy.tiers.items()})
        self.places: dict[str, Place] = {}
        self.seated: dict[str, tuple[Ticket, str]] = {}  # ticket id -> (ticket, replica id)
        self.waiting: dict[str, Ticket] = {}
        self._running: dict[str, int] = {}  # tenant -> seats it has
        self._kv: dict[str, int] = {}  # tenant -> KV tokens it holds
        self._rate = Rate()
        self._sessions: dict[str, str] = {}  # affinity -> replica id, the oldest first
        # sums over the replicas that serve, made anew when these change
        self._serving = 0
        self._seats = 0
        self._largest: int | None = None  # KV tokens of the largest; None where one does not tell
        self._together: int | None = None  # KV tokens of all
        self._settled_at = 0.0  # from then on none starts slowly or rests

    # -- requests ------------------------------------------------------------------------------------------------

    def arrive(self, ticket: Ticket, now: float) -> list[Answer]:
        """Takes a new request: dispatches it, lets it wait, or refuses it at once. Its answer comes last; before it
        come those of waiting requests that time has given a seat meanwhile."""
        if not self._serving:
            return [self._refuse(ticket, "no_replica", "No replica is ready.", now)]
        capacity = self._largest
        if capacity is not None and ticket.prompt_tokens > capacity:
            why = f"The prompt of about {ticket.prompt_tokens} tokens is longer than a KV cache of {capacity} tokens."
            return [self._refuse(ticket, "too_long", why, now)]
        if not len(self.queue) and self._may_have_seat(ticket, now):
            found = self._place_for(ticket, now)
            if found is not None:
                return [self._seat(ticket, found, now)]
        refusal = self._queue_is_full(ticket, now)
        if refusal is not None:
            return [refusal]
        return self._enqueue(ticket, now)

    def ended(self, ticket_id: str, now: float, used_tokens: int | None = None) -> list[Answer]:
        """The request's body has ended, in whichever way: gives everything back, and returns who is next.

        `used_tokens` is what the engine counted; the tenant is charged for that instead of the estimate.
        """
        entry = self.seated.pop(ticket_id, None)
        if entry is None:
            return []
        ticket, replica_id = entry
        place = self.places[replica_id]
        del place.running[ticket_id]
        held = place.ledger.release(ticket_id)
        self._count(ticket.tenant, -1, -held)
        if used_tokens is not None:
            self.queue.served(ticket, used_tokens - ticket.tokens, self.policy.share(ticket.tenant).weight)
        if place.leaving and not place.running:
            del self.places[replica_id]
        return self.fill(now)

    def abandoned(self, ticket_id: str) -> bool:
        """A waiting client has left; returns whether it waited here."""
        ticket = self.waiting.pop(ticket_id, None)
        return ticket is not None and self.queue.tiers[ticket.tier].remove(ticket)

    def grew(self, ticket_id: str, tokens: int) -> int:
        """A stream holds more tokens than was reserved; returns by how many its replica is overbooked now."""
        entry = self.seated.get(ticket_id)
        if entry is None:
            return 0
        ticket, replica_id = entry
        ledger = self.places[replica_id].ledger
        before = ledger.held[ticket_id][1]
        over = ledger.resize(ticket_id, tokens)
        self._count(ticket.tenant, 0, tokens - before)
        return over

    # -- replicas and time -----------------------------------------------------------------------------------------

    def set_replicas(
        self, seats: Mapping[str, int], capacity_tokens: Mapping[str, int | None], now: float
    ) -> list[Answer]:
        """Takes over which replicas are ready, with their seats and KV capacity. One that is gone from the list gets
        nothing new and is forgotten when its last request has ended."""
        for replica_id, count in seats.items():
            place = self.places.get(replica_id)
            if place is None:
                # the first ones have nobody to spare them the load
                ready_at = now if self.places else now - placing.SLOW_START_S
                place = self.places[replica_id] = Place(replica_id, count, ready_at)
            place.seats, place.leaving = count, False
            place.ledger.capacity_tokens = capacity_tokens.get(replica_id)
        for replica_id in [one for one in self.places if one not in seats]:
            self.places[replica_id].leaving = True
            if not self.places[replica_id].running:
                del self.places[replica_id]
        self._add_up()
        return self.fill(now)

    def rest(self, replica_id: str, until: float) -> None:
        """Nothing new goes to a replica until then (its breaker is open)."""
        if replica_id in self.places:
            self.places[replica_id].rests_until = until
            self._add_up()

    def tick(self, now: float) -> list[Answer]:
        """Ends what has waited too long and gives away what has become free. Call at `next_due` and once a second."""
        late = [ticket for ticket in self.waiting.values() if ticket.wait_until <= now]
        answers: list[Answer] = []
        for ticket in late:
            self.abandoned(ticket.id)
            waited_s = now - ticket.arrived_at
            why = f"No seat became free within {waited_s:.1f} s; the tier {ticket.tier} waits no longer."
            answers.append(self._refuse(ticket, "expired", why, now))
        return answers + self.fill(now)

    def next_due(self) -> float | None:
        """Returns when the first waiting request expires."""
        return min((ticket.wait_until for ticket in self.waiting.values()), default=None)

    def fill(self, now: float) -> list[Answer]:
        """Gives free seats to those that wait, in fair order."""
        answers: list[Answer] = []
        while len(self.queue):
            found = self._next(now)
            if found is None:
                break
            ticket, place = found
            self.abandoned(ticket.id)
            answers.append(self._seat(ticket, place, now))
        return answers

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong; tests call it after every step."""
        self.queue.check_invariants()
        assert len(self.waiting) == len(self.queue), f"{len(self.waiting)} wait, {len(self.queue)} are queued"
        assert not self.waiting.keys() & self.seated.keys(), "a request waits and runs"
        running: dict[str, int] = {}
        kv: dict[str, int] = {}
        for place in self.places.values():
            place.ledger.check_invariants()
            assert place.running.keys() == place.ledger.held.keys(), f"{place.id}: seats and tokens differ"
            for ticket_id, tenant in place.running.items():
                assert self.seated[ticket_id][1] == place.id, f"{ticket_id} is on two replicas"
                running[tenant] = running.get(tenant, 0) + 1
                kv[tenant] = kv.get(tenant, 0) + place.ledger.held[ticket_id][1]
        assert running == self._running, f"{running} run, {self._running} counted"
        assert {name: tokens for name, tokens in kv.items() if tokens} == self._kv, f"{kv} held, {self._kv} counted"

    # -- decisions -------------------------------------------------------------------------------------------------

    def _next(self, now: float) -> tuple[Ticket, Place] | None:
        """The next request that can have a seat. One that lacks KV tokens is waited for, so that long requests are not
        passed by short ones for ever; one that lacks only its tier's or its tenant's share lets others go first."""
        for _, tier in self.queue.in_order():
            for ticket in self._entitled_first(tier):
                if not self._may_have_seat(ticket, now):
                    continue
                place = self._place_for(ticket, now)
                if place is not None:
                    return ticket, place
                if not self._tier_is_full(ticket):
                    return None
                break
        return None

    def _entitled_first(self, tier: TierQueue) -> Iterable[Ticket]:
        heads = list(tier.heads())
        if not self.policy.shares:
            return heads
        return sorted(heads, key=lambda ticket: not self._is_below_guarantee(ticket.tenant))

    def _is_below_guarantee(self, tenant: str) -> bool:
        guaranteed = self.policy.share(tenant).guaranteed
        return guaranteed > 0 and self._running.get(tenant, 0) < guaranteed * self._seats

    def _may_have_seat(self, ticket: Ticket, now: float) -> bool:
        """Whether this tenant may take one of the seats that are free now."""
        running = self._running.get(ticket.tenant, 0)
        share = self.policy.share(ticket.tenant)
        if running:
            kept = self.policy.kept_seats
            if self._seats > kept and self._free_seats(now) <= kept:
                return False
            if share.most < 1.0 and running + 1 > max(1.0, share.most * self._seats):
                return False
        if share.most < 1.0 and self._together is not None:
            held = self._kv.get(ticket.tenant, 0)
            return not held or held + ticket.tokens <= share.most * self._together
        return True

    def _free_seats(self, now: float) -> int:
        free = self._seats - len(self.seated)
        if free > self.policy.kept_seats and now >= self._settled_at:
            return free  # at least so many: those on leaving replicas are counted as taken
        return sum(place.free_seats(now) for place in self.places.values())

    def _place_for(self, ticket: Ticket, now: float) -> Place | None:
        share = self.policy.tiers[ticket.tier].kv_share
        wanted = self._sessions.get(ticket.affinity, "") if ticket.affinity else ""
        return placing.choose(
            self.places.values(), tier=ticket.tier, tokens=ticket.tokens, tier_share=share, now=now, wanted=wanted
        )

    def _tier_is_full(self, ticket: Ticket) -> bool:
        """Whether it is its tier's share of the KV cache that is missing, and not the cache itself."""
        share = self.policy.tiers[ticket.tier].kv_share
        if share >= 1.0:
            return False
        return not any(
            place.ledger.has_room(ticket.tier, ticket.tokens, share)
            for place in self.places.values()
            if not place.leaving
        )

    def _seat(self, ticket: Ticket, place: Place, now: float) -> Dispatch:
        place.running[ticket.id] = ticket.tenant
        tokens = placing.at_most(ticket.tokens, place)
        place.ledger.reserve(ticket.id, ticket.tier, tokens)
        self.seated[ticket.id] = (ticket, place.id)
        self._count(ticket.tenant, 1, tokens)
        self.queue.served(ticket, ticket.tokens, self.policy.share(ticket.tenant).weight)
        self._rate.add(now)
        if ticket.affinity:
            self._sessions.pop(ticket.affinity, None)
            self._sessions[ticket.affinity] = place.id
            if len(self._sessions) > MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return Dispatch(ticket, place.id)

    def _queue_is_full(self, ticket: Ticket, now: float) -> Refusal | None:
        tier, queue = self.policy.tiers[ticket.tier], self.queue.tiers[ticket.tier]
        if queue.count >= tier.queue_most:
            why = f"{queue.count} requests of the tier {tier.name} wait already, and no more may."
            return self._refuse(ticket, "queue_full", why, now)
        if queue.bytes + ticket.body_bytes > tier.queue_most_bytes:
            why = f"The waiting requests of the tier {tier.name} hold {queue.bytes} bytes, and no more may."
            return self._refuse(ticket, "queue_bytes", why, now)
        return None

    def _enqueue(self, ticket: Ticket, now: float) -> list[Answer]:
        ahead = self.queue.tiers[ticket.tier].ahead_of(ticket.tenant)
        self.queue.push(ticket)
        self.waiting[ticket.id] = ticket
        answers = self.fill(now)
        if ticket.id not in self.waiting:  # it had a right to a seat that those who wait do not have
            own = next(one for one in answers if one.ticket is ticket)
            return [*(one for one in answers if one is not own), own]
        expected_s = self._expected_wait_s(ahead, now)
        if expected_s is not None and now + expected_s > ticket.wait_until:
            self.abandoned(ticket.id)
            why = f"It would wait about {expected_s:.1f} s and may wait {ticket.wait_until - now:.1f} s."
            return [*answers, self._refuse(ticket, "too_slow", why, now)]
        return [*answers, Queued(ticket, ahead, expected_s)]

    def _expected_wait_s(self, ahead: int, now: float) -> float | None:
        rate = self._rate.per_s(now)
        return ahead / rate if rate else None

    def _refuse(self, ticket: Ticket, code: Refused, why: str, now: float) -> Refusal:
        wait_s = self._expected_wait_s(len(self.queue) + 1, now)
        retry_after_s = 1 if wait_s is None else max(1, min(RETRY_AFTER_MOST_S, math.ceil(wait_s)))
        return Refusal(ticket, code, why, retry_after_s)

    # -- sums ------------------------------------------------------------------------------------------------------

    def _count(self, tenant: str, seats: int, tokens: int) -> None:
        for table, change in ((self._running, seats), (self._kv, tokens)):
            left = table.get(tenant, 0) + change
            if left:
                table[tenant] = left
            else:
                table.pop(tenant, None)

    def _add_up(self) -> None:
        serving = [place for place in self.places.values() if not place.leaving]
        known = [one for place in serving if (one := place.ledger.capacity_tokens) is not None]
        self._serving, self._seats = len(serving), sum(place.seats for place in serving)
        self._largest = self._together = None
        if known and len(known) == len(serving):
            self._largest, self._together = max(known), sum(known)
        self._settled_at = max((place.settled_at for place in serving), default=0.0)
