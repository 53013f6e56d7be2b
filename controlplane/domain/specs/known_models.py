"""Facts of well-known models by their name alone.

A name is matched whatever its case and owner; a suffix that names a quantization goes into `quantization`; a fine-tune
that carries the name of its base is taken as its base, and that is said in `assumptions`. What a name says beside that
may make it another model, which is then not known (`known.likeness`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, lru_cache

from controlplane.domain.specs import config_json
from controlplane.domain.specs.families import purpose
from controlplane.domain.specs.known import (
    aliases,
    base_lengths,
    deepseek,
    fewer_experts,
    file_precision,
    further,
    hybrid,
    likeness,
    llama,
    more,
    other,
    qwen,
    searched,
    speech,
    tunes,
    wider,
    words,
)
from controlplane.domain.specs.known.row import Config
from controlplane.domain.specs.model import ModelFacts

_LONGEST_NAME = 300
_ALONE = frozenset(("xlmroberta", "bgereranker"))  # without their size, which is "base": larger ones carry them too
# families whose tunes name them and the size, with words of their own between
_FAMILIES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"\b(?:llama ?|l)(2|3(?:\.[123])?)(?![.\d])"), ("llama", "metallama")),
    (re.compile(r"\bqwen ?(1\.5|2|2\.5|3|3\.5|3\.6)(?![.\d])"), ("qwen",)),
    (re.compile(r"\bgemma ?(2|3)(?![.\d])"), ("gemma",)),
)
_TOTALS = {**more.TOTALS, **further.TOTALS, **wider.TOTALS}
_SIZE = re.compile(r"\b\d+(?:\.\d+)?b\b")


@cache
def _table() -> dict[str, tuple[str, Config]]:
    """Models by their plain name without signs between the words: `qwen2.57b` -> (name as published, config)."""
    found: dict[str, tuple[str, Config]] = {}
    published: dict[str, Config] = {}
    for part in (llama, qwen, deepseek, hybrid, other, more, further, wider, searched, fewer_experts):
        for name, config in part.MODELS.items():
            key = words.key(words.own(name))
            found[key if key not in found else words.with_tunes(name)] = (name, config)
            published[name] = config
    found.update({words.with_tunes(name): (name, {}) for name in speech.FACTS})
    for alias, name in aliases.ALIASES.items():
        found[words.key(words.own(alias))] = found[words.key(words.own(name))]
    for short, name in aliases.shortened(published).items():
        found.setdefault(words.key(words.own(short)), found[words.key(words.own(name))])
    return found


@cache
def _tunes() -> dict[str, str]:
    """Keys of tunes that are named otherwise than their base -> the key of that."""
    return {words.key(words.own(name)): words.key(words.own(base)) for name, base in tunes.TUNES.items()}


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
    if key is None or words.is_of_other_engines(name):
        return None
    published, config = _table()[key]
    facts = _facts(key)
    assumptions = facts.assumptions
    if not exact:
        assumptions += (
            f"{name.strip()[:100]} is not known by itself; its architecture was taken as that of {published}.",
        )
    quantization, assumed = file_precision.said(name, published)
    if quantization is not None:
        facts = replace(facts, quantization=file_precision.in_detail(quantization, facts, name, published))
        assumptions += assumed
        if file_precision.is_calibrated(name, facts):
            facts = replace(facts, kv_cache_dtype="fp8")
            assumptions += ("NVIDIA's FP8 and NVFP4 files ask for a cache in FP8, as those that are known do.",)
    elif "quantization_config" in config and file_precision.is_plain(name):
        facts = replace(facts, quantization=None)
    own_length = base_lengths.of(published, words.TUNES & frozenset(words.every(name))) if exact else None
    if own_length is not None:
        facts = replace(facts, max_position_embeddings=own_length)
    certain = exact and published not in base_lengths.UNSEEN
    return replace(facts, name=name.strip(), assumptions=assumptions, length_is_certain=certain)


@cache
def _facts(key: str) -> ModelFacts:
    name, config = _table()[key]
    if name in speech.FACTS:
        return speech.FACTS[name]
    facts = config_json.read(config, name=name)
    facts = replace(facts, source="table", pools=facts.pools or purpose.named_for_pooling(words.every(name)))
    missing = _TOTALS.get(name, 0) - facts.parameters
    if missing <= 0:
        return facts
    return replace(
        facts,
        parameters=facts.parameters + missing,
        active_parameters=facts.active_parameters + missing,
        tower_parameters=facts.tower_parameters + missing,
    )


def _key_of(name: str) -> tuple[str | None, bool]:
    """The key of `_table` that a name means, and whether it says nothing else. `_` may stand for a dot or a dash."""
    refused = False
    for written in (name, name.replace("_", "-")):
        if words.with_tunes(written) in _table():
            return words.with_tunes(written), True
        own = words.own(written)
        key, rest = _longest(own)
        if key is not None:
            if not rest:
                return key, words.key(own) in _table()
            if not likeness.is_another(rest, _facts(key), words.every(written), words.remarks(written)):
                return key, False
            refused = True
    return (None if refused else _of_family(words.own(name), words.every(name))), False


def _longest(own: Sequence[str]) -> tuple[str | None, list[str]]:
    """The key of the longest name, of the table or of a tune, that the words hold in a row, and the words beside it."""
    for length in range(min(len(own), 12), 0, -1):
        for start in range(len(own) - length + 1):
            key = words.key(own[start : start + length])
            rest = [*own[:start], *own[start + length :]]
            if rest and (key in _ALONE or (length == 1 and not any(letter.isdigit() for letter in key))):
                continue
            if key in _table():
                return key, rest
            if key in _tunes():
                return _tunes()[key], rest
    return None, list(own)


def _of_family(own: Sequence[str], every: Sequence[str]) -> str | None:
    """The key of the model that a tune names by family and size, with words between them, as Meta's licence wants it:
    `Llama-3.1-Tulu-3-8B`."""
    text = " ".join(own)
    for family, prefixes in _FAMILIES:
        named = family.search(text)
        if named is None:
            continue
        rest = text[: named.start()] + text[named.end() :]
        for size in _SIZE.findall(rest):
            key = next((one for one in (f"{word}{named[1]}{size}" for word in prefixes) if one in _table()), None)
            if key is not None and not likeness.is_another(rest.split(), _facts(key), every):
                return key
    return None
