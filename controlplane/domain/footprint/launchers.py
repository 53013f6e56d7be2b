"""Settings that programs give an engine when they start it inside of themselves, where nothing else is known."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30
# Unsloth chooses the batch by the memory that is left for the cache, in GiB (its settings of 2025)
_UNSLOTH_SEQUENCES = ((2, 128), (4, 160), (8, 192), (12, 224), (16, 256), (24, 288), (40, 320), (48, 226), (80, 368))
_UNSLOTH_MOST_SEQUENCES = 400
_UNSLOTH_ADAPTER_RANK = 64


@dataclass(frozen=True, slots=True)
class Preset:
    """What a launcher sets. The token budget is the length of the context."""

    max_num_seqs: int
    adapters: int
    adapter_rank: int
    assumption: str


def unsloth(requested_bytes: int, weights_bytes: int) -> Preset:
    """Of an engine inside Unsloth: one adapter slot, and a batch by what is left for the cache."""
    left_gib = (requested_bytes - weights_bytes) / GIB
    sequences = next((count for limit, count in _UNSLOTH_SEQUENCES if left_gib <= limit), _UNSLOTH_MOST_SEQUENCES)
    note = f"Started inside Unsloth, by the model's name: max_num_seqs {sequences} and one adapter slot were taken."
    return Preset(sequences, 1, _UNSLOTH_ADAPTER_RANK, note)
