"""Number formats of weights: bits a weight takes with its scales and zero points, and which name means which.

Sources: the layouts of the methods themselves. AWQ and GPTQ keep a 16-bit scale and a 4-bit zero point a group;
compressed-tensors (symmetric) a 16-bit scale; MXFP4 (OCP Microscaling) one 8-bit scale for 32 weights; NVFP4 one 8-bit
scale for 16; bitsandbytes NF4 one 32-bit scale for 64; FP8 blocks one 32-bit scale for 128 x 128.
GGUF figures are bits a weight of whole files (embeddings and head included), as llama.cpp publishes them for an
8B model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Scope = Literal["linear", "experts", "mlp", "file"]  # which parts the method touches
_Test = Callable[[list[str], str], bool]  # words of a name, and the same joined
Unit = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4"]  # what the multiplications of quantized parts run in


@dataclass(frozen=True, slots=True)
class Format:
    """One way to store weights. `native` is the unit that multiplies them without unpacking; `unpacked_in_kernel` where
    no card multiplies this format and every kernel unpacks it to 16 bits (weights alone are small)."""

    name: str
    label: str
    bits: float
    group: int | None = None
    scale_bits: int = 16
    zero_point_bits: int = 0
    native: Unit = "bf16"
    unpacked_in_kernel: bool = False
    scope: Scope = "linear"
    least_capability: float = 7.5  # of NVIDIA cards for which engines have kernels that unpack it (Marlin and others)

    def bits_per_weight(self, group: int | None = None) -> float:
        """Bits of one weight with its share of scales and zero points; `group` weights share them, None = as usual."""
        size = group or self.group
        return self.bits + ((self.scale_bits + self.zero_point_bits) / size if size else 0.0)


FORMATS: dict[str, Format] = {
    item.name: item
    for item in (
        Format("fp32", "FP32", 32, native="fp32"),
        Format("bf16", "BF16", 16, native="bf16"),
        Format("fp16", "FP16", 16, native="fp16"),
        Format("fp8", "FP8", 8, native="fp8"),
        Format("fp8_block", "FP8 in blocks of 128 x 128", 8, group=128 * 128, scale_bits=32, native="fp8"),
        Format("mxfp8", "MXFP8", 8, group=32, scale_bits=8, native="fp8"),
        Format("int8", "INT8", 8, native="int8"),
        Format("int8_w8a16", "INT8 weights alone", 8, group=128, unpacked_in_kernel=True, least_capability=7.0),
        Format("int8_experts", "INT8 experts", 8, unpacked_in_kernel=True, scope="experts", least_capability=8.0),
        Format("int4", "INT4", 4, group=128, unpacked_in_kernel=True, least_capability=7.0),
        Format("int4_awq", "INT4 (AWQ)", 4, group=128, zero_point_bits=4, unpacked_in_kernel=True),
        Format(
            "int4_gptq", "INT4 (GPTQ)", 4, group=128, zero_point_bits=4, unpacked_in_kernel=True, least_capability=6.0
        ),
        Format("int3", "INT3", 3, group=128, zero_point_bits=3, unpacked_in_kernel=True, least_capability=6.0),
        Format("int2", "INT2", 2, group=128, zero_point_bits=2, unpacked_in_kernel=True, least_capability=6.0),
        Format("mxfp4", "MXFP4", 4, group=32, scale_bits=8, native="fp4", least_capability=8.0),
        Format("nvfp4", "NVFP4", 4, group=16, scale_bits=8, native="fp4"),
        Format(
            "bnb_nf4", "bitsandbytes 4 bit", 4, group=64, scale_bits=32, unpacked_in_kernel=True, least_capability=7.0
        ),
        Format("bnb_int8", "bitsandbytes 8 bit", 8, native="int8", least_capability=7.0),
    )
}

GGUF_BITS: dict[str, float] = {
    "F32": 32.0, "F16": 16.0, "BF16": 16.0, "Q8_0": 8.5, "Q6_K": 6.56, "Q5_K_M": 5.70, "Q5_K_S": 5.57, "Q5_K": 5.70,
    "Q5_1": 6.01, "Q5_0": 5.59, "Q4_K_M": 4.89, "Q4_K_S": 4.67, "Q4_K": 4.89, "Q4_1": 5.12, "Q4_0": 4.66,
    "Q3_K_L": 4.30, "Q3_K_M": 4.00, "Q3_K_S": 3.64, "Q3_K": 4.00, "Q2_K": 3.16, "Q2_K_S": 2.97, "IQ4_NL": 4.68,
    "IQ4_XS": 4.46,
    "IQ3_M": 3.76, "IQ3_S": 3.66, "IQ3_XS": 3.50, "IQ3_XXS": 3.25, "IQ2_M": 2.93, "IQ2_S": 2.74, "IQ2_XS": 2.59,
    "IQ2_XXS": 2.38, "IQ1_M": 2.15, "IQ1_S": 2.00, "TQ2_0": 2.06, "TQ1_0": 1.69, "MXFP4": 4.25,
}  # fmt: skip

# names that say nothing about bits by themselves
_KERNELS = {
    "marlin",
    "auto",
    "quantization",
    "quantized",
    "weights",
    "weight",
    "only",
    "wo",
    "online",
    "moe",
    "dynamic",
}
_BITS = re.compile(r"(?:u?int|i|fp|nvfp|mxfp|nf|float|bf)([0-9]+)|([0-9]+)bit|w([0-9]+)(?:a([0-9]+))?")
_KNOWN_BITS = (1, 2, 3, 4, 5, 6, 8, 16, 32)


def gguf(kind: str) -> Format | None:
    """The format of a GGUF file of one kind, or None for an unknown kind."""
    bits = GGUF_BITS.get(kind.upper())
    if bits is None:
        return None
    name = kind.upper()
    return Format(
        f"gguf:{name}", f"GGUF {name}", bits, unpacked_in_kernel=bits < 16, scope="file", least_capability=6.0
    )


def named(text: str) -> Format | None:
    """The format that a name means, forgiving about spelling: `awq_marlin`, `modelopt nvfp4`, `auto_round int4`,
    `W4A16`, `fp8 block`, `4 bit`, `gguf:Q4_K_M`. None for a name that is unknown or doesn't say how many bits."""
    plain = text.strip().lower()
    if plain in FORMATS:
        return FORMATS[plain]
    for kind in sorted(GGUF_BITS, key=len, reverse=True):
        if kind.lower() in plain.replace("-", "_") and (kind[0] in "QIT" or "gguf" in plain):
            return gguf(kind)
    words = [word for word in _split(plain) if word not in _KERNELS]
    if any(_has_other_bits(word) for word in words):
        return None
    for test, name in _RULES:
        if test(words, "".join(words)):
            return FORMATS[name]
    return None


def _split(text: str) -> list[str]:
    return "".join(letter if letter.isalnum() else " " for letter in text).split()


def _has_other_bits(word: str) -> bool:
    """Whether a word names bits that no format has: `int44` is no `int4`."""
    found = _BITS.fullmatch(word)
    return found is not None and any(one is not None and int(one) not in _KNOWN_BITS for one in found.groups())


def _any(*options: str) -> _Test:
    """A number is matched whole: `int4` is not in `int44`, and `8bit` is not in `48bit`."""
    whole = re.compile("|".join(f"{r'(?<![0-9])' * one[0].isdigit()}{re.escape(one)}(?![0-9])" for one in options))
    return lambda words, joined: any(one in words for one in options) or whole.search(joined) is not None


def _words(*options: str) -> _Test:
    return lambda words, joined: any(option in words for option in options)


def _both(first: _Test, second: _Test) -> _Test:
    return lambda words, joined: first(words, joined) and second(words, joined)


_FOUR = _any("int4", "4bit", "w4", "uint4", "i4")
_EIGHT = _any("int8", "8bit", "w8", "i8")
_RULES: tuple[tuple[_Test, str], ...] = (
    (_both(_any("bitsandbytes", "bnb"), _EIGHT), "bnb_int8"),
    (_any("bitsandbytes", "bnb", "nf4"), "bnb_nf4"),
    (_any("w4afp8", "w4a8"), "int4"),
    (_any("nvfp4"), "nvfp4"),
    (_any("mxfp8"), "mxfp8"),
    (_any("mxfp4"), "mxfp4"),
    (_any("modeloptfp4", "fp4", "w4a4"), "nvfp4"),
    (_both(_any("fp8", "float8"), _any("block", "128x128")), "fp8_block"),
    (_any("fp8", "float8", "f8e4m3", "e4m3", "w8a8fp"), "fp8"),
    (_both(_any("awq"), lambda words, joined: not _EIGHT(words, joined)), "int4_awq"),
    (_both(_any("gptq", "awq"), _EIGHT), "int8_w8a16"),
    (_any("w8a16", "int8wo"), "int8_w8a16"),
    (_both(_any("gptq"), _any("3bit", "int3")), "int3"),
    (_both(_any("gptq"), _any("2bit", "int2")), "int2"),
    (_any("gptq"), "int4_gptq"),
    (_both(_any("autoround"), _any("3bit", "int3", "w3a16")), "int3"),
    (_both(_any("autoround"), _any("2bit", "int2", "w2a16")), "int2"),
    (_both(_any("autoround"), _EIGHT), "int8_w8a16"),
    (_any("autoround"), "int4_gptq"),
    (_any("expertsint8", "int8experts"), "int8_experts"),
    (_FOUR, "int4"),
    (_EIGHT, "int8"),
    (_any("modelopt", "fbgemm"), "fp8"),
    (_words("bf16", "bfloat16"), "bf16"),
    (_words("fp16", "float16", "half"), "fp16"),
    (_words("fp32", "float32", "float"), "fp32"),
    (_any("w3a16", "int3", "3bit"), "int3"),
    (_any("w2a16", "int2", "2bit"), "int2"),
)
