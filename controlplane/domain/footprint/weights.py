"""Weights of one accelerator: what is split, what every rank holds whole.

Split over tensor-parallel ranks: embeddings and head (by vocabulary), projections, routed experts (also when experts
are placed whole: each rank then holds count / ranks of them), towers. Held whole: norms, routers, down-projections of
latent attention, and key-value heads beyond one a rank. Pipeline stages hold their layers; the embedding lies on the
first stage, the head on the last. Beside the files there are tables of rotary embeddings (positions x dimensions),
matrices of latent attention that are kept unpacked a second time, and padding that kernels of MXFP4 experts want.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from controlplane.domain.footprint import activation, stage_layers
from controlplane.domain.footprint.stage_layers import StageLayers
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.precision import Precision

_ROTARY = ("full", "sliding", "chunked", "mla")
_FAMILIES_WITH_TWO_BASES = ("gemma3", "gemma4")  # one for windows, one for everything
# tables of rotary positions in three directions are made four times as long, for long videos
_FAMILIES_IN_THREE_DIRECTIONS = ("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen3_vl", "qwen3_omni", "qwen3_5")
_THREE_DIRECTIONS = 4
_PARTIAL_ROTARY = 4  # hybrids with gated delta nets turn a quarter of each head
_ROPE_OF_LATENT = 64  # of a latent entry's elements, in every published model
_MXFP4_WIDTH_MULTIPLE = 128
_MXFP4_HIDDEN_MULTIPLE = 256


@dataclass(frozen=True, slots=True)
class WeightShare:
    """Bytes of one rank of a stage. `on_accelerator_bytes` is without what was offloaded to the host."""

    experts_bytes: int
    embedding_bytes: int
    tower_bytes: int
    rest_bytes: int
    rotary_bytes: int
    layers: int
    draft_bytes: int = 0
    offloaded_bytes: int = 0
    last: bool = True  # stage, where logits are made

    @property
    def loaded_bytes(self) -> int:
        """All weights that the rank loads, offloaded ones too."""
        parts = self.experts_bytes + self.embedding_bytes + self.tower_bytes + self.rest_bytes
        return parts + self.rotary_bytes + self.draft_bytes

    @property
    def visiting_layer_bytes(self) -> int:
        """One layer that comes from the host for its turn; 0 when all layers are on the accelerator."""
        return (self.experts_bytes + self.rest_bytes) // self.layers if self.offloaded_bytes else 0

    @property
    def on_accelerator_bytes(self) -> int:
        """What of it stays on the accelerator, without the layer that is visiting."""
        return self.loaded_bytes - self.offloaded_bytes


class Given(TypedDict, total=False):
    """How the weights are split; see `shares`."""

    tensor_parallel: int
    pipeline_parallel: int
    own_draft: bool
    other_draft_bytes: int
    offload_bytes: int
    positions: int


def shares(
    facts: ModelFacts,
    precision: Precision,
    *,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    own_draft: bool = False,
    other_draft_bytes: int = 0,
    offload_bytes: int = 0,
    positions: int = 0,
) -> tuple[WeightShare, ...]:
    """What one rank of each stage loads; `offload_bytes` of layers (never embeddings) may lie on the host; rotary
    tables have `positions` where the model's own limit is not known. `own_draft`: the model's draft layers are loaded;
    `other_draft_bytes` are of a draft that is none of its own."""
    parts = precision.part_bytes(facts)
    replicated = min(parts.replicated_bytes, parts.rest_bytes)
    rest = (parts.rest_bytes - replicated) / tensor_parallel + replicated
    of_attention = _copied_heads_bytes(facts, precision, tensor_parallel) + _absorbed_bytes(facts, tensor_parallel)
    experts = parts.routed_experts_bytes / tensor_parallel * _padding(facts, precision, tensor_parallel)
    draft = ((parts.draft_bytes if own_draft else 0) + other_draft_bytes) / tensor_parallel
    layers = max(1, facts.num_hidden_layers)
    found = []
    for stage in stage_layers.of(facts, pipeline_parallel):
        share = WeightShare(
            experts_bytes=round(experts * stage.experts_share),
            embedding_bytes=round(_embedding_bytes(facts, stage, parts.embedding_bytes) / tensor_parallel),
            tower_bytes=round(parts.tower_bytes / tensor_parallel),
            rest_bytes=round(rest * stage.rest_share + of_attention * stage.layers / layers),
            rotary_bytes=_rotary_bytes(facts, precision, positions),
            layers=stage.layers,
            draft_bytes=round(draft) if stage.last else 0,
            last=stage.last,
        )
        movable = share.experts_bytes + share.rest_bytes
        found.append(replace(share, offloaded_bytes=min(offload_bytes, movable)))
    return tuple(found)


def share(facts: ModelFacts, precision: Precision, **given: Unpack[Given]) -> WeightShare:
    """What one rank of the heaviest stage loads: see `shares`."""
    return max(shares(facts, precision, **given), key=lambda one: one.on_accelerator_bytes)


def _embedding_bytes(facts: ModelFacts, stage: StageLayers, both_bytes: int) -> float:
    """The first stage holds the embedding, the last one the head; where they are one tensor, each end holds it."""
    if stage.first and stage.last:
        return both_bytes
    if not stage.first and not stage.last:
        return 0
    return both_bytes if facts.tie_word_embeddings else both_bytes / 2


def _copied_heads_bytes(facts: ModelFacts, precision: Precision, tensor_parallel: int) -> float:
    """Projections of key-value heads that several ranks hold, because there are more ranks than heads."""
    extra = 0.0
    for layer in facts.layers:
        if layer.kv_heads and tensor_parallel > layer.kv_heads:
            copied = 1 - layer.kv_heads / tensor_parallel
            extra += layer.count * 2 * layer.head_dim * facts.hidden_size * copied
    return extra * precision.plain_bytes


def _absorbed_bytes(facts: ModelFacts, tensor_parallel: int) -> float:
    """Latent attention keeps the up-projections of keys and values in 16 bits once more, to multiply them in place."""
    found = 0
    for layer in facts.layers:
        if layer.kind == "mla" and facts.head_dim > _ROPE_OF_LATENT:
            width = 2 * (facts.head_dim - _ROPE_OF_LATENT) * max(0, layer.latent_elements - _ROPE_OF_LATENT)
            found += layer.count * facts.num_attention_heads * width * 2
    return found / tensor_parallel


def _padding(facts: ModelFacts, precision: Precision, tensor_parallel: int) -> float:
    """Growth of MXFP4 experts: widths are rounded up to 128 a rank, hidden sizes to 256 (gpt-oss: 1.09, 5 logs)."""
    if precision.weights.name != "mxfp4" or facts.experts is None or not facts.hidden_size:
        return 1.0
    width = max(1, activation.expert_width(facts) // tensor_parallel)
    wide = -(-width // _MXFP4_WIDTH_MULTIPLE) * _MXFP4_WIDTH_MULTIPLE / width
    hidden = -(-facts.hidden_size // _MXFP4_HIDDEN_MULTIPLE) * _MXFP4_HIDDEN_MULTIPLE / facts.hidden_size
    return wide * hidden


def _rotary_bytes(facts: ModelFacts, precision: Precision, positions: int) -> int:
    """Sines and cosines for every position: one table, or one for each kind of attention where their bases differ."""
    dims = {layer.kind: layer.head_dim or _ROPE_OF_LATENT for layer in facts.layers if layer.kind in _ROTARY}
    if not dims:
        return 0
    own_tables = facts.family.startswith(_FAMILIES_WITH_TWO_BASES)
    width = sum(dims.values()) if own_tables else max(dims.values())
    if any(layer.kind == "gated_delta" for layer in facts.layers):
        width //= _PARTIAL_ROTARY
    if facts.family.startswith(_FAMILIES_IN_THREE_DIRECTIONS):
        width *= _THREE_DIRECTIONS
    return (facts.max_position_embeddings or positions) * width * precision.plain_bytes
