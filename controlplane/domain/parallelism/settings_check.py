"""An engine's settings and a model's facts, checked before anything is worked out from them."""

from __future__ import annotations

from controlplane.domain.ledger.setup import Wishes
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.specs.model import ModelFacts

MOST_BYTES = 2**50
MOST_TOKENS = 1_000_000_000
MOST_SEQUENCES = 1_000_000
_COUNTS: tuple[tuple[str, int, int], ...] = (
    ("max_model_len", 1, MOST_TOKENS),
    ("max_num_seqs", 1, MOST_SEQUENCES),
    ("max_num_batched_tokens", 1, MOST_TOKENS),
    ("block_size", 1, 1_000_000),
    ("kv_cap_bytes", 1, MOST_BYTES),
    ("free_bytes", 0, MOST_BYTES),
    ("mean_request_tokens", 1, MOST_TOKENS),
    ("cpu_offload_bytes", 0, MOST_BYTES),
    ("foreign_bytes", 0, MOST_BYTES),
    ("reserve_bytes", 0, MOST_BYTES),
    ("adapters", 0, 100_000),
    ("adapter_rank", 1, 8192),
)


def check_wishes(bounds: Bounds, wishes: Wishes) -> None:
    """Notes each setting that can't be; None is the engine's default."""
    for field, least, most in _COUNTS:
        value = getattr(wishes, field)
        if value is not None:
            bounds.count(field, value, least, most)
    bounds.optional("utilization", wishes.utilization, 0, 1, above=True)
    bounds.optional("kv_cap_share", wishes.kv_cap_share, 0, 1, above=True)


def check_model(bounds: Bounds, model: ModelFacts) -> None:
    """Notes what has to be known of a model; a width that is 0 is not known, and allowed."""
    bounds.count("model.parameters", model.parameters, 1, 10**15)
    bounds.count("model.num_hidden_layers", model.num_hidden_layers, 1, 10_000)


def unknown_widths(model: ModelFacts) -> tuple[str, ...]:
    """What can't be said because a width is not known."""
    found = []
    if not model.num_attention_heads:
        found.append("The number of attention heads is not known; whether TP divides them was not checked.")
    if not model.hidden_size:
        found.append("The hidden size is not known; communication between cards was taken too low.")
    return tuple(found)
