"""Precision of a model's weights and of its KV cache: bits a weight, which parts stay as they are, support by card."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import formats, kv_precision
from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.fields import shown
from controlplane.domain.specs.formats import Format, Scope, Unit
from controlplane.domain.specs.kv_precision import KvPrecision
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.weight_parts import WeightParts

_NOTHING = ("", "none", "null", "auto", "default", "unquantized")
_DTYPES = {"bf16": "bf16", "bfloat16": "bf16", "fp16": "fp16", "float16": "fp16", "half": "fp16", "fp32": "fp32",
           "float32": "fp32", "float": "fp32"}  # fmt: skip
# methods whose name doesn't tell the bits, with what their files are most often
_VAGUE = {
    "compressed-tensors": "int4", "compressed_tensors": "int4", "gguf": "gguf:Q4_K_M", "marlin": "int4_gptq",
    "hqq": "int4",
    "quark": "fp8", "torchao": "int4", "inc": "int4_gptq", "bitblas": "int4", "moe_wna16": "int4", "quantized": "int4",
    "deepspeedfp": "fp8", "ipex": "int4_awq", "rtn": "int4", "humming": "int4",
}  # fmt: skip
_DTYPE_BITS = {"bf16": 16, "fp16": 16, "fp32": 32}


@dataclass(frozen=True, slots=True)
class Precision:
    """What the weights are stored in and what is calculated in. `plain_dtype` is the data type of everything that is
    not quantized, and of activations: bf16, fp16 or fp32; `dtype_asked` whether somebody asked for that one."""

    weights: Format
    plain_dtype: Unit
    kv: KvPrecision
    group: int | None = None
    scope: Scope = "linear"
    assumptions: tuple[str, ...] = ()
    dtype_asked: bool = False

    @property
    def quantized(self) -> bool:
        """Whether weights are stored in anything but BF16, FP16 or FP32."""
        return self.weights.name not in _DTYPE_BITS

    @property
    def name(self) -> str:
        """As ModelFacts.quantization: `int4:g32:experts`."""
        group = f":g{self.group}" if self.group and self.group != self.weights.group else ""
        return self.weights.name + group + (f":{self.scope}" if self.scope != self.weights.scope else "")

    @property
    def weight_bits(self) -> float:
        """Of one quantized weight, with its scales and zero points."""
        return self.weights.bits_per_weight(self.group)

    @property
    def plain_bits(self) -> int:
        """Of one value that is not quantized."""
        return _DTYPE_BITS[self.plain_dtype]

    @property
    def plain_bytes(self) -> int:
        """Of one value that is not quantized."""
        return self.plain_bits // 8

    def part_bytes(self, facts: ModelFacts) -> WeightParts:
        """Bytes of the weights by part: exact where the files are known and stored in this very precision."""
        if facts.weight_parts is not None and self._is_of(facts):
            return facts.weight_parts
        experts = facts.experts.routed_params if facts.experts else 0
        fine = facts.unquantized_parameters
        rest = max(facts.parameters - experts - facts.embedding_parameters - facts.tower_parameters, fine)
        attention = min(facts.attention_parameters, rest - fine)
        down = max(min(facts.replicated_parameters, rest) - fine, 0)
        plain, packed = float(self.plain_bits), self.weight_bits
        whole_file = self.scope == "file"
        attention_bits = packed if self.scope in ("linear", "file") else plain
        rest_bits = plain if self.scope == "experts" else packed
        return WeightParts(
            routed_experts_bytes=_bytes(experts, packed),
            embedding_bytes=_bytes(facts.embedding_parameters, packed if whole_file else plain),
            tower_bytes=_bytes(facts.tower_parameters, plain),
            rest_bytes=_bytes(rest - attention - fine, rest_bits)
            + _bytes(attention, attention_bits)
            + _bytes(fine, plain),
            replicated_bytes=_bytes(down, attention_bits) + _bytes(fine, plain),
            draft_bytes=_bytes(facts.draft_parameters, plain if self.scope != "file" else packed),
        )

    def weight_bytes(self, facts: ModelFacts) -> int:
        """All weights that are loaded without speculation."""
        return self.part_bytes(facts).total_bytes

    def _is_of(self, facts: ModelFacts) -> bool:
        if facts.quantization is None:
            return not self.quantized and self.plain_bytes == _DTYPE_BITS[_model_dtype(facts)] // 8
        return self.name == facts.quantization


def parse(
    dtype: str | None,
    quantization: str | None,
    kv_cache_dtype: str | None,
    facts: ModelFacts,
    *,
    takes_cache_of_files: bool = True,
) -> Precision:
    """The precision a set-up asks for; what it leaves open comes from the model's own files.

    `dtype` may name a quantization too (`fp8`, `nvfp4`), as published measurements do. `takes_cache_of_files`: whether
    the engine follows what is known of published files, where nothing is said of the cache. Raises RefusedError naming
    `dtype`, `quantization` or `kv_cache_dtype`.
    """
    if facts.source == "table" and not takes_cache_of_files:
        facts = replace(facts, kv_cache_dtype=None)
    plain = _text("dtype", dtype) in _DTYPES or _text("quantization", quantization) in _DTYPES
    return replace(_parsed(dtype, quantization, kv_cache_dtype, facts), dtype_asked=plain)


def _parsed(dtype: str | None, quantization: str | None, kv_cache_dtype: str | None, facts: ModelFacts) -> Precision:
    asked_dtype, asked = _text("dtype", dtype), _text("quantization", quantization)
    asked, vague = _VAGUE.get(asked, asked), asked
    plain: Unit = _model_dtype(facts)
    if asked_dtype in _DTYPES:
        plain = formats.FORMATS[_DTYPES[asked_dtype]].native
    elif asked_dtype not in _NOTHING:
        asked = asked if asked not in _NOTHING else asked_dtype
    kv = _cache(kv_cache_dtype, plain, facts)
    assumptions: tuple[str, ...] = ()
    if asked in _NOTHING:
        if facts.quantization is None or asked in ("none", "unquantized"):
            return Precision(formats.FORMATS[plain], plain, kv)
        return _of_files(facts.quantization, plain, kv)
    named = _described(asked)
    if vague != asked and named is not None:
        if facts.quantization is not None:
            return _of_files(facts.quantization, plain, kv)
        assumptions = (f"quantization {vague} doesn't say how many bits a weight has; {named[0].label} was taken.",)
    if facts.quantization is not None:
        files = _of_files(facts.quantization, plain, kv)
        if named is None or named[0].name == files.weights.name or _same_family(named[0], files.weights):
            return files
        assumptions = (f"The files are {files.weights.label}; the sum is for {named[0].label}, as asked.",)
    if named is None:
        raise _unknown("dtype" if asked == asked_dtype else "quantization", asked)
    weights, group, scope = named
    if weights.name in _DTYPE_BITS:
        return Precision(weights, weights.native, kv, assumptions=assumptions)
    if weights.name == "nvfp4" and scope == "linear" and any(layers.kind == "mla" for layers in facts.layers):
        scope = "mlp"  # published NVFP4 files of MLA models keep attention in 16 bits
    return Precision(weights, plain, kv, group=group, scope=scope, assumptions=assumptions)


def _cache(kv_cache_dtype: str | None, plain: Unit, facts: ModelFacts) -> KvPrecision:
    """Without a word on it, what the files were calibrated for. Sparse latent attention (V3.2, GLM-5) in FP8 has a
    layout of its own, unless engine and card have another one (`footprint.sparse_latent`)."""
    kv = kv_precision.parse(kv_cache_dtype, model_dtype=facts.kv_cache_dtype or plain)
    if not any(layers.kind == "mla" and layers.indexer_elements for layers in facts.layers):
        return kv
    if kv.name == "fp8":
        return replace(kv_precision.parse("fp8_ds_mla", model_dtype=plain), asked="fp8")
    said = kv_precision.is_said(kv_cache_dtype) or facts.kv_cache_dtype
    return kv if said else replace(kv, asked="nothing")


def _of_files(quantization: str, plain: Unit, kv: KvPrecision) -> Precision:
    named = _described(quantization)
    if named is None:
        raise _unknown("quantization", quantization)
    return Precision(named[0], plain, kv, group=named[1], scope=named[2])


def _described(text: str) -> tuple[Format, int | None, Scope] | None:
    """`int4:g32:experts` as a format, its group size and what it touches."""
    rest = text.split(":")
    weights = formats.gguf(rest[1]) if rest[0] == "gguf" and len(rest) > 1 else formats.named(rest[0])
    weights = weights or formats.named(text)
    if weights is None:
        return None
    group, scope = None, weights.scope
    for word in rest[1:]:
        if word[:1] == "g" and word[1:].isdecimal() and 0 < len(word[1:]) < 7:
            group = int(word[1:]) or None
        elif word in ("experts", "mlp", "linear"):
            scope = "experts" if word == "experts" else "mlp" if word == "mlp" else "linear"
    return weights, group, scope


def _same_family(asked: Format, files: Format) -> bool:
    """Whether an asked name is only a looser word for what the files are: `int4` for AWQ, `fp8` for FP8 in blocks."""
    return asked.bits == files.bits and asked.name.split("_")[0] == files.name.split("_")[0]


def _text(field: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > 200:
        raise _unknown(field, value)
    plain = value.lower().replace("(assumed)", " ").replace("(", " ").replace(")", " ").strip()
    return plain.removeprefix("torch.").rstrip("?").strip()


def _model_dtype(facts: ModelFacts) -> Literal["bf16", "fp16", "fp32"]:
    found = _DTYPES.get(facts.torch_dtype.lower().removeprefix("torch."), "bf16")
    return "fp16" if found in ("fp16", "fp32") else "bf16"  # engines load FP32 files as FP16


def _bytes(parameters: int, bits: float) -> int:
    return round(parameters * bits / 8)


def _unknown(field: str, value: object) -> RefusedError:
    right = (
        "bf16, fp16, fp32 or auto"
        if field == "dtype"
        else "none, " + ", ".join(name for name in formats.FORMATS if name not in _DTYPE_BITS) + " or gguf:Q4_K_M"
    )
    return RefusedError(
        "precision", f"{field} is {shown(value)}, which doesn't say how many bits a weight has.", hint=right,
        fields={field: right},
    )  # fmt: skip


_UNIT_FIGURES: dict[Unit, str] = {
    "bf16": "bf16_flops", "fp16": "fp16_flops", "fp8": "fp8_flops", "int8": "int8_ops", "fp4": "fp4_flops",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Support:
    """`native`: multiplied as stored; `emulated`: weights are small in memory and unpacked to 16 bits to be multiplied;
    `none`: engines don't run it on this card."""

    level: Literal["native", "emulated", "none"]
    why: str


def support(precision: Precision, accelerator: AcceleratorFacts) -> Support:
    """What a card does with weights in this precision: native where its vendor states a rate for it."""
    unit, card = precision.weights.native, accelerator.name
    if not precision.quantized:
        if unit == "fp32" or getattr(accelerator, _UNIT_FIGURES[unit]):
            return Support("native", f"{card} calculates in {precision.weights.label}.")
        if unit == "bf16" and not precision.dtype_asked and accelerator.vendor.lower() == "nvidia":
            return Support("native", f"{card} has no BF16; engines take FP16 instead.")
        return Support("none", f"{card} has no {precision.weights.label}; use FP16.")
    if not precision.weights.unpacked_in_kernel and getattr(accelerator, _UNIT_FIGURES[unit]):
        return Support("native", f"{card} multiplies {precision.weights.label} as it is stored.")
    capability = _capability(accelerator)
    if (
        accelerator.vendor.lower() == "nvidia"
        and capability is not None
        and capability < precision.weights.least_capability
    ):
        return Support("none", f"Engines have no kernels for {precision.weights.label} on {card} ({capability}).")
    why = f"{precision.weights.label} is unpacked to 16 bits on {card}: it saves memory and bandwidth, not calculation."
    return Support("emulated", why)


def _capability(accelerator: AcceleratorFacts) -> float | None:
    try:
        return float(accelerator.compute_capability or "")
    except ValueError:
        return None
