"""The KV tokens of one replica: how many are reserved, and by which tier.

Guarantees
    `reserved_tokens` is the sum of `by_tier`; at rest both are exactly 0 and empty. Who holds how much stands in the
    tickets, and `Admission.check_invariants` compares the two.
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

    def is_in_share(self, tier: str, tokens: int, tier_share: float, *, is_alone: bool = True) -> bool:
        """Returns whether a tier may hold so many tokens more. One request longer than the share may while its tier
        holds nothing and no other tier waits (`is_alone`): it could never run else."""
        capacity = self.capacity_tokens
        if capacity is None or tier_share >= 1.0:
            return True
        held = self.by_tier.get(tier, 0)
        return held + tokens <= tier_share * capacity or (is_alone and not held)

    def add(self, tier: str, tokens: int) -> None:
        """Reserves so many more for a tier; negative gives back."""
        self.reserved_tokens += tokens
        left = self.by_tier.get(tier, 0) + tokens
        if left:
            self.by_tier[tier] = left
        else:
            self.by_tier.pop(tier, None)

    @property
    def over_tokens(self) -> int:
        """What is reserved beyond the capacity."""
        return max(0, self.reserved_tokens - self.capacity_tokens) if self.capacity_tokens is not None else 0
