"""Bytes a weight takes and the rate at which it is multiplied, by the format of a model's files.

A format of experts only ("mxfp4", and 4-bit formats of mixture models) leaves attention and dense layers in 16 bits, as
the published files of such models do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.model import ModelFacts

KV_BYTES = {"auto": 2.0, "bf16": 2.0, "fp16": 2.0, "bfloat16": 2.0, "float16": 2.0, "fp8": 1.0, "int8": 1.0}
KV_BYTES |= {"fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "fp8_ds_mla": 1.14, "nvfp4": 0.5625}

# 4 bits, and a 16-bit scale (and a zero point) per 128 weights; per 16 weights one 8-bit scale; per 32 one.
INT4_BYTES, NVFP4_BYTES, MXFP4_BYTES = 0.52, 0.5625, 0.53125


# GGUF: bits a weight, and half a bit more for scales; multiplied in 16 bits
_GGUF = re.compile(r"(?:gguf[:_]?)?(?:ud_)?i?q([1-8])(?:_|$)")


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """Bytes a parameter of dense layers and of routed experts, and the width class: 16, 8 or 4 bits."""

    dense_bytes: float
    expert_bytes: float
    width: int
    name: str


def parse(text: str | None, model: ModelFacts) -> WeightFormat | None:
    """The format called `text` in publications; None = 16 bits where nothing is said. Unknown words give None."""
    word = (text or model.quantization or "bf16").lower().replace("-", "_").replace(" ", "_")
    moe = model.experts is not None
    if word in {"bf16", "fp16", "bfloat16", "float16", "half", "auto", "none", "16"}:
        return WeightFormat(2.0, 2.0, 16, "bf16")
    if word in {"fp32", "float32", "float"}:
        return WeightFormat(4.0, 4.0, 16, "fp32")
    if word.startswith(("fp8", "float8", "w8a8_fp8", "mxfp8")):
        return WeightFormat(1.0, 1.0, 8, "fp8")
    if word.startswith(("int8", "w8", "bitsandbytes_int8", "bnb_int8")):
        return WeightFormat(1.02, 1.02, 8, "int8")
    if (gguf := _GGUF.match(word)) is not None:
        size = (int(gguf.group(1)) + 0.55) / 8
        return WeightFormat(size, size, 4 if size < 0.8 else 8, "int4")
    if word.startswith("nvfp4") or word in {"fp4", "modelopt_fp4"}:
        return WeightFormat(2.0 if moe else NVFP4_BYTES, NVFP4_BYTES, 4, "nvfp4")
    if word.startswith("mxfp4"):
        return WeightFormat(2.0 if moe else MXFP4_BYTES, MXFP4_BYTES, 4, "mxfp4")
    if word.startswith(("int4", "awq", "gptq", "w4", "bitsandbytes", "bnb", "nf4", "auto_round", "compressed")):
        return WeightFormat(2.0 if moe else INT4_BYTES, INT4_BYTES, 4, "int4")
    return None


def kv_bytes(text: str | None) -> float | None:
    """Bytes of one cached element; None for a word nobody knows."""
    return KV_BYTES.get((text or "auto").lower())


def peak_flops(weights: WeightFormat, card: AcceleratorFacts) -> float:
    """Dense FLOPs a second at which these weights are multiplied: the widest native format that the engine can use.

    Where a card has no rate for the format, weights are widened to 16 bits on the way (weight-only kernels).
    """
    wide = card.bf16_flops or card.fp16_flops or card.bandwidth_bytes_per_s * 100
    if weights.name == "fp8":
        return card.fp8_flops or wide
    if weights.name == "int8":
        return card.int8_ops or wide
    if weights.name == "nvfp4":
        return card.fp4_flops or wide
    if weights.name == "mxfp4":
        return card.fp8_flops if card.fp4_flops and card.fp8_flops else wide
    return wide
