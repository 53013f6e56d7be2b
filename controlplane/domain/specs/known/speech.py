"""Whisper: an encoder of 30 s of sound beside a decoder, counted from the published code.

A decoder layer keeps the tokens of the answer, and once a request what it attends to of the 1500 of the sound.
"""

from __future__ import annotations

from controlplane.domain.specs.model import LayerRun, Layers, ModelFacts

_SOUND_TOKENS, _ANSWER_TOKENS = 1500, 448
_HEAD_DIM = 64
# name: width, layers of the encoder, layers of the decoder, bands of the spectrum, vocabulary
_SIZES: dict[str, tuple[int, int, int, int, int]] = {
    "whisper-tiny": (384, 4, 4, 80, 51865),
    "whisper-base": (512, 6, 6, 80, 51865),
    "whisper-small": (768, 12, 12, 80, 51865),
    "whisper-medium": (1024, 24, 24, 80, 51865),
    "whisper-large": (1280, 32, 32, 80, 51865),
    "whisper-large-v2": (1280, 32, 32, 80, 51865),
    "whisper-large-v3": (1280, 32, 32, 128, 51866),
    "whisper-large-v3-turbo": (1280, 32, 4, 128, 51866),
    "distil-large-v3": (1280, 32, 2, 128, 51866),
}


def _layer(width: int) -> int:
    """Of the decoder: attention of its own and over the sound, a feed-forward, three norms; keys have no bias."""
    return 4 * width * width * 2 + 8 * width * width + (2 * 3 + 1 + 4) * width + 3 * 2 * width


def _hearing(width: int, layers: int, bands: int) -> int:
    """The encoder: two convolutions over three steps, positions, and layers with one attention."""
    convolutions = 3 * (bands + width) * width + 2 * width
    layer = 4 * width * width + 8 * width * width + (3 + 1 + 4) * width + 2 * 2 * width
    return convolutions + _SOUND_TOKENS * width + layers * layer + 2 * width


def _facts(name: str, sizes: tuple[int, int, int, int, int]) -> ModelFacts:
    width, encoder, decoder, bands, vocab = sizes
    hearing = _hearing(width, encoder, bands)
    total = hearing + decoder * _layer(width) + (vocab + _ANSWER_TOKENS + 2) * width
    heads = width // _HEAD_DIM
    return ModelFacts(
        name=name,
        family="whisper",
        parameters=total,
        active_parameters=total,
        hidden_size=width,
        num_hidden_layers=decoder,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=_HEAD_DIM,
        intermediate_size=4 * width,
        vocab_size=vocab,
        layers=(
            Layers("full", decoder, kv_heads=heads, head_dim=_HEAD_DIM),
            Layers("beside", decoder, kv_heads=heads, head_dim=_HEAD_DIM),
        ),
        layer_runs=(LayerRun(decoder, 0, _layer(width)),),
        tie_word_embeddings=True,
        max_position_embeddings=_ANSWER_TOKENS,
        embedding_parameters=vocab * width,
        attention_parameters=decoder * 8 * width * width,
        tower_parameters=hearing,
        torch_dtype="float16",
        source="table",
    )


FACTS: dict[str, ModelFacts] = {name: _facts(name, sizes) for name, sizes in _SIZES.items()}
