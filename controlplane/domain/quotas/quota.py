"""A quota: whose requests it counts, and how much of what they may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Who:
    """Whose request it is, from its key alone, and for which deployment."""

    tenant: str
    key_id: str
    deployment: str


@dataclass(frozen=True, slots=True)
class Quota:
    """`limits` maps a measure's name to how much (money in millionths). Where `key_id` or `deployment` is empty it
    counts the requests of all keys of the tenant, or to all deployments, together."""

    id: str
    name: str
    tenant: str
    key_id: str = ""
    deployment: str = ""
    limits: Mapping[str, int] = field(default_factory=dict)

    def counts(self, who: Who) -> bool:
        """Returns whether it counts such a request."""
        return self.tenant == who.tenant and self.key_id in ("", who.key_id) and self.deployment in ("", who.deployment)


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in the installation's currency (so many millionths a token)."""

    prompt_per_million: float = 0.0
    completion_per_million: float = 0.0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> int:
        """Returns what so many tokens cost, in millionths, rounded up."""
        exact = prompt_tokens * self.prompt_per_million + completion_tokens * self.completion_per_million
        return -int(-exact // 1)
