"""Which number formats an engine starts with on a card: vLLM's own checks of compute capability, by version.

Rules (vLLM 0.32 unless a version is named): builds have kernels from 7.0 on. BF16 needs 8.0; where no data type was
asked for, FP16 is taken instead, or FP32 for families that are unstable in FP16. Each quantization has a least
capability (`Format.least_capability`); kernels that unpack FP8 weights came to Turing with about 0.14, and to
cards before Blackwell for NVFP4 with 0.9.
"""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.specs import precision as precisions
from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.formats import FORMATS, Format
from controlplane.domain.specs.precision import Precision

_LEAST_OF_BUILDS = 7.0
_LEAST_OF_BF16 = 8.0
_UNSTABLE_IN_FP16 = ("gemma2", "gemma3", "gemma3_text", "glm4")
_REFUSES_UNSTABLE_FROM = (0, 9, 1)
_UNPACKED_ON_TURING_FROM = (0, 14, 0)  # about; not later
_NVFP4_UNPACKED_FROM = (0, 9, 0)
_MARLIN = ("fp8", "fp8_block", "mxfp8", "nvfp4")


def as_calculated(
    kinds: Precision, family: str, card: AcceleratorFacts | None, rules: EngineRules
) -> tuple[Precision, str]:
    """The precision that the engine takes where no data type was asked for and that of the files can't be: FP16 on a
    card without BF16, BF16 or FP32 for families that are unstable in FP16. With the sentence that tells it; as it was
    and "" elsewhere."""
    if kinds.dtype_asked or kinds.plain_dtype == "fp32":
        return kinds, ""
    capability = capability_of(card)
    has_bf16 = capability is None or capability >= _LEAST_OF_BF16
    unstable = family in _UNSTABLE_IN_FP16 and rules.version >= _REFUSES_UNSTABLE_FROM
    if kinds.plain_dtype == "bf16" and not has_bf16:
        why = f"{card.name} has no BF16" if card is not None else ""
        return _in(kinds, "fp32" if unstable else "fp16", why)
    if kinds.plain_dtype == "fp16" and unstable:
        return _in(kinds, "bf16" if has_bf16 else "fp32", f"{family} does not run in FP16")
    return kinds, ""


def _in(kinds: Precision, name: str, why: str) -> tuple[Precision, str]:
    plain = FORMATS[name]
    weights = kinds.weights if kinds.quantized else plain
    kv = kinds.kv
    if kv.name == kinds.plain_dtype:
        kv = replace(kv, name=plain.name, element_bits=plain.bits)
    note = f"dtype is not given; {plain.label} was taken, as {why}."
    return replace(kinds, weights=weights, plain_dtype=plain.native, kv=kv), note


def refusal(kinds: Precision, family: str, card: AcceleratorFacts | None, rules: EngineRules) -> str:
    """Why the engine does not start with these formats on this card, and what to do; "" where it does, or where the
    card is not known."""
    unstable = family in _UNSTABLE_IN_FP16 and rules.version >= _REFUSES_UNSTABLE_FROM
    if kinds.dtype_asked and kinds.plain_dtype == "fp16" and unstable:
        return f"{family} does not run in FP16, which is too narrow for it: the engine refuses it. Set dtype bfloat16."
    if card is None:
        return ""
    capability = capability_of(card)
    if capability is None:
        found = precisions.support(kinds, card)
        return found.why if found.level == "none" else ""
    if capability < _LEAST_OF_BUILDS:
        return (
            f"vLLM has no kernels for {card.name} (compute capability {capability}, at least {_LEAST_OF_BUILDS}): it "
            "does not start. Take a newer card."
        )
    if kinds.plain_dtype == "bf16" and capability < _LEAST_OF_BF16:
        return (
            f"{card.name} has no BF16 (compute capability {capability}, at least {_LEAST_OF_BF16}): it does not start. "
            "Set dtype float16."
        )
    least = least_capability(kinds.weights, rules)
    if capability < least:
        return (
            f"vLLM {rules.label} has no kernels for {kinds.weights.label} on {card.name} (compute capability "
            f"{capability}, at least {least}): it does not start. Take GPTQ or FP16 weights, or a newer card."
        )
    return ""


def least_capability(weights: Format, rules: EngineRules) -> float:
    """The least compute capability for which this version has kernels for these weights; 0 for 16 and 32 bits."""
    if weights.name in ("bf16", "fp16", "fp32"):
        return 0.0
    if weights.name == "nvfp4" and rules.version < _NVFP4_UNPACKED_FROM:
        return 10.0
    if weights.name in _MARLIN and rules.version < _UNPACKED_ON_TURING_FROM:
        return max(weights.least_capability, 8.0)
    return weights.least_capability


def capability_of(card: AcceleratorFacts | None) -> float | None:
    """The compute capability of an NVIDIA card as a number, None for others and where it is not known."""
    if card is None or card.vendor.lower() != "nvidia":
        return None
    try:
        return float(card.compute_capability or "")
    except ValueError:
        return None
