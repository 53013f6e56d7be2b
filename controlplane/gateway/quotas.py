"""Quotas at work: a request reserves its estimate before it is let in, and settles what it used when it is over.

Guarantees
    Whose request it is comes from its key alone. A key without quotas costs a look-up. What is reserved is given back
    exactly once: `settle` and `refund` may be called in any order and again.
    Valkey is asked only where this gateway holds too little; without it the gateway goes on with what it holds.
Does not do
    Decide: `controlplane.domain.quotas` does.
Concurrency
    One event loop; changes in place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import redis.asyncio

from controlplane.domain.admission.ticket import Ticket
from controlplane.domain.quotas.answers import GRANTED, NeedsSlice, QuotaAnswer, QuotaRefusal
from controlplane.domain.quotas.book import SliceBook
from controlplane.domain.quotas.headers import RateLimitHeaders
from controlplane.domain.quotas.measures import MONEY, TOKENS
from controlplane.domain.quotas.meter import Meter
from controlplane.domain.quotas.quota import Price, Who
from controlplane.domain.routing import RoutedKey, RoutingSnapshot
from controlplane.gateway.client import Headers
from controlplane.gateway.errors import quota_exceeded
from controlplane.lib.quota_leases import Leases

FREE = Price()


class Limits:
    """What limits the requests of one key to one deployment."""

    __slots__ = ("headers", "meters", "most_money", "most_tokens", "price", "who")

    def __init__(self, who: Who, meters: tuple[Meter, ...], price: Price | None) -> None:
        self.who = who
        self.meters = meters
        self.price = (price or FREE) if any(meter.unit == MONEY for meter in meters) else None
        self.headers = RateLimitHeaders(meters)
        self.most_tokens = min((meter.limit for meter in meters if meter.unit == TOKENS), default=None)
        self.most_money = min((meter.limit for meter in meters if meter.unit == MONEY), default=0)


class Quotas:
    """The book of one gateway process and its link to the others' through Valkey."""

    def __init__(self) -> None:
        self.book = SliceBook()
        self.leases: Leases | None = None
        self.refused: dict[tuple[str, str, str], int] = {}  # (tenant, quota, measure) -> requests
        self._prices: dict[str, Price] = {}
        self._known: dict[str, dict[str, Limits | None]] = {}  # deployment -> key id -> its limits

    def update(self, snapshot: RoutingSnapshot) -> None:
        """Takes over the quotas and prices of a new snapshot."""
        if tuple(snapshot.quotas) != self.book.quotas:
            self.book.set_quotas(snapshot.quotas)
        self._prices = {name: one.price for name, one in snapshot.deployments.items() if one.price is not None}
        self._known.clear()

    def connect(self, client: redis.asyncio.Redis, gateway_id: str) -> None:
        """Sets where slices come from."""
        self.leases = Leases(client, self.book, gateway_id)

    async def run(self) -> None:
        """Keeps in touch with Valkey; ends only when cancelled."""
        assert self.leases is not None
        await self.leases.run()

    async def leave(self) -> None:
        """Gives back what no request holds."""
        if self.leases is not None:
            await self.leases.leave()

    # -- requests ------------------------------------------------------------------------------------------------------

    def limits_of(self, key: RoutedKey, deployment: str) -> Limits | None:
        """Returns what limits a key's requests to a deployment; None = nothing."""
        keys = self._known.get(deployment)
        if keys is None:
            keys = self._known[deployment] = {}
        try:
            return keys[key.id]
        except KeyError:
            who = Who(key.tenant, key.id, deployment)
            meters = self.book.meters_of(who)
            found = keys[key.id] = Limits(who, meters, self._prices.get(deployment)) if meters else None
            return found

    def reserve_at_once(self, limits: Limits, ticket: Ticket, *, is_guess: bool) -> bool:
        """Reserves what a ticket is estimated at, from what this gateway holds; False: `reserve` has the answer.

        `is_guess`: the client did not say how much it wants at most, so it is not refused for more than the limit.
        """
        leases = self.leases
        assert leases is not None
        return self._reserve(limits, ticket, is_guess, ticket.arrived_at + leases.ahead_s) is GRANTED

    async def reserve(self, limits: Limits, ticket: Ticket, *, is_guess: bool) -> None:
        """Reserves and waits for Valkey where this gateway holds too little; raises GatewayError 429."""
        leases = self.leases
        assert leases is not None
        answer = await leases.until_known(lambda: self._reserve(limits, ticket, is_guess, leases.now()))
        if answer is GRANTED:
            return
        if isinstance(answer, NeedsSlice):
            answer = self.book.contended(limits.meters, answer)
        assert isinstance(answer, QuotaRefusal)
        address = (limits.who.tenant, answer.quota, answer.measure)
        self.refused[address] = self.refused.get(address, 0) + 1
        raise quota_exceeded(answer, self.headers(limits, time.monotonic()))

    def settle(self, limits: Limits, ticket: Ticket, prompt_tokens: int, output_tokens: int) -> None:
        """The request is over and used so much."""
        money = 0 if limits.price is None else limits.price.cost(prompt_tokens, output_tokens)
        self.book.close(ticket.id, (1, prompt_tokens + output_tokens, money))

    def refund(self, ticket: Ticket) -> None:
        """The request came to nothing."""
        self.book.refund(ticket.id)

    def headers(self, limits: Limits, at: float) -> Headers:
        """Returns the `x-ratelimit-*` headers for an answer, as one piece; `at` is of the monotonic clock."""
        headers = limits.headers
        assert self.leases is not None
        return [(headers.name, headers.value(at + self.leases.ahead_s))] if headers.name else []

    # -- what is told --------------------------------------------------------------------------------------------------

    @property
    def is_cut_off(self) -> bool:
        """Whether Valkey does not answer while there are quotas to share."""
        return self.book.cut_off_at is not None and bool(self.book.meters)

    def notes(self) -> Iterator[str]:
        """Yields what `/readyz` says of quotas that are not shared with other gateways now."""
        if self.is_cut_off:
            yield "quotas: Valkey does not answer; they go on with what this gateway holds"

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong."""
        self.book.check_invariants()

    def _reserve(self, limits: Limits, ticket: Ticket, is_guess: bool, now: float) -> QuotaAnswer:
        prompt, output = ticket.prompt_tokens, ticket.output_tokens
        tokens, money = prompt + output, 0
        if is_guess and limits.most_tokens is not None:
            tokens = min(tokens, max(prompt, limits.most_tokens))
        if limits.price is not None:
            money = limits.price.cost(prompt, output)
            if is_guess and money > limits.most_money:
                money = max(limits.price.cost(prompt, 0), limits.most_money)
        answer = self.book.reserve_from(limits.meters, ticket.id, tokens, money, now)
        if self.book.wants_sync and self.leases is not None:
            self.leases.wake()
        return answer
