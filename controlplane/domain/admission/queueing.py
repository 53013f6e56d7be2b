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
        self.admitted = dict.fromkeys(policy.tiers, 0)  # tier -> requests that got a seat, ever
        self.seated: dict[str, Ticket] = {}  # by id; where each sits and what it holds stands in the ticket
        self.waiting: dict[str, Ticket] = {}
        self._running: dict[str, int] = {}  # tenant -> seats it has
        self._kv: dict[str, int] = {}  # tenant -> KV tokens it holds; counted only where tenants have shares
        self._rate = Rate()
        self._sessions: dict[str, str] = {}  # affinity -> replica id, the oldest first
        # sums over the replicas that serve, made anew when these change
        self._serving = 0
        self._seats = 0
        self.largest: int | None = None  # KV tokens of the largest replica; None where one does not tell
        self._together: int | None = None  # KV tokens of all
        self._settled_at = 0.0  # from then on none starts slowly or rests

    # -- requests ------------------------------------------------------------------------------------------------

    def seat_at_once(self, ticket: Ticket, now: float) -> Place | None:
        """Returns the place of a request that finds nobody waiting and a replica with room, its seat and tokens being
        reserved; None leaves everything as it was, and `arrive` has the answer. The short way of nearly every request.
        """
        if self.queue.count or not self._serving:
            return None
        capacity = self.largest
        if capacity is not None and ticket.prompt_tokens > capacity:
            return None
        if not self._may_have_seat(ticket, now):
            return None
        place = self._place_for(ticket, now)
        if place is not None:
            self._seat(ticket, place, now)
        return place

    def arrive(self, ticket: Ticket, now: float) -> list[Answer]:
        """Takes a new request: dispatches it, lets it wait, or refuses it at once. Its answer comes last; before it
        come those of waiting requests that time has given a seat meanwhile."""
        place = self.seat_at_once(ticket, now)
        if place is not None:
            return [Dispatch(ticket, place.id)]
        if not self._serving:
            return [self._refuse(ticket, "no_replica", "No replica is ready.", now)]
        capacity = self.largest
        if capacity is not None and ticket.prompt_tokens > capacity:
            why = f"The prompt of about {ticket.prompt_tokens} tokens is longer than a KV cache of {capacity} tokens."
            return [self._refuse(ticket, "too_long", why, now)]
        refusal = self._queue_is_full(ticket, now)
        if refusal is not None:
            return [refusal]
        return self._enqueue(ticket, now)

    def ended(self, ticket_id: str, now: float, used_tokens: int | None = None) -> list[Answer]:
        """The request's body has ended, in whichever way: gives everything back, and returns who is next.

        `used_tokens` is what the engine counted; the tenant is charged for that instead of the estimate.
        """
        ticket = self.seated.pop(ticket_id, None)
        if ticket is None:
            return []
        place = self.places[ticket.replica_id]
        place.running -= 1
        held, tenant = ticket.held_tokens, ticket.tenant
        if held:
            place.ledger.add(ticket.tier, -held)
            ticket.held_tokens = 0
        left = self._running[tenant] - 1
        if left:
            self._running[tenant] = left
        else:
            del self._running[tenant]
        if self._kv:
            self._count_kv(tenant, -held)
        if used_tokens is not None:
            change = used_tokens - ticket.prompt_tokens - ticket.output_tokens
            self.queue.served(ticket, change, self.policy.share(tenant).weight if self.policy.shares else 1.0)
        if place.leaving and not place.running:
            del self.places[place.id]
        return self.fill(now) if self.queue.count else []

    def abandoned(self, ticket_id: str) -> bool:
        """A waiting client has left; returns whether it waited here."""
        ticket = self.waiting.pop(ticket_id, None)
        return ticket is not None and self.queue.remove(ticket)

    def grew(self, ticket_id: str, tokens: int) -> int:
        """A stream holds more tokens than was reserved; returns by how many its replica is overbooked now."""
        ticket = self.seated.get(ticket_id)
        if ticket is None:
            return 0
        ledger = self.places[ticket.replica_id].ledger
        change, ticket.held_tokens = tokens - ticket.held_tokens, tokens
        ledger.add(ticket.tier, change)
        if self.policy.shares:
            self._count_kv(ticket.tenant, change)
        return ledger.over_tokens

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
            self.places[replica_id].rest_until(until)
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

    def refuse_all(self, now: float) -> list[Answer]:
        """Tells everybody that waits that there is no replica any more."""
        answers: list[Answer] = []
        for ticket in list(self.waiting.values()):
            self.abandoned(ticket.id)
            answers.append(self._refuse(ticket, "no_replica", "No replica is left.", now))
        return answers

    def next_due(self) -> float | None:
        """Returns when the first waiting request expires."""
        return min((ticket.wait_until for ticket in self.waiting.values()), default=None)

    def fill(self, now: float) -> list[Answer]:
        """Gives free seats to those that wait, in fair order."""
        answers: list[Answer] = []
        while self.queue.count:
            found = self._next(now)
            if found is None:
                break
            ticket, place = found
            self.abandoned(ticket.id)
            self._seat(ticket, place, now)
            answers.append(Dispatch(ticket, place.id))
        return answers

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong; tests call it after every step."""
        self.queue.check_invariants()
        assert len(self.waiting) == len(self.queue), f"{len(self.waiting)} wait, {len(self.queue)} are queued"
        assert not self.waiting.keys() & self.seated.keys(), "a request waits and runs"
        running: dict[str, int] = {}
        kv: dict[str, int] = {}
        by_place: dict[str, dict[str, int]] = {name: {} for name in self.places}
        seats = dict.fromkeys(self.places, 0)
        for ticket in self.seated.values():
            seats[ticket.replica_id] += 1
            tiers = by_place[ticket.replica_id]
            tiers[ticket.tier] = tiers.get(ticket.tier, 0) + ticket.held_tokens
            running[ticket.tenant] = running.get(ticket.tenant, 0) + 1
            kv[ticket.tenant] = kv.get(ticket.tenant, 0) + ticket.held_tokens
        for place in self.places.values():
            held = {tier: tokens for tier, tokens in by_place[place.id].items() if tokens}
            assert place.running == seats[place.id], f"{place.id}: {place.running} run, {seats[place.id]} have seats"
            assert place.ledger.by_tier == held, f"{place.id}: {place.ledger.by_tier} reserved, {held} held"
            total = place.ledger.reserved_tokens
            assert total == sum(held.values()), f"{place.id}: {total} reserved, {held} held"
        assert running == self._running, f"{running} run, {self._running} counted"
        held = {name: tokens for name, tokens in kv.items() if tokens} if self.policy.shares else {}
        assert held == self._kv, f"{held} held, {self._kv} counted"

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
        policy, running = self.policy, self._running.get(ticket.tenant, 0)
        if running:
            kept = policy.kept_seats
            free = self._seats - len(self.seated)  # or more: seats on leaving replicas count as taken
            if self._seats > kept and (free <= kept or now < self._settled_at) and self._free_seats(now) <= kept:
                return False
        if not policy.shares:
            return True
        share = policy.share(ticket.tenant)
        if share.most >= 1.0:
            return True
        if running and running + 1 > max(1.0, share.most * self._seats):
            return False
        if self._together is not None:
            held = self._kv.get(ticket.tenant, 0)
            return not held or held + ticket.tokens <= share.most * self._together
        return True

    def _free_seats(self, now: float) -> int:
        return sum(place.free_seats(now) for place in self.places.values())

    def _place_for(self, ticket: Ticket, now: float) -> Place | None:
        tier, tokens = ticket.tier, ticket.prompt_tokens + ticket.output_tokens
        wanted = self._sessions.get(ticket.affinity, "") if ticket.affinity else ""
        return placing.choose(
            self.places.values(), tier, tokens, self.policy.tiers[tier].kv_share, now=now, wanted=wanted
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

    def _seat(self, ticket: Ticket, place: Place, now: float) -> None:
        tenant, tokens = ticket.tenant, ticket.prompt_tokens + ticket.output_tokens
        shares = self.policy.shares
        self.queue.served(ticket, tokens, self.policy.share(tenant).weight if shares else 1.0)
        tokens = placing.at_most(tokens, place)
        place.running += 1
        place.turn += 1
        place.ledger.add(ticket.tier, tokens)
        ticket.replica_id, ticket.held_tokens = place.id, tokens
        self.seated[ticket.id] = ticket
        self._running[tenant] = self._running.get(tenant, 0) + 1
        if shares:
            self._count_kv(tenant, tokens)
        self.admitted[ticket.tier] += 1
        self._rate.add(now)
        if ticket.affinity:
            self._sessions.pop(ticket.affinity, None)
            self._sessions[ticket.affinity] = place.id
            if len(self._sessions) > MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]

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
        ticket.waited = True
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

    def _count_kv(self, tenant: str, change: int) -> None:
        left = self._kv.get(tenant, 0) + change
        if left:
            self._kv[tenant] = left
        else:
            self._kv.pop(tenant, None)

    def _add_up(self) -> None:
        serving = [place for place in self.places.values() if not place.leaving]
        known = [one for place in serving if (one := place.ledger.capacity_tokens) is not None]
        self._serving, self._seats = len(serving), sum(place.seats for place in serving)
        self.largest = self._together = None
        if known and len(known) == len(serving):
            self.largest, self._together = max(known), sum(known)
        self._settled_at = max((place.settled_at for place in serving), default=0.0)
