"""The replicas of one deployment together: which serve, how many seats and KV tokens they have, who gets the next one.

Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from controlplane.domain.admission import place as placing
from controlplane.domain.admission.pace import Prefill
from controlplane.domain.admission.place import Place
from controlplane.domain.admission.ticket import Ticket
from controlplane.domain.sequence_kv import SequenceKv

MOST_SESSIONS = 4096
NOTHING_ELSEWHERE: Mapping[str, tuple[int, int]] = {}


class Serving:
    """`places` maps replica id -> what is known of it. The sums are over the replicas that serve, and made anew when
    these change; None where one does not tell. `taken` are seats, those on leaving replicas too."""

    __slots__ = (
        "_sessions",
        "count",
        "kv_tokens",
        "largest",
        "places",
        "prefill",
        "prefill_ahead_s",
        "seats",
        "sequence_kv",
        "settled_at",
        "taken",
    )

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}
        self.prefill = Prefill()
        self.prefill_ahead_s = math.inf  # no replica gets so many prompts at once that they take it longer than this
        self.count = 0
        self.seats = 0
        self.sequence_kv: SequenceKv | None = None  # of its model; None = each token is held alike
        self.taken = 0
        self.largest: int | None = None  # KV tokens of the largest replica
        self.kv_tokens: int | None = None  # of all
        self.settled_at = 0.0  # from then on none starts slowly or rests
        self._sessions: dict[str, str] = {}  # affinity -> replica id, the oldest first

    def set(
        self,
        seats: Mapping[str, int],
        capacity_tokens: Mapping[str, int | None],
        now: float,
        elsewhere: Mapping[str, tuple[int, int]] = NOTHING_ELSEWHERE,
    ) -> None:
        """Takes over which replicas are ready. One that is gone from the list gets nothing new and is forgotten when
        its last request has ended. `elsewhere` is what others hold in them: (requests, KV tokens)."""
        new_at = now if self.places else now - placing.SLOW_START_S  # the first ones have nobody to spare them the load
        for replica_id, count in seats.items():
            place = self.places.get(replica_id)
            if place is None:
                place = self.places[replica_id] = Place(replica_id, count, new_at)
            capacity, (requests, tokens) = capacity_tokens.get(replica_id), elsewhere.get(replica_id, (0, 0))
            place.elsewhere_seats = min(count, requests)
            place.seats, place.leaving, place.elsewhere_tokens = count - place.elsewhere_seats, False, 0
            if capacity is not None and tokens:
                place.elsewhere_tokens = min(tokens, capacity)
                capacity -= place.elsewhere_tokens
                place.seats = place.seats if capacity else 0
            place.ledger.capacity_tokens = capacity
        for replica_id in [one for one in self.places if one not in seats]:
            self.places[replica_id].leaving = True
            if not self.places[replica_id].running:
                del self.places[replica_id]
        self._add_up()

    def rest(self, replica_id: str, until: float) -> None:
        """Nothing new goes to a replica until then (its breaker is open)."""
        if replica_id in self.places:
            self.places[replica_id].rest_until(until)
            self._add_up()

    def free_seats(self, now: float) -> int:
        """Returns how many seats may be given away now."""
        return sum(place.free_seats(now) for place in self.places.values())

    def has_free_seat(self, now: float) -> bool:
        """Whether any may be given away now."""
        return any(place.running < place.seats and place.free_seats(now) for place in self.places.values())

    def place_for(self, ticket: Ticket, tier_share: float, now: float, *, is_alone: bool = True) -> Place | None:
        """Returns where a request goes, None when no replica has a seat and the tokens; `is_alone` = no other tier
        waits."""
        wanted = self._sessions.get(ticket.affinity, "") if ticket.affinity else ""
        tokens = self.kv_of(ticket)
        places: Iterable[Place] = self.places.values()
        if ticket.avoid:
            places = [one for one in places if one.id != ticket.avoid]
        return placing.choose(
            places,
            ticket.tier,
            tokens,
            tier_share,
            now=now,
            is_alone=is_alone,
            wanted=wanted,
            sequences=ticket.sequences,
            prefilled_by=self._prefilled_by(ticket, now) if self.prefill.slope_s else math.inf,
        )

    def _prefilled_by(self, ticket: Ticket, now: float) -> float:
        ahead_s = self.prefill_ahead_s - self.prefill.slope_s * ticket.prompt_tokens
        return now + ahead_s if ahead_s > 0.0 else now

    def prefilled_at(self, ticket: Ticket, now: float) -> float | None:
        """Returns when a replica with a free seat will have computed enough of its prompts to take this one's; None
        where it is not that what it waits for."""
        ahead_s = self._prefilled_by(ticket, now) - now
        free = [one.prefilled_at - ahead_s for one in self.places.values() if one.free_seats(now)]
        return min(free) if free and min(free) > now else None

    def never_fits(self, ticket: Ticket) -> bool:
        """Whether even an empty replica, the largest, could not hold what a request is sure to need."""
        capacity = self.largest
        if capacity is None:
            return False
        sure = ticket.sure_tokens if ticket.sure_tokens > ticket.prompt_tokens else ticket.prompt_tokens
        return (sure if self.sequence_kv is None else self.sequence_kv.held_tokens(sure, ticket.sequences)) > capacity

    @property
    def longest_tokens(self) -> int | None:
        """The longest request that the largest replica holds; None = not known."""
        if self.largest is None or self.sequence_kv is None:
            return self.largest
        return self.sequence_kv.longest_tokens(self.largest)

    def kv_of(self, ticket: Ticket) -> int:
        """Returns the KV tokens that a request needs for its prompt and its output."""
        tokens = ticket.prompt_tokens + ticket.output_tokens
        return tokens if self.sequence_kv is None else self.sequence_kv.held_tokens(tokens, ticket.sequences)

    def grown(self, ticket: Ticket, tokens: int) -> int:
        """Lets a seated request have so many tokens, prompt and output, and returns by how many it holds more now."""
        before = ticket.held_tokens
        ticket.covered_tokens = tokens
        kept = self.sequence_kv
        ticket.held_tokens = tokens if kept is None else kept.held_tokens(tokens, ticket.sequences)
        return ticket.held_tokens - before

    def take(self, ticket: Ticket, place: Place, now: float) -> int:
        """Seats a request and returns the KV tokens that it holds from now on."""
        tokens = placing.at_most(self.kv_of(ticket), place)
        seats = ticket.held_seats = 1 if ticket.sequences == 1 else placing.seats_for(ticket.sequences, place)
        place.running += seats
        self.taken += seats
        place.turn += 1
        if self.prefill.slope_s:
            place.prefilled_at = max(now, place.prefilled_at) + self.prefill.slope_s * ticket.prompt_tokens
        place.ledger.add(ticket.tier, tokens)
        ticket.replica_id, ticket.held_tokens = place.id, tokens
        ticket.covered_tokens = tokens if self.sequence_kv is None else ticket.prompt_tokens + ticket.output_tokens
        if ticket.affinity:
            self._sessions.pop(ticket.affinity, None)
            self._sessions[ticket.affinity] = place.id
            if len(self._sessions) > MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        return tokens

    def give_back(self, ticket: Ticket) -> int:
        """Takes a request out of its seats and returns the KV tokens that it held."""
        place, held = self.places[ticket.replica_id], ticket.held_tokens
        place.running -= ticket.held_seats
        self.taken -= ticket.held_seats
        if held:
            place.ledger.add(ticket.tier, -held)
            ticket.held_tokens = 0
        if place.leaving and not place.running:
            del self.places[place.id]
        return held

    def has_other(self, replica_id: str, now: float) -> bool:
        """Returns whether a replica besides this one serves now."""
        return any(one.id != replica_id and not one.leaving and one.rests_until <= now for one in self.places.values())

    def lacks_tier_share(self, ticket: Ticket, tier_share: float, *, is_alone: bool) -> bool:
        """Whether a request would have to wait for its tier's share of the KV cache, however empty the cache itself."""
        if tier_share >= 1.0:
            return False
        tokens = self.kv_of(ticket)
        return not any(
            place.ledger.is_in_share(ticket.tier, placing.at_most(tokens, place), tier_share, is_alone=is_alone)
            for place in self.places.values()
            if not place.leaving
        )

    def exceeds_share(self, ticket: Ticket, tier_share: float) -> bool:
        """Whether a request is longer than its tier's share of the largest replica."""
        return self.largest is not None and min(self.kv_of(ticket), self.largest) > tier_share * self.largest

    def is_beyond_share(self, ticket: Ticket, tier_share: float) -> bool:
        """Whether the tier of a seated request holds more than its share where that runs."""
        return not self.places[ticket.replica_id].ledger.is_in_share(ticket.tier, 0, tier_share)

    def check_invariants(self, seated: Mapping[str, Ticket]) -> None:
        """Raises AssertionError with the sum that is wrong; `seated` are the requests that have seats."""
        by_place: dict[str, dict[str, int]] = {name: {} for name in self.places}
        seats = dict.fromkeys(self.places, 0)
        for ticket in seated.values():
            seats[ticket.replica_id] += ticket.held_seats
            tiers = by_place[ticket.replica_id]
            tiers[ticket.tier] = tiers.get(ticket.tier, 0) + ticket.held_tokens
        assert self.taken == sum(seats.values()), f"{self.taken} seats counted, {seats} taken"
        for place in self.places.values():
            held = {tier: tokens for tier, tokens in by_place[place.id].items() if tokens}
            assert place.running == seats[place.id], f"{place.id}: {place.running} counted, {seats[place.id]} taken"
            assert place.ledger.by_tier == held, f"{place.id}: {place.ledger.by_tier} reserved, {held} held"
            total = place.ledger.reserved_tokens
            assert total == sum(held.values()), f"{place.id}: {total} reserved, {held} held"

    def _add_up(self) -> None:
        serving = [place for place in self.places.values() if not place.leaving]
        known = [one for place in serving if (one := place.whole_tokens) is not None]
        self.count, self.seats = len(serving), sum(place.seats for place in serving)
        self.largest = self.kv_tokens = None
        if known and len(known) == len(serving):
            self.largest, self.kv_tokens = max(known), sum(known)
        self.settled_at = max((place.settled_at for place in serving), default=0.0)
