"""One line of the table of well-known models: the fields of its config.json that the sums need."""

# ruff: noqa: PLR0917 - a line of the table gives widths in the order in which papers do
from __future__ import annotations

from collections.abc import Mapping

Config = Mapping[str, object]


def row(
    model_type: str, hidden: int, inner: int, layers: int, heads: int, kv_heads: int, vocab: int, **more: object
) -> Config:
    """A text model; `more` are further fields under their own names."""
    return {
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "tie_word_embeddings": False,
        **more,
    }


def seeing(model_type: str, text: Config, vision: Config, **more: object) -> Config:
    """A model with a vision tower before its text model."""
    return {"model_type": model_type, "text_config": text, "vision_config": vision, **more}


def changed(base: Config, **more: object) -> Config:
    """The same config with some fields changed."""
    return {**base, **more}
