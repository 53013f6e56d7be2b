"""All layers of a language model from its text config, as blocks; and what stands outside of the layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from controlplane.domain.specs.families import attention, feed_forward, gemma, patterns, pruned, recurrent, zamba2
from controlplane.domain.specs.families.block import NO_MIXER, Block, FeedForward, Mixer
from controlplane.domain.specs.families.patterns import Kind
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import Fields

_ONE_NORM_MIXERS = ("nemotron_h", "mamba", "mamba2", "falcon_mamba")


@dataclass(frozen=True, slots=True)
class TextModel:
    """`extra` are matrices outside of the layers (per-layer embeddings' projections), `fine_extra` norms and biases;
    `lookup` parameters are only looked up, beside the input embedding."""

    blocks: tuple[Block, ...]
    extra: int = 0
    fine_extra: int = 0
    lookup: int = 0

    @property
    def parameters(self) -> int:
        """Without embedding and head."""
        return sum(block.parameters for block in self.blocks) + self.extra + self.fine_extra + self.lookup

    @property
    def idle_parameters(self) -> int:
        """Of routed experts that one token doesn't go through."""
        return sum(block.feed_forward.routed - block.feed_forward.active_routed for block in self.blocks)

    @property
    def fine_parameters(self) -> int:
        """Norms, routers, biases, state parameters: what no method quantizes."""
        fine = sum(block.mixer.fine + block.feed_forward.fine + block.norms for block in self.blocks)
        return fine + self.fine_extra


def read(fields: Fields, shape: Shape) -> TextModel:
    """Raises RefusedError naming the field."""
    if shape.model_type in gemma.MODEL_TYPES:
        blocks, extra, fine, lookup = gemma.blocks(fields, shape)
        return TextModel(blocks, extra, fine + shape.norm, lookup)
    if shape.model_type == zamba2.MODEL_TYPE:
        return TextModel(zamba2.blocks(fields, shape), fine_extra=shape.norm)
    if fields.has("block_configs"):
        return TextModel(pruned.blocks(fields, shape), fine_extra=shape.norm)
    kinds = patterns.mixers(fields, shape)
    if shape.model_type == "nemotron_h":
        blocks = _one_half_a_layer(fields, shape, kinds)
    else:
        experts = feed_forward.moe_layers(fields, shape)
        built: dict[tuple[Kind, bool], Block] = {}
        for key in set(zip(kinds, experts, strict=True)):
            built[key] = _block(fields, shape, *key)
        blocks = tuple(built[key] for key in zip(kinds, experts, strict=True))
    final = shape.norm if shape.traits.final_norm else 0
    final += shape.norm if shape.traits.embedding_norm else 0
    positions = shape.traits.learned_positions
    lookup = 0 if positions is None else ((shape.positions or 0) + positions) * shape.hidden
    return TextModel(blocks, fine_extra=final, lookup=lookup)


def _block(fields: Fields, shape: Shape, kind: Kind, is_moe: bool) -> Block:
    mixer = _mixer(fields, shape, kind)
    if shape.model_type in _ONE_NORM_MIXERS:
        return Block(mixer, norms=shape.norm)
    feed = _feed_forward(fields, shape, is_moe)
    if shape.model_type == "longcat_flash":
        return _double(fields, shape, mixer)
    return Block(mixer, feed, norms=_norms(fields, shape))


def _double(fields: Fields, shape: Shape, mixer: Mixer) -> Block:
    """LongCat: a layer has two attentions and two dense feed-forwards beside its experts, some of which do nothing."""
    dense, sparse = feed_forward.dense(fields, shape), feed_forward.experts(fields, shape)
    idle = fields.number("zero_expert_num", least=0) or 0
    count, _, _ = feed_forward.routed_experts(fields, shape)
    feed = FeedForward(
        dense=2 * dense.dense + sparse.dense,
        routed=sparse.routed,
        active_routed=sparse.active_routed * count // (count + idle),
        fine=sparse.fine + idle * (shape.hidden + 1),
    )
    both = Mixer(mixer.caches * 2, 2 * mixer.projections, 2 * mixer.fine, 2 * mixer.whole)
    return Block(both, feed, norms=4 * shape.norm)


def _feed_forward(fields: Fields, shape: Shape, is_moe: bool) -> FeedForward:
    if is_moe:
        return feed_forward.experts(fields, shape)
    width = fields.number("intermediate_size_mlp", "dense_intermediate_size")
    if shape.model_type == "granitemoehybrid":
        width = fields.number("shared_intermediate_size", least=0)
    if shape.model_type == "lfm2":
        width = _lfm2_width(fields, shape)
    return feed_forward.dense(fields, shape, width)


def _lfm2_width(fields: Fields, shape: Shape) -> int:
    width = fields.number("block_ff_dim") or shape.intermediate
    if fields.flag("block_auto_adjust_ff_dim", True):
        scaled = int((fields.ratio("block_ffn_dim_multiplier") or 1.0) * int(2 * width / 3))
        multiple = fields.number("block_multiple_of") or 256
        width = multiple * -(-scaled // multiple)
    return width


def _norms(fields: Fields, shape: Shape) -> int:
    """Norms of one layer; parallel layers of Falcon and GPT-NeoX-like families have one or two."""
    count = shape.traits.norms
    if shape.model_type in ("falcon", "refinedweb"):
        new = fields.flag("new_decoder_architecture", False)
        parallel = fields.flag("parallel_attn", True)
        count = (fields.number("num_ln_in_parallel_attn") or 2) if new else 1 if parallel else 2
    if shape.model_type == "olmo":
        return 0
    if shape.model_type == "stablelm" and fields.values.get("use_parallel_residual") is True:
        count = 1
    if shape.model_type == "mpt":
        return 2 * shape.hidden
    if shape.model_type == "lfm2":
        return 2 * shape.hidden
    return count * shape.norm


def _mixer(fields: Fields, shape: Shape, kind: Kind) -> Mixer:
    if kind.name == "full":
        return attention.heads(fields, shape, value_head_dim=fields.number("v_head_dim", least=0) or None)
    if kind.name == "encoder":
        return attention.heads(fields, shape, kind="encoder")
    if kind.name == "sliding":
        return _sliding(fields, shape, kind.window_tokens)
    if kind.name == "chunked":
        return attention.heads(fields, shape, kind="chunked", window_tokens=kind.window_tokens)
    if kind.name == "cross":
        return attention.cross(fields, shape)
    if kind.name == "both":
        first, second = attention.heads(fields, shape), recurrent.mamba2(fields, shape)
        return Mixer(first.caches + second.caches, first.projections + second.projections, first.fine + second.fine)
    return NO_MIXER if kind.name == "none" else _STATES[kind.name](fields, shape)


def _sliding(fields: Fields, shape: Shape, window_tokens: int | None) -> Mixer:
    """Sliding layers may have other widths than full ones (MiMo-V2, Step-3.5)."""
    return attention.heads(
        fields,
        shape,
        kind="sliding",
        window_tokens=window_tokens,
        query_heads=fields.number("swa_num_attention_heads"),
        kv_heads=fields.number("swa_num_key_value_heads"),
        head_dim=fields.number("swa_head_dim"),
        value_head_dim=fields.number("swa_v_head_dim"),
    )


_STATES: dict[str, Callable[[Fields, Shape], Mixer]] = {
    "mla": attention.latent,
    "mla_shared": partial(attention.latent, shared=True),
    "mamba2": recurrent.mamba2,
    "mamba1": recurrent.mamba1,
    "gated_delta": recurrent.gated_delta,
    "kda": recurrent.kimi_delta,
    "lightning": recurrent.lightning,
    "conv": recurrent.short_convolution,
}


def _one_half_a_layer(fields: Fields, shape: Shape, kinds: list[Kind]) -> tuple[Block, ...]:
    """Nemotron-H: a layer is a state, an attention, a feed-forward or a mixture, with one norm before it."""
    letters = patterns.hybrid_letters(fields, shape.layers)
    built: dict[str, Block] = {}
    for letter, kind in zip(letters, kinds, strict=True):
        if letter in built:
            continue
        feed = FeedForward()
        if letter == "-":
            feed = feed_forward.dense(fields, shape)
        elif letter == "E":
            feed = feed_forward.experts(fields, shape)
        built[letter] = Block(_mixer(fields, shape, kind), feed, norms=shape.norm)
    return tuple(built[letter] for letter in letters)
