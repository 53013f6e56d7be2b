"""Facts of well-known models by their name alone.

A name is matched whatever its case and owner; a suffix that names a quantization goes into `quantization`; a fine-tune
that carries the name of its base is taken as its base, and that is said in `assumptions`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache

from controlplane.domain.specs import config_json, formats
from controlplane.domain.specs.families import purpose
from controlplane.domain.specs.known import (
    base_lengths,
    deepseek,
    direct,
    further,
    hybrid,
    llama,
    more,
    other,
    qwen,
    tunes,
)
from controlplane.domain.specs.known.row import Config
from controlplane.domain.specs.model import ModelFacts

_LONGEST_NAME = 300
# owners whose own FP8 files are in blocks; those of GLM and of others who quantize have a scale a channel or tensor
_IN_BLOCKS = ("qwen/", "deepseek-ai/", "minimaxai/", "moonshotai/")
_META = ("meta-llama/", "llama-3.1", "meta-llama-3.1")  # of their own files: their owner, or none
# words after a model's name that leave its architecture as it is
_TUNES = ("instruct", "chat", "it", "hf", "base", "thinking", "bf16", "fp16", "original", "sft", "ft", "reasoning",
"preview",
          "qat", "unquantized", "dynamic", "pt", "turbo", "text", "merged")  # fmt: skip
_QUANTIZED = (
    "awq", "gptq", "fp8", "fp4", "nvfp4", "mxfp4", "mxfp8", "int4", "int8", "w4a16", "w8a8", "w8a16", "w4a4", "bnb",
    "nf4",
    "4bit", "8bit", "autoround", "gguf", "bitsandbytes", "block", "quantized",
)  # fmt: skip
_GGUF_NAMES = sorted((kind.lower() for kind in formats.GGUF_BITS if kind[0] in "QIT"), key=len, reverse=True)
_ALONE = frozenset(("xlmroberta", "bgereranker"))  # without their size, which is "base": larger ones carry them too
_LLAMA = re.compile(r"(?:meta )?llama ?(2|3(?:\.[123])?)\b")
_SIZE = re.compile(r"\b\d+b\b")
_DOT = re.compile(r"(?<=[^q]\d)_(?=\d)")  # `InternVL2_5`, but not the `q4_0` of GGUF
_GGUF_KIND = re.compile(r"(?<![a-z0-9])(" + "|".join(_GGUF_NAMES) + r")(?![a-z0-9])")


@cache
def _table() -> dict[str, tuple[str, Config]]:
    """Models by their plain name without signs between the words: `qwen2.57b` -> (name as published, config)."""
    found: dict[str, tuple[str, Config]] = {}
    for part in (llama, qwen, deepseek, hybrid, other, more, further):
        for name, config in part.MODELS.items():
            key = _key(_words(name))
            found[key if key not in found else _with_tunes(name)] = (name, config)
    found.update({_with_tunes(name): (name, {}) for name in direct.FACTS})
    for alias, name in _ALIASES.items():
        found[_key(_words(alias))] = found[_key(_words(name))]
    return found


@cache
def _tunes() -> dict[str, str]:
    """Keys of tunes that are named otherwise than their base -> the key of that."""
    return {_key(_words(name)): _key(_words(base)) for name, base in tunes.TUNES.items()}


def _key_of(name: str) -> tuple[str | None, bool]:
    """The key of `_table` that a name means, and whether it says nothing else. `_` may stand for a dot or a dash."""
    for written in (name, name.replace("_", "-")):
        if _with_tunes(written) in _table():
            return _with_tunes(written), True
        key, exact = _longest(_words(written))
        if key is not None:
            return key, exact
    return _of_llama(_words(name)), False


def _of_llama(words: Sequence[str]) -> str | None:
    """The key of the Llama that a tune names first, as Meta's licence wants it, with its size anywhere behind:
    `Llama-3.1-Tulu-3-8B`."""
    text = " ".join(words)
    named = _LLAMA.match(text)
    if named is None:
        return None
    keys = (f"{owner}llama{named[1]}{size}" for size in _SIZE.findall(text[named.end() :]) for owner in ("", "meta"))
    return next((key for key in keys if key in _table()), None)


def _key(words: Sequence[str]) -> str:
    return "".join(words)


def _with_tunes(name: str) -> str:
    """The key of a tune that differs from its base in files or limits: `kimik2thinking`."""
    return _key([word for word in _all_words(_GGUF_KIND.sub("-", name.lower())) if not _is_quantization(word)])


_ALIASES = {
    "Llama-3-8B": "Meta-Llama-3-8B",
    "Llama-3-70B": "Meta-Llama-3-70B",
    "Meta-Llama-3.1-8B": "Llama-3.1-8B",
    "Meta-Llama-3.1-70B": "Llama-3.1-70B",
    "Meta-Llama-3.1-405B": "Llama-3.1-405B",
    "Meta-Llama-3.3-70B": "Llama-3.3-70B",
    "Llama-Guard-3-8B": "Llama-3.1-8B",
    "Llama2-7b": "Llama-2-7b",
    "Llama2-13b": "Llama-2-13b",
    "Llama2-70b": "Llama-2-70b",
    "Llama3-8B": "Meta-Llama-3-8B",
    "Llama3-70B": "Meta-Llama-3-70B",
    "Llama-4-Scout": "Llama-4-Scout-17B-16E",
    "Llama-4-Maverick": "Llama-4-Maverick-17B-128E",
    "Mistral-Nemo-12B": "Mistral-Nemo-2407",
    "Mistral-Nemo": "Mistral-Nemo-2407",
    "Mistral-Small-24B": "Mistral-Small-24B-2501",
    "Nemotron-Nano-9B-v2": "NVIDIA-Nemotron-Nano-9B-v2",
    "Nemotron-Nano-12B-v2": "NVIDIA-Nemotron-Nano-12B-v2",
    "Codestral-22B": "Codestral-22B-v0.1",
    "Nemotron-3-Nano-4B": "NVIDIA-Nemotron-3-Nano-4B",
    "Nemotron-3-Nano-30B-A3B": "NVIDIA-Nemotron-3-Nano-30B-A3B",
    "Nemotron-3-Super-120B-A12B": "NVIDIA-Nemotron-3-Super-120B-A12B",
    "Jamba-1.5-Mini": "AI21-Jamba-Mini",
    "Jamba-1.5-Large": "AI21-Jamba-Large",
    "command-r-v01": "c4ai-command-r-v01",
    "command-r-plus": "c4ai-command-r-plus",
    "command-r7b": "c4ai-command-r7b-12-2024",
    "command-a": "c4ai-command-a-03-2025",
    "OLMo-2-7B": "OLMo-2-1124-7B",
    "OLMo-2-13B": "OLMo-2-1124-13B",
    "OLMo-2-32B": "OLMo-2-0325-32B",
    "Phi-2": "phi-2",
    "SmolLM-135M": "SmolLM2-135M",
    "SmolLM-360M": "SmolLM2-360M",
    "SmolLM-1.7B": "SmolLM2-1.7B",
    "command-a-03-2025": "c4ai-command-a-03-2025",
    "command-r-08-2024": "c4ai-command-r-08-2024",
    "command-r7b-12-2024": "c4ai-command-r7b-12-2024",
    "AI21-Jamba-1.5-Mini": "AI21-Jamba-Mini",
    "AI21-Jamba-1.5-Large": "AI21-Jamba-Large",
    "Mixtral-8x7B-v0.1": "Mixtral-8x7B",
    "Mixtral-8x22B-v0.1": "Mixtral-8x22B",
    "Mistral-Large-3-675B-2512": "Mistral-Large-3-675B",
    "Mistral-Small-4-119B-2603": "Mistral-Small-4-119B",
    "vicuna-7b-v1.5": "vicuna-7b",
    "vicuna-13b-v1.5": "vicuna-13b",
    "zephyr-7b-beta": "zephyr-7b",
    "TinyLlama-1.1B-Chat-v1.0": "TinyLlama-1.1B",
    "MiMo-7B-RL": "MiMo-7B",
    "MiMo-VL-7B-RL": "MiMo-VL-7B",
    "Yi-1.5-6B": "Yi-6B",
    "Yi-1.5-9B": "Yi-9B",
    "Yi-1.5-34B": "Yi-34B",
    "InternVL2_5-38B": "InternVL3-38B",
    "InternVL2_5-78B": "InternVL3-78B",
    "InternVL2-8B": "InternVL2_5-8B",
    "DeepSeek-R1-Qwen3-8B": "DeepSeek-R1-0528-Qwen3-8B",
    "stablelm-zephyr-3b": "stablelm-3b-4e1t",
    "stablelm-2-zephyr-1_6b": "stablelm-2-1_6b",
}


def names() -> tuple[str, ...]:
    """All names of the table, as published."""
    return tuple(sorted({name for name, _ in _table().values()}, key=str.lower))


def find(name: str) -> ModelFacts | None:
    """Facts of a model by its name, for instance `Qwen/Qwen2.5-72B-Instruct-AWQ`; None for one that is not known."""
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME:
        return None
    return _find(name)


@lru_cache(maxsize=512)
def _find(name: str) -> ModelFacts | None:
    key, exact = _key_of(name)
    if key is None:
        return None
    published, config = _table()[key]
    facts = _facts(key)
    assumptions = facts.assumptions
    if not exact:
        assumptions += (
            f"{name.strip()[:100]} is not known by itself; its architecture was taken as that of {published}.",
        )
    quantization = _quantization(name, published)
    if quantization is not None:
        facts = replace(facts, quantization=_in_detail(quantization, facts, name, published))
        if _is_calibrated(name, facts):
            facts = replace(facts, kv_cache_dtype="fp8")
            assumptions += ("NVIDIA's FP8 and NVFP4 files ask for a cache in FP8, as those that are known do.",)
    elif "quantization_config" in config and any(word in ("bf16", "fp16") for word in _all_words(name)):
        facts = replace(facts, quantization=None)
    own_length = base_lengths.of(published, frozenset(_TUNES) & frozenset(_all_words(name))) if exact else None
    if own_length is not None:
        facts = replace(facts, max_position_embeddings=own_length)
    certain = exact and published not in base_lengths.UNSEEN
    return replace(facts, name=name.strip(), assumptions=assumptions, length_is_certain=certain)


@cache
def _facts(key: str) -> ModelFacts:
    name, config = _table()[key]
    if name in direct.FACTS:
        return direct.FACTS[name]
    facts = config_json.read(config, name=name)
    facts = replace(facts, source="table", pools=facts.pools or purpose.named_for_pooling(_all_words(name)))
    missing = {**more.TOTALS, **further.TOTALS}.get(name, 0) - facts.parameters
    if missing <= 0:
        return facts
    return replace(
        facts,
        parameters=facts.parameters + missing,
        active_parameters=facts.active_parameters + missing,
        tower_parameters=facts.tower_parameters + missing,
    )


def _words(name: str) -> list[str]:
    """`Qwen/Qwen2.5-7B-Instruct (fine-tune)` -> qwen2.5, 7b; words of tunes and of quantization left out."""
    plain = _GGUF_KIND.sub("-", _DOT.sub(".", name.lower()).replace("-", "_")).replace("_", "-")
    return [word for word in _all_words(plain) if word not in _TUNES and not _is_quantization(word)]


def _all_words(name: str) -> list[str]:
    """Everything after the owner, in lower case, cut at signs; a dot stays between digits alone."""
    plain = _DOT.sub(".", name.strip().lower())
    before, bracket, after = plain.partition("(")
    plain = before.rstrip().rstrip("/").rsplit("/", 1)[-1] + bracket + after
    plain = plain.replace("_", "-").replace("4-bit", "4bit").replace("8-bit", "8bit").replace("fine-tune", "")
    return [word for word in re.split(r"[^a-z0-9.]+|(?<![0-9])\.|\.(?![0-9])", plain) if word]


def _is_quantization(word: str) -> bool:
    return word in _QUANTIZED or word.startswith(("w4a", "w8a", "int4", "int8"))


def _longest(words: list[str]) -> tuple[str | None, bool]:
    """The longest name of the table that the words hold in a row, and whether they hold nothing else."""
    table = _table()
    for length in range(min(len(words), 12), 0, -1):
        for start in range(len(words) - length + 1):
            key = _key(words[start : start + length])
            whole = length == len(words)
            if not whole and (key in _ALONE or (length == 1 and not any(letter.isdigit() for letter in key))):
                continue
            if key in table:
                return key, whole
            if key in _tunes():
                return _tunes()[key], False
    return None, False


def _quantization(name: str, published: str) -> str | None:
    """What the part of the name that is not the model's says about quantization."""
    plain = name.lower()
    kind = _GGUF_KIND.search(name.lower().replace("-", "_"))
    if "gguf" in plain or kind is not None:
        found = formats.gguf(kind.group(1)) if kind is not None else None
        return found.name if found is not None else "gguf:Q4_K_M"
    said = [word for word in _all_words(name) if _is_quantization(word) and word not in _all_words(published)]
    if not said:
        return None
    described = formats.named(" ".join(said))
    return described.name if described is not None else None


def _is_calibrated(name: str, facts: ModelFacts) -> bool:
    """Whether files of that name ask for a cache in FP8 (`kv_cache_quant_algo`): ModelOpt files of NVIDIA do (Llama 3.3
    70B, Nemotron 3 Nano); of those with latent attention that is not known."""
    latent = any(layers.kind == "mla" for layers in facts.layers)
    kind = (facts.quantization or "").split(":")[0].removesuffix("_block")
    return name.strip().lower().startswith("nvidia/") and kind in ("fp8", "nvfp4") and not latent


def _in_detail(quantization: str, facts: ModelFacts, name: str, published: str) -> str:
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
