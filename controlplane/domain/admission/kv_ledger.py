"""The KV tokens of one replica: who holds how many.

Guarantees
    `reserved` is the sum over everything that is held, and so is `by_tier`; at rest every counter is exactly 0.
    Growth beyond the capacity is noted and allowed: the engine's preemption is the backstop, a running request is
    never cut by an estimate.
Concurrency
    One owner; changes in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class KvLedger:
    """`capacity_tokens` None = the engine has not told; then only seats limit."""

    capacity_tokens: int | None = None
    reserved_tokens: int = 0
    by_tier: dict[str, int] = field(default_factory=dict)
    held: dict[str, tuple[str, int]] = field(default_factory=dict)  # ticket -> (tier, tokens)

    def has_room(self, tier: str, tokens: int, tier_share: float) -> bool:
        """Returns whether so many tokens are free, in the replica and in the tier's share of it."""
        if self.capacity_tokens is None:
            return True
        if self.reserved_tokens + tokens > self.capacity_tokens:
            return False
        return tier_share >= 1.0 or self.by_tier.get(tier, 0) + tokens <= tier_share * self.capacity_tokens

    def reserve(self, ticket_id: str, tier: str, tokens: int) -> None:
        """Holds tokens for a ticket that holds none yet."""
        assert ticket_id not in self.held, f"{ticket_id} holds tokens already"
        self.held[ticket_id] = (tier, tokens)
        self._add(tier, tokens)

    def resize(self, ticket_id: str, tokens: int) -> int:
        """Holds so many from now on, as the engine reports or as a stream grows; returns the tokens that are held
        beyond the capacity by everybody together."""
        tier, before = self.held[ticket_id]
        self.held[ticket_id] = (tier, tokens)
        self._add(tier, tokens - before)
        return max(0, self.reserved_tokens - self.capacity_tokens) if self.capacity_tokens is not None else 0

    def release(self, ticket_id: str) -> int:
        """Gives back what a ticket holds and returns how much that was; 0 when it holds nothing."""
        tier, tokens = self.held.pop(ticket_id, ("", 0))
        if tier:
            self._add(tier, -tokens)
        return tokens

    def check_invariants(self) -> None:
        """Raises AssertionError with the sum that is wrong."""
        total = sum(tokens for _, tokens in self.held.values())
        assert self.reserved_tokens == total, f"{self.reserved_tokens} reserved, {total} held"
        tiers: dict[str, int] = {}
        for tier, tokens in self.held.values():
            tiers[tier] = tiers.get(tier, 0) + tokens
        kept = {tier: tokens for tier, tokens in self.by_tier.items() if tokens}
        assert kept == {tier: tokens for tier, tokens in tiers.items() if tokens}, f"{kept} by tier, {tiers} held"

    def _add(self, tier: str, tokens: int) -> None:
        self.reserved_tokens += tokens
        left = self.by_tier.get(tier, 0) + tokens
        if left:
            self.by_tier[tier] = left
        else:
            self.by_tier.pop(tier, None)
