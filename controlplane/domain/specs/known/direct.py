"""Models whose config.json tells too little of what they keep: their facts themselves, counted from published code."""

from __future__ import annotations

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

FACTS: dict[str, ModelFacts] = {"Zamba2-7B": _ZAMBA_2_7B}
