"""A model of which only the sizes are known: an architecture such as models of that size have.

Rules: layers and width from 12 x layers x width**2 = parameters a token meets, with a width of 110 times the layers
(published dense models from 7 to 72 billion parameters lie between 80 and 130); 8 key/value heads of 128; a mixture of
128 experts of which 8 are chosen. Cached bytes and latencies follow from that, so they are guesses and said to be.
"""

from __future__ import annotations

from controlplane.domain.specs.model import Experts, Layers, ModelFacts

_WIDTH_PER_LAYER = 110.0
_EXPERTS, _CHOSEN = 128, 8
_VOCABULARY = 128_000
_MOE_BELOW = 0.7  # active share below which a mixture of experts is meant


def of(name: str, parameters: float, active: float) -> ModelFacts:
    """Facts for `parameters` in all, of which a token meets `active` (both absolute numbers)."""
    layers = max(4, round((active / (12 * _WIDTH_PER_LAYER**2)) ** (1 / 3)))
    width = max(256, int(_WIDTH_PER_LAYER * layers) // 128 * 128)
    heads = max(8, width // 128)
    experts = None
    if active < _MOE_BELOW * parameters:
        routed = int((parameters - active) / (1 - _CHOSEN / _EXPERTS))
        experts = Experts(_EXPERTS, _CHOSEN, 1, min(routed, int(parameters * 0.98)))
    return ModelFacts(
        name=name,
        family="assumed",
        parameters=int(parameters),
        active_parameters=int(active),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=4 * width,
        vocab_size=_VOCABULARY,
        layers=(Layers("full", layers, kv_heads=8, head_dim=128),),
        embedding_parameters=min(2 * _VOCABULARY * width, int(0.1 * active)),
        experts=experts,
        source="sizes",
        assumptions=(f"The architecture of {name} is not known; layers and cached heads are usual for its size.",),
    )
