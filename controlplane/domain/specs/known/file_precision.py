"""What a model's name says of how its weights are stored."""

from __future__ import annotations

from controlplane.domain.specs import formats
from controlplane.domain.specs.known import words
from controlplane.domain.specs.model import ModelFacts

# owners whose own FP8 files are in blocks; those of GLM and of others who quantize have a scale a channel or tensor
_IN_BLOCKS = ("qwen/", "deepseek-ai/", "minimaxai/", "moonshotai/")
_META = ("meta-llama/", "llama-3.1", "meta-llama-3.1")  # of their own files: their owner, or none
_PLAIN = ("bf16", "fp16", "unquantized")
_FOR_QUANTIZED = "int4"  # where a name says no more than that


def said(name: str, published: str) -> tuple[str | None, tuple[str, ...]]:
    """The precision that the part of the name tells which is not the model's, and what was assumed for it."""
    kind = words.gguf_kind(name)
    every = words.every(name)
    if "unquantized" in every:
        return None, ()
    if kind is not None or "gguf" in name.lower():
        found = formats.gguf(kind) if kind is not None else None
        return (found.name if found is not None else "gguf:Q4_K_M"), ()
    own = words.every(published)
    told = [word for word in every if words.is_quantization(word) and word not in own]
    if not told:
        return None, ()
    mixed = [word for word in told if word.endswith("mix")]
    described = formats.named(" ".join(word for word in told if word not in mixed))
    if mixed and described is not None:
        return described.name, ("The name says that precisions are mixed; the smaller one was taken for all weights.",)
    if described is None and told == ["quantized"]:
        return _FOR_QUANTIZED, ("The name says quantized, but not how; INT4 was taken.",)
    return (described.name if described is not None else None), ()


def is_plain(name: str) -> bool:
    """Whether the name says that the files are in 16 bits, those of a model that is published in fewer too."""
    return any(word in _PLAIN for word in words.every(name))


def is_calibrated(name: str, facts: ModelFacts) -> bool:
    """Whether files of that name ask for a cache in FP8 (`kv_cache_quant_algo`): ModelOpt files of NVIDIA do (Llama 3.3
    70B, Nemotron 3 Nano); of those with latent attention that is not known."""
    latent = any(layers.kind == "mla" for layers in facts.layers)
    kind = (facts.quantization or "").split(":")[0].removesuffix("_block")
    return name.strip().lower().startswith("nvidia/") and kind in ("fp8", "nvfp4") and not latent


def in_detail(quantization: str, facts: ModelFacts, name: str, published: str) -> str:
    """`fp8` of a model whose own files are FP8 in blocks is in blocks; experts alone where the files say so. Meta's
    files of the 405B keep attention in BF16 (and, which is not counted, the first and last feed-forward)."""
    if quantization == "fp8" and published == "Llama-3.1-405B" and name.strip().lower().startswith(_META):
        return "fp8:mlp"
    own = facts.quantization or ""
    if own.startswith(quantization):
        return own
    plain = name.strip().lower()
    own_files = plain.startswith(_IN_BLOCKS) or "/" not in plain
    in_blocks = facts.family.startswith(("qwen3", "deepseek_v3", "minimax", "kimi")) and own_files
    if quantization == "fp8" and in_blocks and "dynamic" not in plain:
        return "fp8_block"
    if quantization == "nvfp4" and any(layers.kind == "mla" for layers in facts.layers):
        return "nvfp4:mlp"
    return quantization
