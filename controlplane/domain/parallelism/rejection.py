"""Splits that can't be, or make no sense on these cards, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger import setup
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.parallelism import layout
from controlplane.domain.parallelism.hardware import BRIDGE_CARDS, Hardware
from controlplane.domain.parallelism.split import Split
from controlplane.domain.specs import precision as precisions
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.precision import Precision


@dataclass(frozen=True, slots=True)
class Rejection:
    """`code`: heads, layers, experts, precision, across_nodes, no_link, no_room, memory, needless_pipeline."""

    split: Split
    code: str
    reason: str


def by_shape(split: Split, model: ModelFacts, hardware: Hardware) -> Rejection | None:
    """What the model's shape and the wiring forbid; None where nothing does."""
    try:
        setup.check_split(model, split.tensor, split.pipeline)
    except RefusedError as refused:
        code = "layers" if "pipeline_parallel" in refused.fields else "heads"
        return Rejection(split, code, _plain(refused.message))
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
        return Rejection(split, "no_room", f"{split.label} does not lie on {_cards(hardware)} without leaving a node.")
    return None


def by_precision(split: Split, precision: Precision, hardware: Hardware) -> Rejection | None:
    """Numbers that engines don't calculate with on this card."""
    found = precisions.support(precision, hardware.accelerator)
    return Rejection(split, "precision", found.why) if found.level == "none" else None


def by_memory(split: Split, ledger: Ledger, request_tokens: float) -> Rejection | None:
    """What does not fit, with the sum that fails; None where it fits. `request_tokens`: a mean prompt and answer."""
    if not ledger.verdict.fits:
        return Rejection(split, "memory", ledger.verdict.sentence)
    longest = ledger.setup.max_model_len
    if longest < request_tokens:
        reason = f"A mean request has {request_tokens:.0f} tokens, and at most {longest} are served."
        return Rejection(split, "memory", reason)
    return None


def needless_pipeline(split: Split, simpler: Split) -> Rejection:
    """A pipeline where a copy fits with fewer stages."""
    kept = f"{simpler.label} fits" if simpler.cards > 1 else "One card holds the whole model"
    reason = f"{kept}: more stages than that only add hand-overs and empty slots between them."
    return Rejection(split, "needless_pipeline", reason)


def _plain(sentence: str) -> str:
    return sentence.replace("tensor_parallel", "TP").replace("pipeline_parallel", "PP")


def _cards(hardware: Hardware) -> str:
    return f"{hardware.nodes} x {hardware.cards_per_node} cards" if hardware.nodes > 1 else f"{hardware.cards} cards"
