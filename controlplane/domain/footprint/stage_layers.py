"""How the layers of a model lie on the stages of a pipeline, and what share of its weights each stage has.

vLLM deals layers out by number (`get_pp_indices`): evenly, and what is left over one each to the stages before the last
one, from behind. Layers differ in weight: the first ones of DeepSeek hold no experts, those of hybrids no attention. So
the stage with most layers is not always the heaviest.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.specs.model import LayerRun, ModelFacts


@dataclass(frozen=True, slots=True)
class StageLayers:
    """One stage: how many layers, and its shares of the weights of all routed experts and of all else in layers."""

    layers: int
    experts_share: float
    rest_share: float
    first: bool
    last: bool


def dealt(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage."""
    each, rest = divmod(layers, stages)
    return tuple(each + (1 if stages - 1 - rest <= stage < stages - 1 else 0) for stage in range(stages))


def of(facts: ModelFacts, stages: int) -> tuple[StageLayers, ...]:
    """All stages in order. Where the order of unlike layers is not known, they are taken to be equally heavy."""
    layers = max(1, facts.num_hidden_layers)
    runs = facts.layer_runs
    if sum(run.count for run in runs) != layers:
        runs = (LayerRun(layers, 1, 1),)
    experts, rest = (_sum(runs, 0, layers, routed=routed) for routed in (True, False))
    found, start = [], 0
    for stage, count in enumerate(dealt(layers, stages)):
        end = start + count
        found.append(
            StageLayers(
                layers=count,
                experts_share=_sum(runs, start, end, routed=True) / experts if experts else count / layers,
                rest_share=_sum(runs, start, end, routed=False) / rest if rest else count / layers,
                first=stage == 0,
                last=stage == stages - 1,
            )
        )
        start = end
    return tuple(found)


def _sum(runs: tuple[LayerRun, ...], start: int, end: int, *, routed: bool) -> int:
    """Parameters of the layers from `start` up to `end`, those of routed experts or all others."""
    total = at = 0
    for run in runs:
        inside = max(0, min(end, at + run.count) - max(start, at))
        total += inside * (run.routed_params if routed else run.other_params)
        at += run.count
    return total
