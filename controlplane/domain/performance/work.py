"""Bytes and FLOPs of one step of a model on one card: what any engine has to move and to multiply.

Units: bytes and FLOPs on one accelerator. A step takes some tokens of prompts and one token of each running request
(more when drafts are verified). Sources: a token is multiplied with every active weight once (2 FLOPs a weight); all
dense weights are read once a step; a routed expert is read when at least one token of the batch chose it.
"""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.performance import number_formats
from controlplane.domain.performance.setup import Setup
from controlplane.domain.specs.model import Layers, ModelFacts

_STATE_KINDS = frozenset({"mamba2", "gated_delta", "linear"})
_UNFOLDED_DIMS = 192 + 128


@dataclass(frozen=True, slots=True)
class Work:
    """Of one model on one set-up, on one card. `kv` is (bytes a token of context, window or None) by kind of layer."""

    dense_bytes: float  # weights read whatever the batch
    expert_bytes: float  # of all routed experts on this card
    expert_share: float  # of the experts that one token chooses (0 without experts)
    kv: tuple[tuple[float, float | None], ...]
    state_bytes: float  # of recurrent layers, read and written for one request
    flops_per_token: float
    attention_flops: float  # of one token with one token of context, by layers without a window
    hidden_bytes: float  # of one token's activations between layers
    latent: bool  # attention over a shared latent (MLA)
    kv_copies: int  # requests are split over this many ranks of attention

    def expert_share_touched(self, tokens: float) -> float:
        """Expected share of experts that `tokens` tokens choose at least once, each choosing on its own."""
        return 1.0 - (1.0 - self.expert_share) ** tokens if self.expert_share else 0.0

    def kv_bytes_of(self, context_tokens: float) -> float:
        """Bytes of cache that one decoding request reads a step, on one card."""
        found = 0.0
        for size, window in self.kv:
            found += size * (context_tokens if window is None else min(window, context_tokens))
        return found + 2 * self.state_bytes


def of(model: ModelFacts, setup: Setup, weights: number_formats.WeightFormat) -> Work:
    """The work on one card. `setup` has been checked: degrees are positive and divide the cards."""
    ranks = setup.tensor_parallel * setup.pipeline_parallel
    attention_ranks = max(1, setup.tensor_parallel // setup.attention_parallel)
    routed = model.experts.routed_params if model.experts else 0
    # the head is multiplied with; input embeddings, and tables of single layers, are only looked up
    head = min(model.embedding_parameters, model.vocab_size * model.hidden_size)
    dense = max(0.0, model.parameters - model.embedding_parameters - routed - model.tower_parameters)
    share = min(1.0, model.experts.active / model.experts.count) if model.experts else 0.0
    dense_bytes = dense * weights.dense_bytes + head * 2.0
    return Work(
        dense_bytes=dense_bytes / (attention_ranks * setup.pipeline_parallel),
        expert_bytes=routed * weights.expert_bytes / ranks,
        expert_share=share,
        kv=tuple(_kv(layer, setup, attention_ranks) for layer in model.layers if layer.kind not in _STATE_KINDS),
        state_bytes=_state_bytes(model, attention_ranks) / setup.pipeline_parallel,
        flops_per_token=2 * (dense + head + routed * share) / ranks,
        attention_flops=_attention_flops(model) / ranks,
        hidden_bytes=2.0 * model.hidden_size,
        latent=any(layer.kind == "mla" for layer in model.layers),
        kv_copies=setup.attention_parallel,
    )


def _kv(layer: Layers, setup: Setup, ranks: int) -> tuple[float, float | None]:
    """Bytes a token of context and the window; heads are split over ranks as far as there are heads, latents never."""
    element = number_formats.kv_bytes(setup.kv_format) or 2.0
    if setup.kv_format == "auto" and setup.kv_narrow:
        element = 1.0
    if layer.kind == "mla":
        elements = float(layer.latent_elements + layer.indexer_elements)
    else:
        value_dim = layer.head_dim if layer.value_head_dim is None else layer.value_head_dim
        elements = layer.kv_heads * (layer.head_dim + value_dim) / max(1, min(ranks, layer.kv_heads))
    return elements * element * layer.count / setup.pipeline_parallel, layer.window_tokens


def _state_bytes(model: ModelFacts, ranks: int) -> float:
    states = [(layer.count, layer.state) for layer in model.layers if layer.state is not None]
    return sum(count * state.ssm_elements * state.ssm_dtype_bytes / ranks for count, state in states)


def _attention_flops(model: ModelFacts) -> float:
    """Scores and values of prompts; a latent (MLA) is unfolded to keys of 192 and values of 128 there."""
    heads = model.num_attention_heads
    dims = sum(
        layer.count * (_UNFOLDED_DIMS if layer.kind == "mla" else 2 * layer.head_dim)
        for layer in model.layers
        if layer.kind in {"full", "mla"}
    )
    return 2.0 * heads * dims
