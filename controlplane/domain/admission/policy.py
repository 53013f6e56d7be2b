"""What a deployment's admission is told by people: tiers, tenants' shares, and what is kept for whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controlplane.domain.admission.tiers import DEFAULT_TIERS, STANDARD, Tier


@dataclass(frozen=True, slots=True)
class TenantShare:
    """`guaranteed` and `most` are shares of a deployment's seats and KV tokens; what is guaranteed and idle is lent."""

    weight: float = 1.0
    guaranteed: float = 0.0
    most: float = 1.0


EVERYBODY = TenantShare()


@dataclass(frozen=True, slots=True)
class Policy:
    """`kept_seats` of a deployment, and as many seats' part of its KV tokens, go only to tenants that have nothing
    running, where it has more than that."""

    tiers: Mapping[str, Tier] = field(default_factory=lambda: {tier.name: tier for tier in DEFAULT_TIERS})
    shares: Mapping[str, TenantShare] = field(default_factory=dict)
    kept_seats: int = 1

    def share(self, tenant: str) -> TenantShare:
        """Returns the share of a tenant; everybody's where it has none of its own."""
        return self.shares.get(tenant, EVERYBODY)

    def weights(self) -> dict[str, float]:
        """Returns tier -> weight."""
        return {name: tier.weight for name, tier in self.tiers.items()}

    def tier_of(self, name: str) -> str:
        """Returns where a request of a tier belongs: in `standard` where that tier is none (any more), and where that
        is none either in the one of the least weight."""
        if name in self.tiers:
            return name
        if STANDARD.name in self.tiers:
            return STANDARD.name
        return min(self.tiers.values(), key=lambda tier: (tier.weight, tier.name)).name

    def oversold(self) -> float:
        """Returns the sum of what is guaranteed; above 1.0 more is promised than there is."""
        return sum(share.guaranteed for share in self.shares.values())
