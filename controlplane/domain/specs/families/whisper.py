"""Whisper: an encoder of 30 s of sound beside a decoder, counted from the published code.

A decoder layer keeps the tokens of the answer, and once a request what it attends to of the tokens of the sound.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.specs.fields import LARGEST_LAYERS, LARGEST_LENGTH, Fields
from controlplane.domain.specs.model import LayerRun, Layers, ModelFacts

MODEL_TYPE = "whisper"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of its config.json. `bands` are those of the spectrum, `sound` and `answer` the most tokens of each."""

    width: int
    encoder: int
    decoder: int
    bands: int = 80
    vocab: int = 51865
    heads: int = 0  # of 64 elements each where they are not given
    sound: int = 1500
    answer: int = 448

    @property
    def layer(self) -> int:
        """Of the decoder: attention of its own and over the sound, a feed-forward, three norms; keys have no bias."""
        width = self.width
        return 4 * width * width * 2 + 8 * width * width + (2 * 3 + 1 + 4) * width + 3 * 2 * width

    @property
    def hearing(self) -> int:
        """The encoder: two convolutions over three steps, positions, and layers with one attention."""
        width = self.width
        convolutions = 3 * (self.bands + width) * width + 2 * width
        layer = 4 * width * width + 8 * width * width + (3 + 1 + 4) * width + 2 * 2 * width
        return convolutions + self.sound * width + self.encoder * layer + 2 * width


def read(fields: Fields, *, name: str = "") -> ModelFacts:
    """Facts from a config.json. Raises RefusedError naming the field that is missing or can't be."""
    width = fields.need("d_model", least=64)
    heads = fields.need("decoder_attention_heads")
    if width % heads:
        raise fields.refuse("decoder_attention_heads", heads, f"a divisor of d_model ({width})")
    for field in ("encoder_ffn_dim", "decoder_ffn_dim"):
        inner = fields.number(field)
        if inner is not None and inner != 4 * width:
            raise fields.refuse(field, inner, f"{4 * width}, four times d_model")
    sizes = Sizes(
        width,
        encoder=fields.need("encoder_layers", most=LARGEST_LAYERS),
        decoder=fields.need("decoder_layers", most=LARGEST_LAYERS),
        bands=fields.number("num_mel_bins", most=1024) or 80,
        vocab=fields.need("vocab_size"),
        heads=heads,
        sound=fields.number("max_source_positions", most=LARGEST_LENGTH) or 1500,
        answer=fields.number("max_target_positions", most=LARGEST_LENGTH) or 448,
    )
    return facts(name, sizes, source="config.json")


def facts(name: str, sizes: Sizes, *, source: str = "table") -> ModelFacts:
    """The model of those sizes."""
    width, decoder, embedding = sizes.width, sizes.decoder, sizes.vocab * sizes.width
    total = sizes.hearing + decoder * sizes.layer + embedding + (sizes.answer + 2) * width
    heads = sizes.heads or width // 64
    head_dim = width // heads
    return ModelFacts(
        name=name,
        family=MODEL_TYPE,
        parameters=total,
        active_parameters=total,
        hidden_size=width,
        num_hidden_layers=decoder,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=head_dim,
        intermediate_size=4 * width,
        vocab_size=sizes.vocab,
        layers=(
            Layers("full", decoder, kv_heads=heads, head_dim=head_dim),
            Layers("beside", decoder, kv_heads=heads, head_dim=head_dim),
        ),
        layer_runs=(LayerRun(decoder, 0, sizes.layer),),
        tie_word_embeddings=True,
        max_position_embeddings=sizes.answer,
        embedding_parameters=embedding,
        attention_parameters=decoder * 8 * width * width,
        tower_parameters=sizes.hearing,
        torch_dtype="float16",
        source=source,
    )
