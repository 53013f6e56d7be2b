"""Advice on a set-up, each with its reason. Nothing is ever changed by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from controlplane.domain.footprint.hybrid import KvLayout
from controlplane.domain.ledger.budget import Budget
from controlplane.domain.ledger.setup import Setup

GIB = 2**30
_LARGE_KV_SHARE = 0.45  # practitioners keep the cache below 40 to 50 % of a card while activations are not known
_HIGH_UTILIZATION = 0.92
_LONG_CONTEXT_TOKENS = 32768
_FULL_CARD_SHARE = 0.85


@dataclass(frozen=True, slots=True)
class Advice:
    """`field` is the setting it is about."""

    code: str
    field: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Starting:
    """A replica that starts, or waits to, on a card (any value that tells cards apart)."""

    replica: str
    deployment: str
    card: int


def give(setup: Setup, budget: Budget, layout: KvLayout) -> tuple[Advice, ...]:
    """Advice in the order of settings."""
    found: list[Advice] = []
    total, available = budget.total_bytes, budget.available_bytes
    if total and available is not None:
        found.extend(_shares(setup, budget, total, available))
    limit = setup.model.max_position_embeddings
    beyond = setup.length_was_given and limit is not None and setup.max_model_len > limit
    if beyond and not setup.length_is_beyond_model:
        sentence = (
            f"max_model_len {setup.max_model_len} is more than the {limit} tokens that are known here as the most of "
            "this model or its base: where its files say no more either, vLLM does not start with it."
        )
        found.append(Advice("length_beyond_model", "max_model_len", sentence))
    mean = setup.wishes.mean_request_tokens
    if mean and available is not None and layout.bytes_per_block:
        carried = layout.pool_blocks(available) // max(1, layout.blocks_for(mean))
        if setup.max_num_seqs > carried:
            sentence = (
                f"max_num_seqs {setup.max_num_seqs} is more than the {carried} requests of {mean} tokens the cache "
                f"holds: the rest would be preempted and computed again. Lower it to {max(1, carried)}."
            )
            found.append(Advice("max_num_seqs_beyond_cache", "max_num_seqs", sentence))
    return tuple(found)


def in_turn(starting: Sequence[Starting]) -> tuple[Advice, ...]:
    """Advice for a replica that was placed on accelerators where others are starting; nothing without any."""
    if not starting:
        return ()
    first, more = starting[0], len(starting) - 1
    others = f" and {more} more" if more else ""
    sentence = (
        f"Replica {first.replica} of {first.deployment}{others} was starting, or waited to start, on the same card "
        "when this one was placed. Each engine measures free memory while it starts, so the node starts them one after "
        "another: this one waits its turn."
    )
    return (Advice("two_starts_on_one_card", "accelerator", sentence),)


def would_wait(starting: Sequence[Starting], cards: int) -> tuple[Advice, ...]:
    """Advice before a placement: on some of `cards` of one make others are starting; nothing without any."""
    if not starting:
        return ()
    first, busy = starting[0], len({one.card for one in starting})
    sentence = (
        f"An engine is starting, or waits to start, on {busy} of {cards} cards of this make, such as replica "
        f"{first.replica} of {first.deployment}. Each measures free memory while it starts, so a node starts them one "
        "after another: a replica that is placed there waits its turn."
    )
    return (Advice("two_starts_on_one_card", "accelerator", sentence),)


def _shares(setup: Setup, budget: Budget, total: int, available: int) -> list[Advice]:
    found = []
    share = available / total
    if share > _LARGE_KV_SHARE and setup.wishes.max_num_batched_tokens is None:
        found.append(_large_cache(setup, budget, share, available))
    if not budget.capped and setup.utilization > _HIGH_UTILIZATION and setup.max_model_len > _LONG_CONTEXT_TOKENS:
        sentence = (
            f"Utilization {setup.utilization:.2f} with contexts of {setup.max_model_len} tokens leaves "
            f"{(1 - setup.utilization) * total / GIB:.1f} GiB for everything the engine does not count: long prompts "
            f"then run out of memory. Stay at or below {_HIGH_UTILIZATION:.2f}."
        )
        found.append(Advice("high_utilization", "gpu_memory_utilization", sentence))
    beside = total - (budget.requested_bytes or 0) - budget.foreign_bytes
    if not budget.capped and not budget.graphs_inside and budget.graphs_bytes > beside:
        sentence = (
            f"CUDA graphs of about {budget.graphs_bytes / GIB:.1f} GiB are not in the budget of engine "
            f"{setup.rules.label}, and only {max(0, beside) / GIB:.1f} GiB stay beside it: lower the utilization."
        )
        found.append(Advice("graphs_beside_budget", "gpu_memory_utilization", sentence))
    return [*found, *_filling(setup, budget, total, available)]


def _large_cache(setup: Setup, budget: Budget, share: float, available: int) -> Advice:
    if budget.capped:
        sentence = (
            f"A cache of {available / GIB:.1f} GiB is {share:.0%} of the card while the activation peak is not known "
            "(max_num_batched_tokens is not given): keep it below 40 to 50 % until a start has measured it."
        )
        return Advice("large_cache", _cap_field(setup), sentence)
    sentence = (
        f"The cache is taken for {share:.0%} of the card while the activation peak is not known "
        "(max_num_batched_tokens is not given). The engine measures the peak at its start and makes the cache so much "
        "smaller: rely on 40 to 50 % of the card until then, or give max_num_batched_tokens."
    )
    return Advice("large_cache", "max_num_batched_tokens", sentence)


def _filling(setup: Setup, budget: Budget, total: int, available: int) -> tuple[Advice, ...]:
    filled = budget.held_bytes + budget.activation_bytes + max(0, available) + budget.foreign_bytes
    if filled <= _FULL_CARD_SHARE * total:
        return ()
    if budget.capped and filled > total:
        left = max(0, total - (filled - max(0, available)))
        sentence = (
            f"A cache of {available / GIB:.2f} GiB is more than the {left / GIB:.2f} GiB that the rest leaves: "
            f"together they would take {min(filled / total, 9.99):.0%} of the card, and the engine runs out of "
            "memory. Lower the cap."
        )
        return (Advice("cap_beyond_card", _cap_field(setup), sentence),)
    field = _cap_field(setup) if budget.capped else "gpu_memory_utilization"
    said = (
        f"The card is filled to {min(filled / total, 9.99):.0%}; above {_FULL_CARD_SHARE:.0%} fragmentation and other "
        "processes decide whether it keeps running."
    )
    below = _below(setup, budget, filled - _FULL_CARD_SHARE * total)
    return (Advice("full_card", field, " ".join((said, below))),)


def _below(setup: Setup, budget: Budget, beyond_bytes: float) -> str:
    """What would take the card below the limit that it is beyond by so much."""
    total, left = budget.total_bytes or 0, (budget.available_bytes or 0) - beyond_bytes
    utilization = floor((setup.utilization - beyond_bytes / max(1, total)) * 100) / 100
    if left <= 0 or (utilization <= 0 and not budget.capped):
        return "Without a cache it would be too: spread the model over more cards, or take a smaller one."
    if budget.capped:
        return f"A cap of {floor(left / GIB * 10) / 10:.1f} GiB gets below."
    return f"A utilization of {utilization:.2f} gets below, with {left / GIB:.1f} GiB of cache."


def _cap_field(setup: Setup) -> str:
    return "kv_cache_memory_share" if setup.wishes.kv_cap_bytes is None else "kv_cache_memory_bytes"
