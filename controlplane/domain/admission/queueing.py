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
from dataclasses import replace
from itertools import islice

from controlplane.domain.admission.fair_queue import FairQueue
from controlplane.domain.admission.place import Place
from controlplane.domain.admission.policy import Policy
from controlplane.domain.admission.refusing import Refusing
from controlplane.domain.admission.serving import NOTHING_ELSEWHERE, Serving
from controlplane.domain.admission.tenants import Tenants
from controlplane.domain.admission.ticket import Answer, Dispatch, Queued, Ticket
from controlplane.domain.sequence_kv import SequenceKv

TRIED_MOST = 16  # tenants of a tier, when the first ones are too large for what is free
HOLDS_UP_FROM = 0.5  # of its patience: a large request holds up its own tier from then on


class Admission:
    """The rules. `places` maps replica id -> what is known of it."""

    def __init__(self, policy: Policy) -> None:
        self.told = policy
        self.policy = policy  # with the tiers that are taken away and end with their last request
        self.queue = FairQueue({name: tier.weight for name, tier in policy.tiers.items()})
        self.serving = Serving()
        self.places = self.serving.places
        self.tenants = Tenants(policy, self.serving)
        self.admitted = dict.fromkeys(policy.tiers, 0)  # tier -> requests that got a seat, ever
        self.seated: dict[str, Ticket] = {}  # by id; where each sits and what it holds stands in the ticket
        self.waiting: dict[str, Ticket] = {}
        self.refusing = Refusing(self.queue, self.serving, self.tenants)

    def set_policy(self, policy: Policy, now: float) -> list[Answer]:
        """Takes over changed rules. Who waits goes on waiting, as long as it was told; who runs keeps what it has."""
        tiers = dict(policy.tiers)
        for name, queue in self.queue.tiers.items():
            if name not in tiers and (queue.count or any(one.tier == name for one in self.seated.values())):
                tiers[name] = self.policy.tiers[name]
        self.told = policy
        self.policy = replace(policy, tiers=tiers)
        self.queue.set_weights({name: tier.weight for name, tier in tiers.items()})
        for name in tiers:
            self.admitted.setdefault(name, 0)
        self.tenants.set_policy(self.policy, self.seated.values())
        return self.fill(now)

    # -- requests ------------------------------------------------------------------------------------------------

    def seat_at_once(self, ticket: Ticket, now: float) -> Place | None:
        """Returns the place of a request that finds nobody waiting and a replica with room, its seat and tokens being
        reserved; None leaves everything as it was, and `arrive` has the answer. The short way of nearly every request.
        """
        serving = self.serving
        if self.queue.count or not serving.count:
            return None
        tier = self.told.tiers.get(ticket.tier)
        if tier is None:
            return None
        # one that has no time to wait (its prompt takes as long as its target) is served when nobody has to
        if now > ticket.wait_until and (ticket.waited or now > ticket.arrived_at + tier.longest_wait_s):
            return None
        if serving.never_fits(ticket) or not self.tenants.may_have_seat(ticket, now):
            return None
        place = serving.place_for(ticket, tier.kv_share, now)
        if place is not None:
            self._seat(ticket, place, now)
        return place

    def arrive(self, ticket: Ticket, now: float) -> list[Answer]:
        """Takes a new request: dispatches it, lets it wait, or refuses it at once. Its answer comes last; before it
        come those of waiting requests that time has given a seat meanwhile. Its tier becomes one that there is: the
        rules may have changed since it was asked."""
        ticket.tier = self.told.tier_of(ticket.tier)
        place = self.seat_at_once(ticket, now)
        if place is not None:
            return [Dispatch(ticket, place.id)]
        if not self.serving.count:
            return [self.refusing.refuse(ticket, "no_replica", "No replica is ready.", now)]
        if now > ticket.wait_until:
            return [self.refusing.expired(ticket, now)]
        if self.serving.never_fits(ticket):
            return [self.refusing.never_fits(ticket, now)]
        tier = self.policy.tiers[ticket.tier]
        spared = None
        if self.tenants.shared and self.tenants.is_below_guarantee(ticket.tenant):
            spared = self.tenants.is_below_guarantee
        out = self.queue.tiers[tier.name].pushed_out_by(ticket, tier.queue_most, tier.queue_most_bytes, spared)
        if out is None:
            return [self.refusing.queue_is_full(ticket, tier, now)]
        return self._enqueue(ticket, out, now)

    def ended(self, ticket_id: str, now: float, used_tokens: int | None = None) -> list[Answer]:
        """The request's body has ended, in whichever way: gives everything back, and returns who is next.

        `used_tokens` is what the engine counted; the tenant is charged for that instead of the estimate.
        """
        ticket = self.seated.pop(ticket_id, None)
        if ticket is None:
            return []
        self.refusing.hold.learn(now - ticket.seated_at)
        tenants = self.tenants
        tenants.gave_back(ticket.tenant, ticket.held_seats, self.serving.give_back(ticket))
        if used_tokens is not None:
            change = used_tokens - ticket.prompt_tokens - ticket.output_tokens
            self.queue.served(ticket, change, tenants.weight(ticket.tenant) if tenants.shared else 1.0)
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
        change = self.serving.grown(ticket, tokens)
        ledger.add(ticket.tier, change)
        self.tenants.grew(ticket.tenant, change)
        return ledger.over_tokens

    # -- replicas and time -----------------------------------------------------------------------------------------

    def set_replicas(
        self,
        seats: Mapping[str, int],
        capacity_tokens: Mapping[str, int | None],
        now: float,
        elsewhere: Mapping[str, tuple[int, int]] = NOTHING_ELSEWHERE,
        sequence_kv: SequenceKv | None = None,
    ) -> list[Answer]:
        """Takes over which replicas are ready, with their seats and KV capacity. One that is gone from the list gets
        nothing new and is forgotten when its last request has ended. `elsewhere` is what other gateway processes hold
        in them: (requests, KV tokens). `sequence_kv` says what a sequence holds where not each token is held alike; who
        runs keeps what it has."""
        self.serving.sequence_kv = sequence_kv
        self.serving.set(seats, capacity_tokens, now, elsewhere)
        return self.fill(now)

    def rest(self, replica_id: str, until: float) -> None:
        """Nothing new goes to a replica until then (its breaker is open)."""
        self.serving.rest(replica_id, until)

    def tick(self, now: float) -> list[Answer]:
        """Ends what has waited too long and gives away what has become free. Call at `next_due` and once a second."""
        late = [ticket for ticket in self.waiting.values() if ticket.wait_until <= now]
        answers: list[Answer] = []
        for ticket in late:
            self.abandoned(ticket.id)
            answers.append(self.refusing.expired(ticket, now))
        if self.is_parting:
            return answers + self.set_policy(self.told, now)
        return answers + self.fill(now)

    @property
    def is_parting(self) -> bool:
        """Whether a tier was taken away and has not ended yet."""
        return len(self.policy.tiers) > len(self.told.tiers)

    def refuse_all(self, now: float) -> list[Answer]:
        """Tells everybody that waits that there is no replica any more."""
        answers: list[Answer] = []
        for ticket in list(self.waiting.values()):
            self.abandoned(ticket.id)
            answers.append(self.refusing.refuse(ticket, "no_replica", "No replica is left.", now))
        return answers

    def next_due(self) -> float | None:
        """Returns when the first waiting request expires."""
        return min((ticket.wait_until for ticket in self.waiting.values()), default=None)

    def next_fill_at(self, now: float) -> float | None:
        """Returns when a seat is given away though nobody ends: a replica has seats free, and prompts to compute first.
        None where that is not what is waited for. Call `fill` then."""
        if not self.queue.count or math.isinf(self.serving.prefill_ahead_s):
            return None
        heads = (next(tier.heads(), None) for _, tier in self.queue.in_order())
        due = [at for head in heads if head is not None and (at := self.serving.prefilled_at(head, now)) is not None]
        return min(due, default=None)

    def fill(self, now: float) -> list[Answer]:
        """Gives free seats to those that wait, in fair order."""
        answers: list[Answer] = []
        while self.queue.count and self.serving.has_free_seat(now):
            found = self._next(now)
            if found is None:
                break
            ticket, place = found
            self.abandoned(ticket.id)
            if now > ticket.wait_until:  # the timer is late
                answers.append(self.refusing.expired(ticket, now))
                continue
            self._seat(ticket, place, now)
            answers.append(Dispatch(ticket, place.id))
        return answers

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong; tests call it after every step."""
        self.queue.check_invariants()
        assert len(self.waiting) == len(self.queue), f"{len(self.waiting)} wait, {len(self.queue)} are queued"
        assert not self.waiting.keys() & self.seated.keys(), "a request waits and runs"
        self.serving.check_invariants(self.seated)
        self.tenants.check_invariants(self.seated.values())

    # -- decisions -------------------------------------------------------------------------------------------------

    def _next(self, now: float) -> tuple[Ticket, Place] | None:
        """The next request that can have a seat: of tenants below their guarantee first, in whichever tier, else in
        fair order. One that lacks KV tokens or several seats is waited for, so that large requests are not passed by
        small ones for ever: by lighter tiers always, by its own from half of its patience on, never by heavier ones.
        One that lacks only its tier's or its tenant's share lets others go first."""
        tiers = [tier for _, tier in self.queue.in_order()]
        if self.tenants.shared:
            heads = [ticket for tier in tiers for ticket in tier.heads()]
            for ticket in heads:
                if self.tenants.is_below_guarantee(ticket.tenant):
                    found, waits = self._first_of([ticket], now)
                    if found is not None or waits:
                        return found
        held_up = 0.0  # the weight of the heaviest tier whose first one is waited for
        for tier in tiers:
            if tier.weight > held_up:
                found, waits = self._first_of(tier.heads(), now)
                if found is not None:
                    return found
                held_up = tier.weight if waits else held_up
        return None

    def _first_of(self, tickets: Iterable[Ticket], now: float) -> tuple[tuple[Ticket, Place] | None, bool]:
        """The first of these that can have a seat; else whether one of them is waited for."""
        waits = False
        for ticket in islice(tickets, TRIED_MOST):
            if not self.tenants.may_have_seat(ticket, now):
                continue
            share = self.policy.tiers[ticket.tier].kv_share
            is_alone = self.queue.count == self.queue.tiers[ticket.tier].count
            place = self.serving.place_for(ticket, share, now, is_alone=is_alone)
            if place is not None:
                return (ticket, place), False
            if ticket.avoid:  # what it lacks is a seat elsewhere, so there may be one for others
                continue
            if self.serving.lacks_tier_share(ticket, share, is_alone=is_alone):
                if not is_alone and self.serving.exceeds_share(ticket, share):
                    continue  # its turn comes when no other tier waits, and its own tier shall not wait for that
                return None, waits
            waits = True
            if now - ticket.arrived_at >= HOLDS_UP_FROM * (ticket.wait_until - ticket.arrived_at):
                break
        return None, waits

    def _seat(self, ticket: Ticket, place: Place, now: float) -> None:
        tenant, tenants = ticket.tenant, self.tenants
        tokens = ticket.prompt_tokens + ticket.output_tokens
        self.queue.served(ticket, tokens, tenants.weight(tenant) if tenants.shared else 1.0)
        held_tokens = self.serving.take(ticket, place, now)
        tenants.took(tenant, ticket.held_seats, held_tokens)
        self.seated[ticket.id] = ticket
        ticket.seated_at = now
        self.admitted[ticket.tier] += 1
        self.refusing.rate.add(now)

    def _enqueue(self, ticket: Ticket, out: Iterable[Ticket], now: float) -> list[Answer]:
        """Lets a request wait if it can make it, in the places of those that are to go `out` for it."""
        ahead = self.refusing.ahead_of(ticket)
        self.queue.push(ticket)
        self.waiting[ticket.id] = ticket
        ticket.waited = True
        answers = self.fill(now)
        if ticket.id not in self.waiting:  # it had a right to a seat that those who wait do not have
            own = next(one for one in answers if one.ticket is ticket)
            return [*(one for one in answers if one is not own), own]
        expected_s = self.refusing.expected_wait_s(ahead, now)
        if expected_s is not None and now + expected_s > ticket.wait_until:
            self.abandoned(ticket.id)
            return [*answers, self.refusing.too_slow(ticket, expected_s, now)]
        answers += [self.refusing.pushed_out(one, now) for one in out if self.abandoned(one.id)]
        return [*answers, Queued(ticket, ahead, expected_s)]
