"""Whether what a name says beside a known model's own leaves it that model: a wrong guess is worse than a refusal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from controlplane.domain.specs.known.words import is_quantization
from controlplane.domain.specs.model import ModelFacts

_SIZE = re.compile(r"(\d+(?:\.\d+)?)(b|m)")
_LEAST, _MOST = 0.8, 1.25  # of the known model's parameters, where the rest of a name says another number
_SMALLEST = 2e7
_LOOSE = "class"  # `Mistral-7B-class VLM`: the writer says that it is like the known one, and no more
_MIXTURE = re.compile(r"\d+x\d+(?:\.\d+)?b|moe")
# parts that a model for text has not: images, sound
_SENSES = frozenset((
    "vl", "vlm", "v", "vision", "visual", "omni", "audio", "speech", "voice", "asr", "tts", "ocr", "video", "llava",
    "blip2", "ultravox", "bunny", "mllm", "multimodal", "onevision", "forcedaligner",
))  # fmt: skip
_SENSING = re.compile(r"(?:internvl|ovis|n?vila|minicpm-v|idefics|cogvlm|smolvlm)\d*(?:\.\d+)?")
# another model that is made from it: fewer layers or experts, fewer caches, or heads that guess for it
_MADE_FROM = frozenset((
    "reap", "pruned", "minitron", "swiftkv", "eagle", "eagle2", "eagle3", "medusa", "draft", "dflash", "dspark",
    "assistant", "speculator", "hydra", "cut", "depth", "width", "upscaled",
))  # fmt: skip
_SMALLER = frozenset(("lite", "flash", "mini", "nano", "small", "tiny", "micro", "mtp"))


def is_another(rest: Sequence[str], facts: ModelFacts, words: Sequence[str], remarks: Sequence[str] = ()) -> bool:
    """Whether the `rest` of a name's `words`, beside those of the known model, names another one. `remarks` are words
    in brackets: a draft or a variety that they tell of is a setting of the engine, not a name."""
    named = [word for word in rest if word not in remarks]
    senses = not facts.tower_parameters and _LOOSE not in words
    return (
        any(_other_size(word, facts) for word in rest if not _is_bits(word, words) and not _is_active(word, words))
        or any(word in _MADE_FROM for word in named)
        or (senses and any(word in _SENSES or _SENSING.fullmatch(word) for word in rest))
        or (facts.experts is None and any(_MIXTURE.fullmatch(word) for word in rest))
        or any(word in _SMALLER and not _behind_precision(word, words) for word in named)
    )


def _other_size(word: str, facts: ModelFacts) -> bool:
    found = _SIZE.fullmatch(word)
    if found is None:
        return False
    said = float(found[1]) * (1e9 if found[2] == "b" else 1e6)
    if said < _SMALLEST:  # `-1m`: tokens of context
        return False
    return not _LEAST <= said / facts.parameters <= _MOST


def _is_bits(word: str, words: Sequence[str]) -> bool:
    """`GPTQ-4b-128g`: bits of a weight."""
    at = words.index(word) if word in words else 0
    return at > 0 and len(word) == 2 and is_quantization(words[at - 1])


def _is_active(word: str, words: Sequence[str]) -> bool:
    """`32B active`: the part of a mixture that one token goes through."""
    at = words.index(word) + 1 if word in words else len(words)
    return at < len(words) and words[at] in ("active", "activated")


def _behind_precision(word: str, words: Sequence[str]) -> bool:
    """`V3.2-Exp-AWQ-Lite`: a kind of file, not of model."""
    return any(is_quantization(before) for before in words[: words.index(word)]) if word in words else False
