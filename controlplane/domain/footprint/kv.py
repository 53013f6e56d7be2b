"""Bytes that the layers of a model keep for a request, on one accelerator.

Formula (vLLM's cache interface): a token takes kv_heads_local x (key + value bytes) in each attention layer, where
kv_heads_local = max(1, kv_heads // tensor_parallel): heads are copied once there are more ranks than heads. Latent
attention (MLA) keeps one entry a token and layer, which every rank holds whole. Recurrent layers keep a state of fixed
size, split over the ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.specs.kv_precision import KvPrecision
from controlplane.domain.specs.model import AttentionKind, Layers, StateShape

_CONV_ROWS = 3  # kernels of 4 in every published recurrent layer: 3 earlier inputs are kept
_RECURRENT = ("mamba2", "gated_delta", "linear")
_STATELESS = ("none", "encoder")


@dataclass(frozen=True, slots=True)
class KvBucket:
    """Layers of one accelerator that keep the same. Bytes are of one layer.

    `token_bytes` grow with the request; `state_bytes` are there once a request; `window_tokens` bounds what is kept.
    """

    kind: AttentionKind
    layers: int
    token_bytes: int = 0
    state_bytes: int = 0
    window_tokens: int | None = None

    @property
    def recurrent(self) -> bool:
        """Whether it keeps a state of fixed size instead of something for each token."""
        return self.state_bytes > 0


def buckets(
    layers: tuple[Layers, ...],
    *,
    tensor_parallel: int,
    precision: KvPrecision,
    rules: EngineRules,
    stages: int = 1,
    draft_tokens: int = 0,
    eagle: bool = False,
) -> tuple[KvBucket, ...]:
    """What one rank of the fullest pipeline stage keeps, in buckets of layers that are alike.

    `draft_tokens` is how many tokens speculation proposes: the convolution window of recurrent layers grows by them.
    `eagle`: whether a draft shares the model's cache, beside which chunks are not cut off.
    """
    found: dict[KvBucket, int] = {}
    for kind in layers:
        if kind.kind in _STATELESS or not kind.count or not _is_kept(kind, rules):
            continue
        count = ceil(kind.count / stages)
        windowed = _is_windowed(kind, rules, eagle)
        for bucket in _of_layer(kind, tensor_parallel, precision, rules, draft_tokens=draft_tokens, windowed=windowed):
            found[bucket] = found.get(bucket, 0) + count
    return tuple(KvBucket(b.kind, n, b.token_bytes, b.state_bytes, b.window_tokens) for b, n in found.items())


def local_heads(kv_heads: int, tensor_parallel: int) -> int:
    """Key-value heads that one rank holds."""
    return max(1, kv_heads // tensor_parallel)


def _is_kept(layer: Layers, rules: EngineRules) -> bool:
    """In V0 layers over an image took their part of every block, and those beside a decoder's own shared its part."""
    if layer.kind == "cross":
        return rules.cross_takes_cache
    return layer.kind != "beside" or not rules.cross_takes_cache


def _is_windowed(layer: Layers, rules: EngineRules, eagle: bool) -> bool:
    if layer.kind == "chunked":
        return rules.chunks_save_memory(eagle=eagle)
    return layer.kind == "sliding" and rules.windows_save_memory


def _of_layer(
    layer: Layers,
    tensor_parallel: int,
    precision: KvPrecision,
    rules: EngineRules,
    *,
    draft_tokens: int,
    windowed: bool,
) -> list[KvBucket]:
    if layer.kind in _RECURRENT:
        state = layer.state or StateShape(0, 0)
        return [KvBucket(layer.kind, 0, state_bytes=_state_bytes(state, tensor_parallel, draft_tokens))]
    if layer.kind == "mla":
        return _latent(layer, precision, rules)
    heads = local_heads(layer.kv_heads, tensor_parallel)
    value_dim = layer.head_dim if layer.value_head_dim is None else layer.value_head_dim
    token_bytes = heads * (precision.vector_bytes(layer.head_dim) + precision.vector_bytes(value_dim))
    kind: AttentionKind = layer.kind if windowed or layer.kind == "beside" else "full"
    return [KvBucket(kind, 0, token_bytes, window_tokens=layer.window_tokens if windowed else None)]


def _latent(layer: Layers, precision: KvPrecision, rules: EngineRules) -> list[KvBucket]:
    align = rules.mla_entry_alignment_bytes
    entry = -(-precision.latent_bytes(layer.latent_elements) // align) * align
    found = [KvBucket("mla", 0, entry)]
    if layer.indexer_elements:
        found.append(KvBucket("mla", 0, precision.indexer_bytes(layer.indexer_elements)))
    return found


def _state_bytes(state: StateShape, tensor_parallel: int, draft_tokens: int) -> int:
    """One request's state in one layer of one rank."""
    conv = state.conv_elements * (_CONV_ROWS + draft_tokens) // _CONV_ROWS
    sizes = conv * state.conv_dtype_bytes + state.ssm_elements * state.ssm_dtype_bytes
    return max(1, sizes // tensor_parallel)
