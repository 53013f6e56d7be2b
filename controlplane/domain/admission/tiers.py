"""Tiers: how long a request may wait, how long it may take, and how much of the KV cache its kind may hold."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Tier:
    """One tier of a deployment. While several tiers wait they share seats by `weight`, counted in tokens.

    `kv_share` is the most of a replica's KV tokens that the tier may hold (1.0 = all of them). A whole request may take
    `total_base_s` + `total_per_token_s` x its tokens, so that a long generation is not cut by a flat number.
    """

    name: str
    weight: float
    queue_most: int
    queue_most_bytes: int
    longest_wait_s: float
    total_base_s: float
    total_per_token_s: float
    kv_share: float = 1.0


INTERACTIVE = Tier("interactive", 8.0, 256, 16 * MIB, 2.0, 30.0, 0.25)
STANDARD = Tier("standard", 4.0, 1024, 64 * MIB, 30.0, 120.0, 0.5)
BATCH = Tier("batch", 1.0, 4096, 256 * MIB, 600.0, 1800.0, 2.0, kv_share=0.8)
DEFAULT_TIERS = (INTERACTIVE, STANDARD, BATCH)


def longest_wait_s(tier: Tier, ttft_target_s: float | None, predicted_prefill_s: float = 0.0) -> float:
    """Returns how long a request may wait for a seat: the tier's own limit, and no longer than leaves time for its
    prefill before the target of the first token."""
    if ttft_target_s is None:
        return tier.longest_wait_s
    return max(0.0, min(tier.longest_wait_s, ttft_target_s - predicted_prefill_s))


def total_limit_s(tier: Tier, tokens: int) -> float:
    """Returns how long a request of so many prompt and output tokens may take from its arrival."""
    return tier.total_base_s + tier.total_per_token_s * max(0, tokens)
