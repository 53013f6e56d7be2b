"""The ledger of one card of one copy, for any split.

Data-parallel attention is the one thing the ledger itself does not know: each group of tensor-parallel ranks holds
everything but the routed experts, and of those its share. To the ledger that is a model with so many fewer experts;
buffers of the collectives among all ranks are held back as reserve.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.footprint import overhead
from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.ledger import result, setup
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.ledger.setup import Wishes
from controlplane.domain.parallelism.question import Question
from controlplane.domain.parallelism.split import Split
from controlplane.domain.specs.model import ModelFacts


def of(question: Question, split: Split) -> Ledger:
    """Raises RefusedError when the settings can't be; the split itself has been checked."""
    card = question.hardware.card
    lengths = question.load.lengths
    wishes = replace(
        question.wishes,
        tensor_parallel=split.tensor,
        pipeline_parallel=split.pipeline,
        expert_parallel=split.experts,
        mean_request_tokens=question.wishes.mean_request_tokens or round(lengths.input_tokens + lengths.output_tokens),
        # a length that was not given may be shortened to what fits
        length_must_fit=question.wishes.max_model_len is not None and question.wishes.length_must_fit,
    )
    linked = split.ranks <= question.hardware.joined
    model, wishes = with_copies(question.model, wishes, question.rules, split.attention_copies, linked=linked)
    return result.work_out(setup.resolve(model, question.precision, card, question.rules, wishes), question.correction)


def with_copies(
    model: ModelFacts, wishes: Wishes, rules: EngineRules, copies: int, *, linked: bool = True
) -> tuple[ModelFacts, Wishes]:
    """What one of `copies` groups of ranks holds, and the settings with what their collectives take held back."""
    if copies <= 1:
        return model, wishes
    tensor = wishes.tensor_parallel or 1
    alone = overhead.non_torch_bytes(rules, tensor, linked=linked)
    together = overhead.non_torch_bytes(rules, tensor * copies, linked=linked)
    held_back = wishes.reserve_bytes + max(0, together - alone)
    return seen_by_one_group(model, copies), replace(wishes, reserve_bytes=held_back)


def seen_by_one_group(model: ModelFacts, groups: int) -> ModelFacts:
    """The model with the share of routed experts that one of `groups` groups of ranks holds."""
    experts = model.experts
    if experts is None:
        return model
    routed = experts.routed_params // groups
    gone = experts.routed_params - routed
    parts = model.weight_parts
    if parts is not None:
        parts = replace(parts, routed_experts_bytes=parts.routed_experts_bytes // groups)
    return replace(
        model,
        parameters=model.parameters - gone,
        experts=replace(experts, count=max(1, experts.count // groups), routed_params=routed),
        weight_bytes=None if parts is None else parts.total_bytes,
        weight_parts=parts,
    )
