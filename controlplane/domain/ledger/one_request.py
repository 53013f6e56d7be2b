"""The check an engine makes before it serves: does the pool hold one request of the largest length?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from controlplane.domain.footprint import card_formats, hybrid, kv, widths
from controlplane.domain.footprint.hybrid import KvLayout
from controlplane.domain.ledger.budget import Budget
from controlplane.domain.ledger.setup import Setup

GIB = 2**30
MIB = 2**20
_CPU_BLOCK_TOKENS = 128
_PLAIN_BITS = 16
_SHORTEST_LENGTH = 2048  # nobody serves shorter contexts: a length that was not given is not shortened below it
Reason = Literal[
    "fits", "unknown", "length", "precision", "widths", "weights", "free_memory", "no_room_for_cache", "one_request",
    "cap",
]  # fmt: skip
NEVER_STARTS: tuple[Reason, ...] = ("length", "precision", "widths")  # however much memory there is


@dataclass(frozen=True, slots=True)
class Verdict:
    """`fits` is None where the card's memory is not known. `sentence` is the sum that decides, in GiB."""

    fits: bool | None
    reason: Reason
    sentence: str


def pool_layout(setup: Setup, *, whole_model: bool = False) -> KvLayout:
    """The pool of the fullest rank; `whole_model` = as if one stage held all layers."""
    stages = 1 if whole_model else setup.pipeline_parallel
    found = kv.buckets(
        setup.layers,
        tensor_parallel=setup.tensor_parallel,
        precision=setup.precision.kv,
        rules=setup.rules,
        stages=stages,
        draft_tokens=setup.draft.tokens if setup.draft else 0,
        eagle=setup.draft is not None and setup.draft.eagle,
    )
    return hybrid.layout(
        found,
        setup.rules,
        batched_tokens=setup.max_num_batched_tokens,
        block_tokens=setup.wishes.block_size or (_CPU_BLOCK_TOKENS if setup.card.is_cpu else None),
        latent_block_tokens=setup.rules.latent_block_tokens(
            card_formats.capability_of(setup.card.facts),
            sparse=any(layer.indexer_elements for layer in setup.layers),
            packed=setup.precision.kv.element_bits < _PLAIN_BITS,
        ),
        stages=setup.pipeline_parallel,
        plans_ahead=not setup.card.is_cpu,
    )


def checked_layout(setup: Setup) -> KvLayout:
    """The pool as the engine's check sees it: older versions compared all layers with the memory of one stage."""
    return pool_layout(setup, whole_model=_compares_whole_model(setup))


def _compares_whole_model(setup: Setup) -> bool:
    return setup.pipeline_parallel > 1 and setup.rules.checks_stage_against_whole_model


def decide(setup: Setup, budget: Budget, layout: KvLayout) -> Verdict:
    """Whether the engine starts, by the first sum that fails in the order in which the engine makes them."""
    verdict = _decide(setup, budget, layout)
    guessed = setup.wishes.tensor_parallel is None and not setup.wishes.ranks_must_be_known
    if guessed and verdict.reason in ("weights", "no_room_for_cache"):
        if budget.capped and setup.length_was_given:
            split = replace(
                setup, tensor_parallel=max((layer.kv_heads for layer in setup.model.layers), default=1) or 1
            )
            beyond = _beyond_cache(split, budget.available_bytes or 0, checked_layout(split))
            if beyond is not None:  # however many cards share it
                return beyond
        sentence = f"{verdict.sentence} How many cards share the model is not known: tensor_parallel is not given."
        return Verdict(None, "unknown", sentence)
    return verdict


def _decide(setup: Setup, budget: Budget, layout: KvLayout) -> Verdict:
    if setup.length_is_beyond_model:
        return Verdict(False, "length", _beyond_model(setup))
    refused = card_formats.refusal(setup.precision, setup.model.family, setup.card.facts, setup.rules)
    if refused:
        return Verdict(False, "precision", refused)
    refused = widths.refusal(
        setup.model,
        setup.precision,
        setup.rules,
        tensor_parallel=setup.tensor_parallel,
        whole_experts=setup.wishes.expert_parallel,
    )
    if refused:
        return Verdict(False, "widths", refused)
    if budget.total_bytes is not None:
        failed = _card(setup, budget)
        if failed is not None:
            return failed
    available = budget.available_bytes
    if available is None:
        return Verdict(None, "unknown", "The card's memory is not known, so nothing can be said about fitting.")
    if setup.model.keeps_nothing:
        return _without_cache(setup, budget)
    if available <= 0:
        return Verdict(False, "no_room_for_cache", _no_room(budget))
    beyond = _beyond_cache(setup, available, layout)
    if beyond is not None:
        return beyond
    needed, usable = _compared(layout.needed_bytes(setup.max_model_len), layout.usable_bytes(available))
    compared = f"{needed} GiB for one request of {setup.max_model_len} tokens"
    if layout.null_blocks:
        block = f"{layout.bytes_per_block / MIB:.2f}"
        rest = f"{usable} GiB are left for the cache beside one block of {block} MiB that the engine holds back"
        return Verdict(True, "fits", f"{compared}; {rest}.")
    return Verdict(True, "fits", f"{compared}; {usable} GiB are left for the cache.")


def _beyond_model(setup: Setup) -> str:
    """What vLLM says of all versions from 0.6 on before it loads anything, and the ways out of it."""
    limit = setup.model.max_position_embeddings
    return (
        f"max_model_len {setup.max_model_len} is more than the {limit} tokens that the model's config.json allows: "
        f"vLLM does not start with it. Set at most {limit}; or, where the model was made for rope scaling, give that "
        "with --hf-overrides. VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 lets it start with answers that may be nonsense."
    )


def _beyond_cache(setup: Setup, available_bytes: int, layout: KvLayout) -> Verdict | None:
    """One request of the largest length is more than the cache; None where it is not."""
    needed, usable = layout.needed_bytes(setup.max_model_len), max(layout.usable_bytes(available_bytes), 0)
    if needed <= usable:
        return None
    more, less = _compared(needed, usable)
    compared = f"{more} GiB for one request of {setup.max_model_len} tokens"
    if layout.null_blocks:
        block = f"{layout.bytes_per_block / MIB:.2f}"
        left = f"{less} GiB left for the cache beside one block of {block} MiB that the engine holds back"
        return Verdict(False, "one_request", f"{compared} is more than the {left}.")
    beyond = f"{compared} is more than the {less} GiB left for the cache."
    if not _compares_whole_model(setup):
        return Verdict(False, "one_request", beyond)
    return Verdict(False, "one_request", f"{beyond} Before 0.16 all layers were compared with the memory of one stage.")


def _compared(needed_bytes: int, usable_bytes: int) -> tuple[str, str]:
    """Both in GiB, with as many digits as it takes to see which is more."""
    pairs = ((f"{needed_bytes / GIB:.{digits}f}", f"{usable_bytes / GIB:.{digits}f}") for digits in (2, 3, 4, 6))
    return next((pair for pair in pairs if pair[0] != pair[1]), (_gib(needed_bytes), _gib(usable_bytes)))


def _without_cache(setup: Setup, budget: Budget) -> Verdict:
    """Engines do not check the cache of a model that keeps nothing for a request: a step has to fit, that is all."""
    held = budget.held_bytes + budget.activation_bytes
    free = _free_bytes(setup, budget)
    sums = f"{_gib(held)} GiB of weights and what a step needs, of {_gib(free)} GiB"
    if held > free:
        return Verdict(False, "weights", f"An encoder that keeps no cache takes {sums}: that is too much.")
    return Verdict(True, "fits", f"An encoder that keeps no cache takes {sums}.")


def _free_bytes(setup: Setup, budget: Budget) -> int:
    """What others leave of the card."""
    left = (budget.total_bytes or 0) - budget.foreign_bytes
    return left if setup.wishes.free_bytes is None else min(setup.wishes.free_bytes, left)


def _card(setup: Setup, budget: Budget) -> Verdict | None:
    """What fails before the cache is looked at."""
    total = budget.total_bytes or 0
    free = _free_bytes(setup, budget)
    if not budget.capped and budget.requested_bytes is not None and budget.requested_bytes > free < total:
        share = f"{setup.utilization:.2f} of {_gib(total)} GiB is {_gib(budget.requested_bytes)} GiB"
        return Verdict(False, "free_memory", f"{share}, but only {_gib(free)} GiB are free on the card.")
    held = budget.weights_bytes + budget.non_torch_bytes + budget.adapter_bytes
    if held > free:
        sentence = (
            f"{_gib(held)} GiB of weights and what comes with them is more than the {_gib(free)} GiB of the card."
        )
        return Verdict(False, "weights", sentence)
    cap = budget.available_bytes
    if budget.capped and cap is not None and held + cap > free:
        sentence = (
            f"{_gib(held)} GiB to hold and a cache of {_gib(cap)} GiB are more than {_gib(free)} GiB on the card."
        )
        return Verdict(False, "cap", sentence)
    return None


def _no_room(budget: Budget) -> str:
    parts = [
        f"{_gib(budget.requested_bytes or 0)} requested",
        f"{_gib(budget.weights_bytes)} weights",
        f"{_gib(budget.activation_bytes)} activation peak",
        f"{_gib(budget.non_torch_bytes)} outside torch",
    ]
    if budget.graphs_inside:
        parts.append(f"{_gib(budget.graphs_bytes)} CUDA graphs")
    if budget.adapter_bytes:
        parts.append(f"{_gib(budget.adapter_bytes)} LoRA buffers")
    if budget.reserve_bytes:
        parts.append(f"{_gib(budget.reserve_bytes)} reserve")
    left = _gib(budget.available_bytes or 0)
    return f"Nothing is left for the cache: {' - '.join(parts)} = {left} GiB."


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"


def shortened(setup: Setup, budget: Budget, layout: KvLayout) -> Setup:
    """The set-up with the longest length that fits, where the length was not given and may be shortened."""
    if setup.length_was_given or setup.wishes.length_must_fit or budget.capped or budget.available_bytes is None:
        return setup
    if layout.needed_bytes(setup.max_model_len) <= layout.usable_bytes(budget.available_bytes):
        return setup
    longest = layout.longest_tokens(budget.available_bytes, setup.max_model_len)
    if longest < _SHORTEST_LENGTH:
        return setup
    note = f"{setup.max_model_len} tokens do not fit; {longest}, the longest length that does, was taken instead."
    return replace(setup, max_model_len=longest, assumptions=(*setup.assumptions, note))
