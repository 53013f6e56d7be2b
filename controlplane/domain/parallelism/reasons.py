"""Why a candidate stands where it stands, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.parallelism.figures import figure
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.rejection import Rejection
from controlplane.domain.performance.curve import Point

_LOUD = 0.25  # share of communication from which it is called large


def of(question: Question, one: Candidate, first: Candidate, index: int) -> tuple[str, ...]:
    """Reasons in order: how it is cut, what it reaches, why not higher."""
    found = [_shape(question, one), _communication(question, one), _reach(question, one)]
    if one.split.experts:
        found.append(_experts(question, one))
    if index == 0:
        found.append(_why_first(question, one))
    else:
        found.append(_why_behind(question, one, first))
    if one.layout.idle_cards:
        idle = one.layout.idle_cards
        found.append(f"{idle} {'card stays' if idle == 1 else 'cards stay'} idle, and cost as much as the others.")
    return tuple(sentence for sentence in found if sentence)


def summary(question: Question, ranked: Sequence[Candidate], rejected: Sequence[Rejection]) -> str:
    """One sentence on the whole ranking."""
    name = question.model.name
    if not ranked:
        memory = [one for one in rejected if one.code == "memory"]
        last = max(memory or rejected, key=lambda one: one.split.cards)
        return f"{name} does not run on {_hardware(question)}. {last.split.label}: {last.reason}"
    best = ranked[0]
    plan = f"{best.copies} x {best.split.label}"
    if question.purpose == "offline":
        return f"{plan} gives the most: {best.at_load.output_tok_s:.0f} output tokens a second."
    if not best.meets_objective:
        return f"No split meets the objective for {name} on {_hardware(question)}; {plan} comes nearest."
    return f"{plan} meets the objective: {_times(best.at_load)}."


def _shape(question: Question, one: Candidate) -> str:
    split = one.split
    copies = f"{one.copies} {'copy' if one.copies == 1 else 'copies'}"
    if split.cards == 1:
        return f"{copies} of one card each, data parallel: each copy answers its own requests."
    where = "in one node" if one.layout.nodes_a_copy == 1 else f"over {one.layout.nodes_a_copy} nodes"
    return f"{copies} of {split.cards} cards ({split.label}), each {where}."


def _communication(question: Question, one: Candidate) -> str:
    split = one.split
    if split.cards == 1:
        return "No communication between cards."
    by = "NVLink" if split.ranks <= question.hardware.joined else "PCIe"
    if question.hardware.accelerator.vendor != "NVIDIA" and by == "NVLink":
        by = "the cards' own fabric"
    path = f"over {by}" if split.ranks > 1 else "between stages"
    if one.layout.crossings:
        path += f", with {one.layout.crossings} {'hop' if one.layout.crossings == 1 else 'hops'} over the network"
    loud = " That is much: fewer ranks would waste less." if one.communication_share > _LOUD and split.ranks > 1 else ""
    return f"Communication {path} takes {one.communication_share:.0%} of a step at this load.{loud}"


def _reach(question: Question, one: Candidate) -> str:
    if one.saturated:
        return f"The load is more than it completes: at most {figure(one.most.requests_s)} requests a second."
    target = question.target
    said = _times(one.at_load)
    missed = []
    if target.ttft_ms is not None and one.at_load.ttft_ms > target.ttft_ms:
        missed.append(f"{target.ttft_ms:g} ms to the first token")
    if target.tpot_ms is not None and one.at_load.tpot_ms > target.tpot_ms:
        missed.append(f"{target.tpot_ms:g} ms a token")
    if missed:
        return f"{said}: slower than the {' and the '.join(missed)} asked for."
    if one.carried is None or (target.ttft_ms is None and target.tpot_ms is None):
        return f"{said}, {one.at_load.output_tok_s:.0f} output tokens a second."
    return f"{said}, within the objective; up to {figure(one.carried.requests_s)} requests a second stay within it."


def _experts(question: Question, one: Candidate) -> str:
    experts = question.model.experts
    count = experts.count if experts else 0
    held = f"Each card holds {count // one.split.ranks} of {count} experts whole"
    if one.split.attention_copies == 1:
        return f"{held}: no expert is cut into slivers, but uneven choices leave cards waiting."
    latent = any(layer.kind == "mla" for layer in question.model.layers)
    copied = "; its latent cache would be copied on every rank of tensor parallelism" if latent else ""
    return f"{held} and attention of its own requests{copied}: more cache, no all-reduce in attention."


def _why_first(question: Question, one: Candidate) -> str:
    if question.purpose == "offline":
        if one.split.cards == 1:
            return "First: copies that do not talk to each other give the most tokens."
        return "First: its freed memory carries larger batches, which pays for its communication."
    if question.load.requests_per_s is None and question.load.concurrency is None and one.carried is not None:
        return "First: it carries most within the objective, larger splits counted less for what they cost in traffic."
    if one.at_ease and one.split.cards == 1:
        return "First: data parallel alone meets the objective with head-room, so nothing has to be split."
    if one.at_ease:
        return "First: the smallest split that meets the objective with head-room."
    if one.meets_objective:
        return "First: it meets the objective, with little head-room."
    return "First because the others miss the objective by more."


def _why_behind(question: Question, one: Candidate, first: Candidate) -> str:
    if question.purpose == "offline":
        share = one.at_load.output_tok_s / first.at_load.output_tok_s
        if share > 1:
            return f"{share - 1:.0%} more tokens than the first, too little for splitting a copy over more cards."
        return f"{share:.0%} of the first one's tokens a second."
    if not one.meets_objective and first.meets_objective:
        return "Behind those that meet the objective."
    if one.at_ease == first.at_ease and one.meets_objective and one.split.cards > first.split.cards:
        faster = first.at_load.tpot_ms / one.at_load.tpot_ms
        gain = f" A token comes {faster:.1f} times as fast here, for cases that need it." if faster > 1.1 else ""
        return f"A smaller split already meets the objective.{gain}"
    if first.carried is not None and one.carried is not None:
        return f"Carries {one.carried.requests_s / first.carried.requests_s:.0%} of the first within the objective."
    return "Further from the objective than the first."


def _times(point: Point) -> str:
    return f"First token after {point.ttft_ms:.0f} ms, {point.tpot_ms:.1f} ms a token"


def _hardware(question: Question) -> str:
    hardware = question.hardware
    nodes = "" if hardware.nodes == 1 else f" in {hardware.nodes} nodes"
    return f"{hardware.cards} {hardware.accelerator.name}{nodes}"
