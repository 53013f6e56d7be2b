"""Which split an answer is of."""

from __future__ import annotations

from controlplane.deployments.planner.inputs import Inputs
from controlplane.domain.parallelism.ranking import Ranking
from controlplane.domain.parallelism.split import Split


def given(inputs: Inputs) -> Split | None:
    """The split that is asked for; None where the best one is."""
    if not inputs.split_was_given:
        return None
    tensor, copies = inputs.tensor_parallel or 1, inputs.attention_copies or 1
    experts = (bool(inputs.expert_parallel) or copies > 1) and tensor * copies > 1
    return Split(tensor, inputs.pipeline_parallel or 1, copies, experts)


def shown(inputs: Inputs, ranked: Ranking) -> Split:
    """As asked; else the best one, or where none runs the one that came nearest: the most cards that lacked memory."""
    asked = given(inputs)
    if asked is not None:
        return asked
    wished = inputs.expert_parallel
    best = next((one for one in ranked.candidates if wished in (None, one.split.experts)), ranked.best)
    if best is not None:
        return best.split
    memory = [one.split for one in ranked.rejected if one.code == "memory" and one.split.pipeline == 1]
    return max(memory, key=lambda split: split.cards, default=Split())
