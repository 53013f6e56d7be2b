"""A model's name as people write it, cut into words: which are its own, which tell of a tune or of a precision."""

from __future__ import annotations

import re
from collections.abc import Sequence

from controlplane.domain.specs import formats

# words after a model's name that leave its architecture as it is
TUNES = frozenset((
    "instruct", "chat", "it", "hf", "base", "thinking", "bf16", "fp16", "original", "sft", "ft", "reasoning",
    "preview", "qat", "unquantized", "dynamic", "pt", "turbo", "text", "merged", "ct", "class",
))  # fmt: skip
_QUANTIZED = re.compile(
    r"awq|gptq|hqq|aqlm|bnb|nf4|autoround|gguf|bitsandbytes|block|quantized|fp4|(?:nv|mx)fp[48](?:a\d+)?|fp8(?:a\d+)?|"
    r"float8\w*|w\d+a\d+\w*|int[2348]\w*|[234568]bits?|inc"
)
_NOT_OF_ENGINES = re.compile(r"exl[23]|\d+(?:\.\d+)?bpw")  # precisions of files that no engine here reads
_GGUF_NAMES = sorted((kind.lower() for kind in formats.GGUF_BITS if kind[0] in "QIT"), key=len, reverse=True)
_GGUF_SHORT = {"q2": "Q2_K", "q3": "Q3_K_M", "q4": "Q4_K_M", "q5": "Q5_K_M", "q6": "Q6_K", "q8": "Q8_0"}
_GGUF_KIND = re.compile(r"(?<![a-z0-9])(" + "|".join((*_GGUF_NAMES, *_GGUF_SHORT)) + r")(?![a-z0-9])")
_DOT = re.compile(r"(?<=[^q]\d)_(?=\d)")  # `InternVL2_5`, but not the `q4_0` of GGUF
_SPACED_BITS = re.compile(r"(?<![a-z0-9.])([234568])[- _]?bits?(?![a-z])")
_REMARK = re.compile(r"\(([^()]*)\)")
_COMPANION = re.compile(r"\s\+\s|\s(?:with|and|vs\.?|draft)\s")  # what stands behind is another model


def own(name: str) -> list[str]:
    """`Qwen/Qwen2.5-7B-Instruct (fine-tune)` -> qwen2.5, 7b: without words of tunes and of precision."""
    plain = _GGUF_KIND.sub("-", _DOT.sub(".", name.lower()).replace("-", "_")).replace("_", "-")
    return [word for word in every(plain) if word not in TUNES and not is_quantization(word)]


def with_tunes(name: str) -> str:
    """The key of a tune that differs from its base in files or limits: `kimik2thinking`."""
    plain = every(_GGUF_KIND.sub("-", name.lower()))
    return key([word for word in plain if not is_quantization(word) and word not in ("unquantized", "dynamic", "ct")])


def every(name: str) -> list[str]:
    """Everything after the owner, in lower case, cut at signs; a dot stays between digits alone."""
    plain = _COMPANION.split(_DOT.sub(".", name.strip().lower()))[0].replace("command-r+", "command-r-plus")
    plain = plain.replace("command r+", "command r plus")
    before, bracket, after = plain.partition("(")
    plain = before.rstrip().rstrip("/").rsplit("/", 1)[-1] + bracket + after
    plain = _SPACED_BITS.sub(r"\1bit", plain).replace("_", "-").replace("fine-tune", "")
    return [word for word in re.split(r"[^a-z0-9.]+|(?<![0-9])\.|\.(?![0-9])", plain) if word]


def remarks(name: str) -> list[str]:
    """What stands in brackets: `Qwen3.6-27B (MTP, TP2)` -> mtp, tp2."""
    return [word for remark in _REMARK.findall(name) for word in every(remark)]


def key(words: Sequence[str]) -> str:
    """Words without signs between them."""
    return "".join(words)


def is_quantization(word: str) -> bool:
    """Whether a word tells how weights are stored."""
    return _QUANTIZED.fullmatch(word) is not None


def gguf_kind(name: str) -> str | None:
    """The kind of a GGUF file that a name says: `Q5_K_M`."""
    plain = name.lower().replace("-", "_")
    found = _GGUF_KIND.search(plain)
    if found is not None:
        return _GGUF_SHORT.get(found[1], found[1])
    return "MXFP4" if "gguf" in plain and "mxfp4" in plain else None


def is_of_other_engines(name: str) -> bool:
    """Whether the files are in a format of other programs than the engines here."""
    return any(_NOT_OF_ENGINES.fullmatch(word) for word in every(name))
