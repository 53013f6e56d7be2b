"""Precision of the KV cache: bytes of one key or value, scales included."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs.fields import shown

_INDEXER_BYTES_PER_ELEMENT = 1 + 4 / 128  # FP8 with one 32-bit scale for 128 elements, whatever the cache's own type


Asked = Literal["exactly", "fp8", "nothing"]


@dataclass(frozen=True, slots=True)
class KvPrecision:
    """How an engine stores keys and values.

    `element_bits` of one element, with scales that belong to groups of elements; `head_bytes` more for each key and
    each value vector of a head; `latent_token_bytes` the whole entry of a token and layer of MLA in its own layout.
    `asked` is what was said of sparse latent attention, whose layout depends on engine and card (`sparse_latent`).
    """

    name: str
    element_bits: float
    head_bytes: int = 0
    latent_token_bytes: int | None = None
    asked: Asked = "exactly"

    def vector_bytes(self, head_dim: int) -> int:
        """One key (or value) vector of one head and token."""
        return -int(-head_dim * self.element_bits // 8) + self.head_bytes

    def latent_bytes(self, elements: int) -> int:
        """One token in one layer of MLA."""
        if self.latent_token_bytes is not None:
            return self.latent_token_bytes
        return -int(-elements * self.element_bits // 8)

    @staticmethod
    def indexer_bytes(elements: int) -> int:
        """One token in the key cache of one sparse-attention indexer."""
        return round(elements * _INDEXER_BYTES_PER_ELEMENT)


_KINDS: dict[str, KvPrecision] = {
    item.name: item
    for item in (
        KvPrecision("fp32", 32),
        KvPrecision("bf16", 16),
        KvPrecision("fp16", 16),
        KvPrecision("fp8", 8),
        KvPrecision("fp8_ds_mla", 8, latent_token_bytes=656),  # 512 FP8 + 16 bytes of scales + 64 BF16
        KvPrecision("nvfp4_ds_mla", 4.5, latent_token_bytes=352),  # as vLLM 0.32 keeps it
        KvPrecision("int8", 8),
        KvPrecision("fp8_per_token_head", 8, head_bytes=4),
        KvPrecision("int8_per_token_head", 8, head_bytes=4),
        KvPrecision("int4_per_token_head", 4, head_bytes=4),
        KvPrecision("nvfp4", 4 + 8 / 16),
        # TurboQuant: the mean of a key (with its norm, or in FP8) and a value (with a scale and a zero point)
        KvPrecision("turboquant_k8v4", 6, head_bytes=2),
        KvPrecision("turboquant_4bit_nc", 4, head_bytes=3),
        KvPrecision("turboquant_k3v4_nc", 3.5, head_bytes=3),
        KvPrecision("turboquant_3bit_nc", 3, head_bytes=3),
        KvPrecision("int4", 4 + 16 / 64),
    )
}
_ALIASES = {
    "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8", "fp8_e4m3fn": "fp8", "fp8_inc": "fp8", "e4m3": "fp8", "e5m2": "fp8", "float8": "fp8",
    "tq_t4nc": "turboquant_4bit_nc", "int8_per_token": "int8_per_token_head", "nvfp4_4over6": "nvfp4", "fp4": "nvfp4",
    "q8_0": "int8", "q4_0": "int4",
    "fp8_e4m3_per_token_head": "fp8_per_token_head",
}  # fmt: skip
NAMES = tuple(_KINDS)
_FURTHER = re.compile(
    r"_(?:per_tensor|calculated|static|dynamic|with|scales?|kv|cache)(?:_|$)"
)  # what changes no bytes


def parse(kv_cache_dtype: str | None, *, model_dtype: str) -> KvPrecision:
    """`auto`, nothing, or nothing known = the model's own type. What stands in brackets (`auto (assumed)`) is left out.

    Raises RefusedError for a name that no engine has.
    """
    if kv_cache_dtype is not None and not isinstance(kv_cache_dtype, str):
        raise _unknown(kv_cache_dtype)
    name = _clean(kv_cache_dtype) if is_said(kv_cache_dtype) else model_dtype
    kind = _KINDS.get(_ALIASES.get(name, name))
    if kind is None:
        raise _unknown(kv_cache_dtype)
    return kind


def is_said(kv_cache_dtype: str | None) -> bool:
    """Whether it names a type, rather than leaving it to the engine."""
    return _clean(kv_cache_dtype) not in ("", "auto", "none", "null", "default")


def _clean(kv_cache_dtype: str | None) -> str:
    """The name in one spelling. `auto (fp8 from checkpoint)` says what auto came to; `fp8 calculated scales` is FP8."""
    before, _, inside = (kv_cache_dtype or "auto").partition("(")
    name = _spelled(before)
    meant = _spelled(inside.rstrip(") ").split(" ")[0])
    if name == "auto" and (meant in _KINDS or meant in _ALIASES):
        return meant
    first = name.split("_")[0]
    return first if name not in _KINDS and _FURTHER.search(name) and first in _KINDS else name


def _spelled(text: str) -> str:
    return text.strip().lower().replace("-", "_").replace(" ", "_").rstrip("?")


def _unknown(value: object) -> RefusedError:
    right = f"auto or one of {', '.join(NAMES)}"
    return RefusedError(
        "precision",
        f"kv_cache_dtype is {shown(value)}, which is not known.",
        hint=right,
        fields={"kv_cache_dtype": right},
    )
