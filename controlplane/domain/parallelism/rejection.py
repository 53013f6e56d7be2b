"""Splits that can't be, or make no sense on these cards, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger import one_request, setup
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism import layout
from controlplane.domain.parallelism.hardware import BRIDGE_CARDS, Hardware
from controlplane.domain.parallelism.split import Split
from controlplane.domain.specs import precision as precisions
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.precision import Precision


@dataclass(frozen=True, slots=True)
class Rejection:
    """`code`: heads, layers, experts, length, precision, widths, across_nodes, no_link, no_room, memory,
    needless_pipeline."""

    split: Split
    code: str
    reason: str


def by_shape(split: Split, model: ModelFacts, hardware: Hardware) -> Rejection | None:
    """What the model's shape and the wiring forbid; None where nothing does."""
    wrong = _by_heads_and_layers(split, model)
    if wrong is not None:
        return wrong
    experts = model.experts
    if split.experts and experts is not None and experts.count % split.ranks:
        reason = f"{experts.count} experts can't be dealt out evenly to {split.ranks} ranks."
        return Rejection(split, "experts", reason)
    if split.ranks > hardware.cards_per_node and split.ranks > hardware.joined:
        reason = (
            f"{split.ranks} ranks need more than the {hardware.cards_per_node} cards of a node; tensor and expert "
            "parallelism exchange activations in every layer, which the network between nodes is too slow for."
        )
        return Rejection(split, "across_nodes", reason)
    if BRIDGE_CARDS <= hardware.joined < split.ranks:
        reason = (
            f"NVLink joins {hardware.joined} cards here; {split.ranks} ranks would cross PCIe in every layer. "
            "A pipeline over such groups, or fewer ranks, keeps that traffic on NVLink."
        )
        return Rejection(split, "no_link", reason)
    if layout.lie(split, hardware).copies < 1:
        reason = f"There is no room for {split.cards} cards a copy on {hardware.nodes} x {hardware.cards_per_node}."
        return Rejection(split, "no_room", reason)
    return None


def _by_heads_and_layers(split: Split, model: ModelFacts) -> Rejection | None:
    try:
        setup.check_split(model, split.tensor, split.pipeline)
    except RefusedError as refused:
        heads, tensor = model.num_attention_heads, split.tensor
        if "pipeline_parallel" in refused.fields:
            reason = f"There are {split.pipeline} stages, more than the {model.num_hidden_layers} layers of this model."
            return Rejection(split, "layers", reason)
        if heads and heads % tensor:
            reason = f"TP {tensor} does not divide the {heads} attention heads of this model."
            return Rejection(split, "heads", reason)
        heads = next(one.kv_heads for one in model.layers if one.kv_heads % tensor and tensor % one.kv_heads)
        reason = f"TP {tensor} neither divides the {heads} key-value heads of this model nor is it a multiple of them."
        return Rejection(split, "heads", reason)
    return None


def by_precision(split: Split, precision: Precision, hardware: Hardware) -> Rejection | None:
    """Numbers that engines don't calculate with on this card."""
    found = precisions.support(precision, hardware.accelerator)
    return Rejection(split, "precision", found.why) if found.level == "none" else None


def by_memory(split: Split, ledger: Ledger, request_tokens: float) -> Rejection | None:
    """What does not fit, with the sum that fails; None where it fits. `request_tokens`: a mean prompt and answer."""
    if not ledger.verdict.fits:
        code = ledger.verdict.reason if ledger.verdict.reason in one_request.NEVER_STARTS else "memory"
        return Rejection(split, code, ledger.verdict.sentence)
    longest = ledger.setup.max_model_len
    if longest < request_tokens:
        reason = f"A mean request has {request_tokens:.0f} tokens, and at most {longest} are served."
        return Rejection(split, "memory", reason)
    return None


def needless_pipeline(split: Split, simpler: Split) -> Rejection:
    """A pipeline where a copy fits with fewer stages."""
    if simpler.cards == 1:
        reason = "One card holds the whole model: stages would only add hand-overs and empty slots between them."
    else:
        reason = f"{simpler.label} fits: more stages would only add hand-overs and empty slots between them."
    return Rejection(split, "needless_pipeline", reason)
