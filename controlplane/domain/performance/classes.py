"""Which classes a set-up belongs to: the words by which learned coefficients are shared."""

from __future__ import annotations

import re

from controlplane.domain.performance.number_formats import WeightFormat
from controlplane.domain.performance.setup import Setup
from controlplane.domain.specs.model import ModelFacts

_GENERATIONS = {"Hopper": "hopper", "Blackwell": "blackwell", "Blackwell Ultra": "blackwell", "CDNA2": "cdna",
                "CDNA3": "cdna", "CDNA4": "cdna"}  # fmt: skip
_SGLANG_RECENT = (0, 5, 9)


def generation(setup: Setup) -> str:
    """hopper, blackwell, cdna; pcie for NVIDIA cards before Hopper and of desks; other."""
    card = setup.accelerator
    if card.vendor not in {"NVIDIA", "AMD"}:
        return "other"
    return _GENERATIONS.get(card.architecture, "older")


def engine(setup: Setup) -> str:
    """vllm, sglang, tensorrt or unknown."""
    name = setup.engine.lower()
    for known in ("sglang", "tensorrt", "vllm"):
        if known in name or (known == "tensorrt" and "trt" in name):
            return known
    return "unknown"


def _age(setup: Setup) -> str | None:
    """SGLang before and from 0.5.9, whose steps are shorter; None for other engines and unknown versions."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})", setup.engine_version or "")
    if engine(setup) != "sglang" or match is None or match.groups() == ("0", "0", "0"):
        return None
    return "sglang_recent" if tuple(map(int, match.groups())) >= _SGLANG_RECENT else "sglang_early"


def of(model: ModelFacts, setup: Setup, weights: WeightFormat) -> tuple[str, ...]:
    """All classes of one set-up, in a fixed order."""
    kinds = {layer.kind for layer in model.layers}
    found = [generation(setup), engine(setup), f"width{weights.width}"]
    found.append("moe" if model.experts else "dense")
    if (age := _age(setup)) is not None:
        found.append(age)
    if model.experts:
        found += [f"moe_{found[0]}", f"moe_{found[1]}"]
    if "mla" in kinds:
        found += ["latent", f"latent_{found[0]}", f"latent_{found[1]}"]
    if any(layer.indexer_elements for layer in model.layers):
        found.append("indexer")
    if kinds & {"mamba2", "gated_delta", "linear"}:
        found.append("recurrent")
    if setup.attention_parallel > 1:
        found.append("attention_parallel")
    if setup.expert_parallel:
        found.append("expert_parallel")
    if setup.eager:
        found.append("eager")
    return tuple(found)
