"""How long a step of a serving engine takes and how much KV cache a card leaves, by a roofline of its data sheet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Card:
    """What one accelerator offers: peak figures of its data sheet."""

    memory_bytes: float
    bandwidth_bytes_per_s: float
    flops_per_s: float


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything that the engine's times and limits follow from."""

    weights_bytes: float
    parameters: float  # those that take part in computing one token
    kv_bytes_per_token: float
    bandwidth_bytes_per_s: float
    flops_per_s: float
    kv_blocks: int
    block_size: int = 16
    max_model_len: int = 8192
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    step_overhead_s: float = 0.0015


# reached in practice against the data sheet; and what is lost between cards that share a model
BANDWIDTH_REACHED = 0.80
FLOPS_REACHED = 0.50
SCALING_REACHED = 0.90
# activations, graphs and buffers that are neither weights nor KV cache, each card
OTHER_MEMORY_BYTES = 2 * 1024**3


def reached(card: Card, cards: int) -> tuple[float, float]:
    """Returns (bytes/s, operations/s) that `cards` cards with one model between them really reach."""
    scale = cards * (SCALING_REACHED if cards > 1 else 1.0)
    return card.bandwidth_bytes_per_s * BANDWIDTH_REACHED * scale, card.flops_per_s * FLOPS_REACHED * scale


def kv_blocks(card: Card, cards: int, share: float, weights_bytes: float, block_bytes: float) -> int:
    """Returns how many KV blocks are left over beside the weights when the engine may use `share` of each card."""
    left = cards * (card.memory_bytes * share - OTHER_MEMORY_BYTES) - weights_bytes
    return max(0, int(left // block_bytes))


def step_time_s(profile: Profile, new_tokens: int, context_tokens: int) -> float:
    """Returns the duration of a step that computes `new_tokens` and reads the cache of `context_tokens`."""
    computing = 2.0 * profile.parameters * new_tokens / profile.flops_per_s
    reading = (profile.weights_bytes + profile.kv_bytes_per_token * context_tokens) / profile.bandwidth_bytes_per_s
    return max(computing, reading) + profile.step_overhead_s
