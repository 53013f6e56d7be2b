"""What is taken where a set-up says nothing: length, batch, the largest image. Each of it is noted."""

from __future__ import annotations

import re
from dataclasses import replace

from controlplane.domain.footprint.cards import Card
from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.specs.model import Layers, ModelFacts

_USUAL_LENGTH = 32768
# tokens of the largest image, where nothing limits it: families that take images of any size, and all others
_ANY_SIZE_FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "qwen2_5_omni", "qwen3_omni", "gated")
_ANY_SIZE_IMAGE_TOKENS = 16384
_IMAGE_TOKENS = 4096
_PADDED_HEAD = 256
_SOUND_TOKENS = 1500  # Whisper takes 30 s at a time, padded


def limited(model: ModelFacts, rules: EngineRules) -> ModelFacts:
    """The model with the limit that this engine derives for it."""
    if model.yarn_length_tokens is None or not rules.scales_yarn:
        return model
    return replace(model, max_position_embeddings=model.yarn_length_tokens)


def as_kept(model: ModelFacts, rules: EngineRules, notes: list[str]) -> ModelFacts:
    """The model with the caches that this engine keeps for it. Before 0.7.1 there were no latents: keys and values of
    every head, padded to a width of 256 (`get_head_size` of 0.6)."""
    if rules.keeps_latents or not model.num_attention_heads or all(layer.kind != "mla" for layer in model.layers):
        return model
    notes.append(f"vLLM {rules.label} keeps keys and values of every head for this model, {_PADDED_HEAD} wide.")
    layers = tuple(
        Layers("full", layer.count, kv_heads=model.num_attention_heads, head_dim=_PADDED_HEAD)
        if layer.kind == "mla"
        else layer
        for layer in model.layers
    )
    return replace(model, layers=layers)


def length(model: ModelFacts, rules: EngineRules, given: int | None, notes: list[str]) -> int:
    """max_model_len in tokens."""
    limit = model.max_position_embeddings
    if given is None:
        usual = model.usual_length_tokens
        if usual is not None and (limit is None or rules.keeps_short_under_longrope):
            notes.append(f"max_model_len is not given; {usual} was taken, what the engine takes for this model.")
            return usual
        why = "the model's own limit" if limit else "a usual limit"
        notes.append(f"max_model_len is not given; {limit or _USUAL_LENGTH} was taken, {why}.")
        return limit or _USUAL_LENGTH
    return given


def image_tokens(model: ModelFacts, given: str | bool | None, notes: list[str]) -> int:
    """Tokens that the encoder is profiled with; 0 for text alone."""
    if any(layer.kind == "beside" for layer in model.layers):
        return _SOUND_TOKENS
    text = given.lower() if isinstance(given, str) else ""
    if given is False or any(word in text for word in ("disabled", "text only", "image 0", "none")):
        return 0
    numbers = [int(number) for number in re.findall(r"\b(\d{4,6})\b", text)]
    if numbers:
        return numbers[0]
    if not given and not model.tower_parameters:
        return 0
    words = f"{model.family} {text}".replace("-", "_").replace(".", "_")
    tokens = _ANY_SIZE_IMAGE_TOKENS if any(family in words for family in _ANY_SIZE_FAMILIES) else _IMAGE_TOKENS
    notes.append(f"The largest image that the encoder is profiled with is not given; {tokens} tokens were taken.")
    return tokens


def batch(
    model: ModelFacts,
    card: Card,
    rules: EngineRules,
    given: tuple[int | None, int | None],
    notes: list[str],
    *,
    length: int,
    multimodal: bool,
) -> tuple[int, int]:
    """Requests and tokens a step; `given` are both as they were asked for, None = not at all."""
    sequences, tokens = given
    if sequences is None:
        usual = rules.default_sequences(card.total_bytes, card.name)
        sequences = usual if tokens is None else min(usual, tokens)  # a step holds a token of each
        notes.append(f"max_num_seqs is not given; {sequences} is the default of {rules.label} on this card.")
    if tokens is None:
        latent = any(layer.kind == "mla" for layer in model.layers)
        usual = rules.default_batched_tokens(card.total_bytes, card.name, length, multimodal=multimodal, latent=latent)
        tokens = min(usual, sequences * length)
        notes.append(f"max_num_batched_tokens is not given; {tokens} is the default of {rules.label} on this card.")
    return sequences, tokens
