"""Vision and audio towers with their projectors: parameters, from the configs beside the text config."""

from __future__ import annotations

from controlplane.domain.specs.families import audio, vision
from controlplane.domain.specs.fields import Fields

_WIDTHS = ("hidden_size", "vt_hidden_size", "width", "embed_dim", "d_model")


def read(top: Fields, hidden: int, model_type: str) -> tuple[int, list[str]]:
    """Parameters of all towers and their projectors, with what was assumed. 0 for a model of text alone."""
    total = 0
    assumed: list[str] = []
    for name in ("vision_config", "vit_config", "visual", "vision_tower_config"):
        part = top.part(name)
        if part is None or not part.values:
            continue
        if part.has(*_WIDTHS):
            total += vision.read(top, part, hidden, model_type)
        else:
            assumed.append(f"{name} names no widths; its tower was left out.")
        break
    for name in ("audio_config", "audio_encoder_config", "encoder_config"):
        part = top.part(name)
        if part is not None and part.has("d_model", "hidden_size"):
            total += audio.read(part, hidden)
            break
    return total, assumed
