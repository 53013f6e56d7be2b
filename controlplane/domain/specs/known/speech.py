"""Whisper in its sizes, by name alone: facts themselves, counted from published code."""

from __future__ import annotations

from controlplane.domain.specs.families import whisper
from controlplane.domain.specs.families.whisper import Sizes
from controlplane.domain.specs.model import ModelFacts

_SIZES: dict[str, Sizes] = {
    "whisper-tiny": Sizes(384, 4, 4),
    "whisper-base": Sizes(512, 6, 6),
    "whisper-small": Sizes(768, 12, 12),
    "whisper-medium": Sizes(1024, 24, 24),
    "whisper-large": Sizes(1280, 32, 32),
    "whisper-large-v2": Sizes(1280, 32, 32),
    "whisper-large-v3": Sizes(1280, 32, 32, bands=128, vocab=51866),
    "whisper-large-v3-turbo": Sizes(1280, 32, 4, bands=128, vocab=51866),
    "distil-large-v3": Sizes(1280, 32, 2, bands=128, vocab=51866),
}

FACTS: dict[str, ModelFacts] = {name: whisper.facts(name, sizes) for name, sizes in _SIZES.items()}
