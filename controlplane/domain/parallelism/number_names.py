"""What the latency model calls the precision that the ledger works with."""

from __future__ import annotations

from controlplane.domain.performance import number_formats
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.precision import Precision


def weight_format(precision: Precision, model: ModelFacts) -> str:
    """The latency model's name of the weights; of a format that it does not know, that of the next wider one."""
    name = precision.weights.name if precision.quantized else precision.plain_dtype
    if number_formats.parse(name, model) is not None:
        return name
    bits = precision.weight_bits
    return "int4" if bits <= 6 else "int8" if bits <= 9 else "bf16"


def kv_format(precision: Precision) -> str:
    """The latency model's name of the cache's numbers."""
    name = precision.kv.name
    if number_formats.kv_bytes(name) is not None:
        return name
    bits = precision.kv.element_bits
    return "nvfp4" if bits <= 5 else "fp8" if bits <= 8 else "bf16"
