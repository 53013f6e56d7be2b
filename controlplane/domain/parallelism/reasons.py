"""Why a candidate stands where it stands, in sentences that each stand for themselves."""

from __future__ import annotations

from collections.abc import Sequence

from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.parallelism.figures import figure
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.rejection import Rejection

_LOUD = 0.25  # share of communication from which it is called large
_MUCH_FASTER = 1.1


def of(question: Question, one: Candidate, first: Candidate, index: int) -> tuple[str, ...]:
    """Reasons in order: how it is cut, what it reaches, why not higher."""
    found = [_shape(one), *_communication(question, one), *_reach(question, one)]
    if one.split.experts:
        found.append(_experts(question, one))
    found.extend([_why_first(question, one)] if index == 0 else _why_behind(question, one, first))
    needed = one.copies_needed
    if needed is not None and needed < one.copies and question.purpose == "interactive":
        found.append(f"Copies that this load takes: {needed} of {one.copies}.")
    if one.layout.idle_cards == 1:
        found.append("1 card stays idle, and costs as much as the others.")
    elif one.layout.idle_cards:
        found.append(f"{one.layout.idle_cards} cards stay idle, and cost as much as the others.")
    return tuple(found)


def summary(question: Question, ranked: Sequence[Candidate], rejected: Sequence[Rejection]) -> str:
    """One sentence on the whole ranking."""
    name, cards = question.model.name, hardware_label(question)
    if not ranked:
        memory = [one for one in rejected if one.code == "memory"]
        last = max(memory or rejected, key=lambda one: one.split.cards)
        return f"{name} does not run on {cards}. {last.split.label}: {last.reason}"
    best = ranked[0]
    plan = f"{best.copies} x {best.split.label}"
    if question.purpose == "offline":
        return f"{plan} gives the most: {best.at_load.output_tok_s:.0f} output tokens a second."
    if not best.meets_objective:
        return f"No split meets the objective for {name} on {cards}; {plan} comes nearest."
    ttft, tpot = f"{best.at_load.ttft_ms:.0f}", f"{best.at_load.tpot_ms:.1f}"
    if question.model.pools:
        return f"{plan} meets the objective: an answer after {ttft} ms."
    return f"{plan} meets the objective: the first token after {ttft} ms, then {tpot} ms a token."


def hardware_label(question: Question) -> str:
    """8 H100-SXM, or 2 x 8 H100-SXM for two nodes."""
    hardware = question.hardware
    nodes = "" if hardware.nodes == 1 else f"{hardware.nodes} x "
    return f"{nodes}{hardware.cards_per_node} {hardware.accelerator.name}"


def _shape(one: Candidate) -> str:
    cards, copies, label = one.split.cards, one.copies, one.split.label
    if cards == 1:
        return f"Copies of one card each, {copies} of them: each answers its own requests."
    if one.layout.nodes_a_copy == 1:
        return f"Copies of {cards} cards each ({label}), {copies} of them, each inside a node."
    return f"Copies of {cards} cards each ({label}), {copies} of them, each over {one.layout.nodes_a_copy} nodes."


def _communication(question: Question, one: Candidate) -> list[str]:
    split, hops = one.split, one.layout.crossings
    if split.cards == 1:
        return ["No communication between cards."]
    share = f"{one.communication_share:.0%}"
    if split.ranks == 1:
        found = [f"Handing over between stages takes {share} of a step at this load."]
    elif split.ranks > question.hardware.joined:
        found = [f"Communication over PCIe takes {share} of a step at this load."]
    elif question.hardware.accelerator.vendor == "NVIDIA":
        found = [f"Communication over NVLink takes {share} of a step at this load."]
    else:
        found = [f"Communication over the cards' own fabric takes {share} of a step at this load."]
    if hops:
        found.append(f"Each token goes over the network between nodes, hops a copy: {hops}.")
    if one.communication_share > _LOUD and split.ranks > 1:
        found.append("That much communication is wasteful: fewer ranks would spend less on it.")
    return found


def _reach(question: Question, one: Candidate) -> list[str]:
    target, point = question.target, one.at_load
    if one.saturated:
        return [f"The load is more than it completes: at most {figure(one.most.requests_s)} requests a second."]
    found = [
        f"First token after {point.ttft_ms:.0f} ms, then {point.tpot_ms:.1f} ms a token, "
        f"{point.output_tok_s:.0f} output tokens a second."
    ]
    if question.model.pools:
        found = [f"An answer after {point.ttft_ms:.0f} ms, {figure(point.requests_s)} a second."]
    if target.ttft_ms is not None and point.ttft_ms > target.ttft_ms:
        found.append(f"The first token comes later than the {target.ttft_ms:g} ms asked for.")
    if target.tpot_ms is not None and point.tpot_ms > target.tpot_ms and not question.model.pools:
        found.append(f"Tokens come slower than the {target.tpot_ms:g} ms asked for.")
    bounded = target.ttft_ms is not None or target.tpot_ms is not None
    if one.meets_objective and bounded and one.carried is not None:
        found.append(f"Up to {figure(one.carried.requests_s)} requests a second stay within the objective.")
    return found


def _experts(question: Question, one: Candidate) -> str:
    experts = question.model.experts
    count = experts.count if experts else 0
    each = count // one.split.ranks
    if one.split.attention_copies == 1:
        return (
            f"Each card holds {each} of {count} experts whole: no expert is cut into slivers, but uneven choices leave "
            "cards waiting."
        )
    if any(layer.kind == "mla" for layer in question.model.layers):
        return (
            f"Each card holds {each} of {count} experts whole and answers its own requests in attention: the latent "
            "cache is not copied as under tensor parallelism, so more requests fit."
        )
    return (
        f"Each card holds {each} of {count} experts whole and answers its own requests in attention, which saves an "
        "all-reduce a layer but holds the weights of attention whole."
    )


def _why_first(question: Question, one: Candidate) -> str:
    if question.purpose == "offline":
        if one.split.cards == 1:
            return "First: copies that do not talk to each other give the most tokens."
        return "First: its freed memory carries larger batches, which pays for its communication."
    if question.load.requests_per_s is None and question.load.concurrency is None and one.carried is not None:
        return (
            "First: it carries most within the objective; a larger split has to gain 10 % for each doubling, and 20 % "
            "over PCIe."
        )
    if one.at_ease and one.split.cards == 1:
        return "First: data parallel alone meets the objective with head-room, so nothing has to be split."
    if one.at_ease:
        return f"First: it carries the load with head-room on the fewest cards, {one.cards_needed} of them."
    if one.meets_objective:
        return "First: it meets the objective, with little head-room."
    return "First because the others miss the objective by more."


def _why_behind(question: Question, one: Candidate, first: Candidate) -> list[str]:
    if question.purpose == "offline":
        share = one.at_load.output_tok_s / first.at_load.output_tok_s
        if share > 1:
            return [f"More tokens than the first by {share - 1:.0%}, too little for a copy of more cards."]
        return [f"Of the first one's tokens a second it gives {share:.0%}."]
    if not one.meets_objective and first.meets_objective:
        return ["Behind those that meet the objective."]
    if one.cards_needed is not None and first.cards_needed is not None:
        if one.cards_needed > first.cards_needed:
            found = [f"For this load it takes {one.cards_needed} cards, the first {first.cards_needed}."]
        else:
            found = ["A simpler split carries this load on as many cards."]
        faster = first.at_load.tpot_ms / one.at_load.tpot_ms
        if faster > _MUCH_FASTER:
            found.append(f"Tokens come {faster:.1f} times as fast as with the first, for cases that need it.")
        return found
    if first.carried is not None and one.carried is not None:
        share = one.carried.requests_s / first.carried.requests_s
        return [f"Of what the first carries within the objective it carries {share:.0%}."]
    return ["Further from the objective than the first."]
