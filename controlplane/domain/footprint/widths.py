"""Whether the widths of a quantized model are whole blocks or groups on each tensor-parallel rank.

Rules (vLLM 0.32 and what people met in older versions): FP8 in blocks keeps one scale for 128 x 128 weights, AWQ and
GPTQ one for a group of inputs. Tensor parallelism cuts the inputs of the output projections, so what a rank gets has to
be whole blocks or groups; for FP8 in blocks that holds for the experts' own width too. Expert parallelism cuts no
expert.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.specs.formats import Format
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.precision import Precision

_BLOCK = 128
_GROUPED = ("int4", "int4_awq", "int4_gptq")
_CUT_ATTENTION = ("full", "sliding", "chunked")
_RECURRENT = ("mamba2", "gated_delta", "linear")
# widths that are padded in the published AWQ and GPTQ files, so that 2, 4 and 8 ranks can share them: Qwen2(.5)-72B
_PADDED = {29568: 29696}


@dataclass(frozen=True, slots=True)
class Width:
    """One width that ranks share, and what a rank's part has to be a multiple of."""

    part: Literal["experts", "feed_forward", "attention"]
    size: int
    multiple: int

    def is_whole(self, ranks: int) -> bool:
        """Whether so many ranks get whole blocks or groups."""
        return self.size % (ranks * self.multiple) == 0


def refusal(
    facts: ModelFacts, kinds: Precision, rules: EngineRules, *, tensor_parallel: int, whole_experts: bool = False
) -> str:
    """Why the engine does not load these weights on so many ranks, and what to do; "" where it does."""
    if tensor_parallel <= 1:
        return ""
    widths = [one for one in of(facts, kinds, rules) if not (whole_experts and one.part == "experts")]
    wrong = next((one for one in widths if not one.is_whole(tensor_parallel)), None)
    if wrong is None:
        return ""
    most = max(ranks for ranks in range(1, tensor_parallel) if all(one.is_whole(ranks) for one in widths) or ranks == 1)
    label, size, multiple = kinds.weights.label, wrong.size, wrong.multiple
    part = f"{size / tensor_parallel:g}"
    if wrong.part == "experts":
        return (
            f"{label}: {size} wide experts over {tensor_parallel} ranks are {part} each, no multiple of {multiple}: "
            f"the engine does not start. Take tensor_parallel {most}, or expert parallelism, which leaves experts "
            "whole."
        )
    if wrong.part == "attention":
        return (
            f"{label}: {size} outputs of the attention heads over {tensor_parallel} ranks are {part} each, no multiple "
            f"of {multiple}: the engine does not start, or answers nonsense. Take tensor_parallel {most}."
        )
    return (
        f"{label}: {size} wide feed-forwards over {tensor_parallel} ranks are {part} each, no multiple of {multiple}: "
        f"the engine does not start, or answers nonsense. Take tensor_parallel {most}."
    )


def of(facts: ModelFacts, kinds: Precision, rules: EngineRules) -> tuple[Width, ...]:
    """The widths that ranks share in whole blocks or groups, as far as they are known; none for other formats."""
    multiple = _multiple(kinds)
    in_groups = kinds.weights.name in _GROUPED
    if multiple is None or (in_groups and facts.experts is not None):
        return ()  # files of mixtures in groups seldom quantize more than experts, which have kernels for any width
    found = [*_experts(facts, kinds, rules, multiple)]
    if kinds.scope != "experts":
        width = _dense_width(facts, kinds.weights)
        found.extend([Width("feed_forward", width, multiple)] if width else [])
    if kinds.scope == "linear":
        found.extend(Width("attention", size, multiple) for size in _attention_widths(facts))
    return tuple(found)


def _multiple(kinds: Precision) -> int | None:
    if kinds.weights.name == "fp8_block":
        return _BLOCK
    return kinds.group or kinds.weights.group if kinds.weights.name in _GROUPED else None


def _experts(facts: ModelFacts, kinds: Precision, rules: EngineRules, multiple: int) -> tuple[Width, ...]:
    """Experts in blocks; in groups they have kernels for any width."""
    width = _expert_width(facts)
    if width is None or kinds.weights.name != "fp8_block":
        return ()
    return (Width("experts", width, min(multiple, rules.least_expert_block)),)


def _expert_width(facts: ModelFacts) -> int | None:
    """The width of one routed expert; None where what is known doesn't give a whole number."""
    experts = facts.experts
    if experts is None or not experts.routed_params or not facts.hidden_size:
        return None
    layers = sum(run.count for run in facts.layer_runs if run.routed_params) or facts.num_hidden_layers
    width, rest = divmod(experts.routed_params, layers * experts.count * 3 * facts.hidden_size)
    return None if rest else width


def _dense_width(facts: ModelFacts, weights: Format) -> int | None:
    """The width of feed-forwards that are no experts; None where there are none, or what they are is not known."""
    if facts.experts is not None:
        dense = any(not run.routed_params for run in facts.layer_runs)
        if not dense or any(layer.kind in _RECURRENT for layer in facts.layers):
            return None
    own_files = facts.source == "config.json" and facts.quantization is not None
    if weights.name == "fp8_block" or own_files:
        return facts.intermediate_size or None
    return _PADDED.get(facts.intermediate_size, facts.intermediate_size) or None


def _attention_widths(facts: ModelFacts) -> tuple[int, ...]:
    """What the output projections of attention take in."""
    found = {
        facts.num_attention_heads * (layer.head_dim if layer.value_head_dim is None else layer.value_head_dim)
        for layer in facts.layers
        if layer.kind in _CUT_ATTENTION and layer.count and layer.head_dim
    }
    return tuple(sorted(width for width in found if width))
