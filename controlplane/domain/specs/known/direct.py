"""Models whose config.json tells too little of what they keep: their facts themselves, counted from published code."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.specs.known import speech
from controlplane.domain.specs.model import LayerRun, Layers, ModelFacts, StateShape

_HIDDEN, _INNER, _GROUPS, _STATE, _HEADS = 3584, 7168, 2, 64, 112
_PARAMETERS, _EMBEDDING = 7_356_749_648, 32000 * _HIDDEN

# 81 Mamba 2 layers, before 13 of which one of two shared transformer blocks runs; each time with a cache of its own
_ZAMBA_2_7B = ModelFacts(
    name="Zamba2-7B",
    family="zamba2",
    parameters=_PARAMETERS,
    active_parameters=_PARAMETERS,  # stored ones: a token is multiplied with the shared blocks more than once
    hidden_size=_HIDDEN,
    num_hidden_layers=81,
    num_attention_heads=32,
    num_key_value_heads=32,
    head_dim=224,
    intermediate_size=14336,
    vocab_size=32000,
    layers=(
        Layers(
            "mamba2",
            81,
            state=StateShape(3 * (_INNER + 2 * _GROUPS * _STATE), _HEADS * 64 * _STATE, ssm_dtype_bytes=2),
        ),
        Layers("full", 13, kv_heads=32, head_dim=224),
    ),
    tie_word_embeddings=True,
    max_position_embeddings=4096,
    embedding_parameters=_EMBEDDING,
    layer_runs=(LayerRun(81, 0, (_PARAMETERS - _EMBEDDING) // 81),),
    attention_parameters=6_353_190_224 + 2 * (3 * 7168 * 7168 + 7168 * _HIDDEN),
    source="table",
)


@dataclass(frozen=True, slots=True)
class _Zamba:
    """The small ones: one group of states, `runs` of `blocks` shared blocks, over the width of two hidden states.
    `adapted`: each run has adapters of rank 128 for attention too, beside those of the feed-forward."""

    hidden: int
    layers: int
    runs: int
    blocks: int
    state: int
    adapted: bool

    @property
    def conv(self) -> int:
        """Width of the convolution."""
        return 2 * self.hidden + 2 * self.state

    @property
    def projections(self) -> int:
        """Of one Mamba 2 layer."""
        inner = 2 * self.hidden
        return self.hidden * (inner + self.conv + inner // 64) + inner * self.hidden

    @property
    def attention(self) -> int:
        """Of one shared block."""
        return 3 * (2 * self.hidden) ** 2 + 2 * self.hidden * self.hidden

    @property
    def total(self) -> int:
        """All parameters, each stored one once."""
        inner = 2 * self.hidden
        mamba = self.projections + 5 * self.conv + 3 * (inner // 64) + inner + self.hidden
        shared = self.attention + 12 * self.hidden * self.hidden + 3 * self.hidden
        each = self.hidden * self.hidden + 128 * 9 * self.hidden + (3 * 128 * 4 * self.hidden if self.adapted else 0)
        return 32001 * self.hidden + self.layers * mamba + self.blocks * shared + self.runs * each


def _zamba_2(name: str, one: _Zamba) -> ModelFacts:
    total, embedding, head_dim = one.total, 32000 * one.hidden, 2 * one.hidden // 32
    return ModelFacts(
        name=name,
        family="zamba2",
        parameters=total,
        active_parameters=total,
        hidden_size=one.hidden,
        num_hidden_layers=one.layers,
        num_attention_heads=32,
        num_key_value_heads=32,
        head_dim=head_dim,
        intermediate_size=4 * one.hidden,
        vocab_size=32000,
        layers=(
            Layers("mamba2", one.layers, state=StateShape(3 * one.conv, 2 * one.hidden * one.state, ssm_dtype_bytes=2)),
            Layers("full", one.runs, kv_heads=32, head_dim=head_dim),
        ),
        tie_word_embeddings=True,
        max_position_embeddings=4096,
        embedding_parameters=embedding,
        layer_runs=(LayerRun(one.layers, 0, (total - embedding) // one.layers),),
        attention_parameters=one.layers * one.projections + one.blocks * one.attention,
        source="table",
    )


FACTS: dict[str, ModelFacts] = {
    "Zamba2-1.2B": _zamba_2("Zamba2-1.2B", _Zamba(2048, 38, 6, 1, 128, adapted=True)),
    "Zamba2-2.7B": _zamba_2("Zamba2-2.7B", _Zamba(2560, 54, 9, 2, 64, adapted=False)),
    "Zamba2-7B": _ZAMBA_2_7B,
    **speech.FACTS,
}
