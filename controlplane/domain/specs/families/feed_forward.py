"""What transforms each token by itself: dense feed-forwards and mixtures of experts."""

from __future__ import annotations

from controlplane.domain.specs import sizes
from controlplane.domain.specs.families import shape as shapes
from controlplane.domain.specs.families.block import FeedForward
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import LARGEST_LAYERS, Fields

MOST_EXPERTS = sizes.most(shapes.EXPERTS[0])


def dense(fields: Fields, shape: Shape, width: int | None = None) -> FeedForward:
    """Three matrices (gate, up, down), or two where the family has no gate."""
    width = width if width is not None else shape.intermediate or fields.need(*shapes.INTERMEDIATE, least=0)
    matrices = 3 if shape.traits.gated else 2
    biased = shape.traits.mlp_bias
    if biased is None:
        biased = any(fields.values.get(name) is True for name in ("mlp_bias", "use_bias_mlp"))
        biased = biased or (
            shape.model_type in ("falcon", "refinedweb", "ernie4_5") and _flag(fields, "bias", "use_bias")
        )
    fine = (matrices - 1) * width + shape.hidden if biased else 0
    fine += 2 if shape.model_type == "apertus" else 0  # two learned numbers of its activation
    return FeedForward(dense=matrices * shape.hidden * width, fine=fine)


def _flag(fields: Fields, *names: str) -> bool:
    return any(fields.values.get(name) is True for name in names)


def experts(fields: Fields, shape: Shape) -> FeedForward:
    """A router over routed experts, and shared experts that every token goes through."""
    count, active, width = routed_experts(fields, shape)
    hidden, traits = shape.hidden, shape.traits
    matrices = 3 if traits.gated else 2
    # experts may work on a narrower copy of the hidden state (Nemotron 3 Super, Kimi K3)
    latent = fields.number("moe_latent_size", "routed_expert_hidden_size", least=0) or 0
    one = matrices * (latent or hidden) * width
    fine = hidden * count
    fine += count if traits.router_correction and fields.values.get("use_routing_bias") is not False else 0
    fine += count if traits.router_bias else 0
    if traits.expert_bias:
        fine += count * (2 * width + hidden)
    shared = shared_width(fields, shape, width)
    fine += hidden if traits.shared_gate and shared else 0
    return FeedForward(
        dense=matrices * hidden * shared + 2 * hidden * latent,
        routed=count * one,
        active_routed=active * one,
        fine=fine,
    )


def routed_experts(fields: Fields, shape: Shape) -> tuple[int, int, int]:
    """How many experts, how many of them a token goes through, and the width of one."""
    count = fields.need(*shapes.EXPERTS, most=MOST_EXPERTS)
    active = fields.need(*shapes.EXPERTS_ACTIVE, most=count)
    width = fields.number(*shapes.EXPERT_WIDTH)
    if width is not None:
        shapes.check_feed_forward(fields, fields.raw(*shapes.EXPERT_WIDTH)[0], width, shape.hidden)
    return count, active, width or shape.intermediate or fields.need(*shapes.EXPERT_WIDTH)


def shared_width(fields: Fields, shape: Shape, width: int) -> int:
    """Width of all shared experts together, 0 where there are none."""
    given = fields.number(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size", least=0
    )
    count = fields.number(
        "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert", least=0
    )
    if given is not None:
        return given * (count or 1) if shape.model_type == "nemotron_h" else given
    if shape.model_type in ("llama4", "llama4_text"):
        return width
    return width * (count or 0)


def has_experts(fields: Fields) -> bool:
    """Whether the model is a mixture: more than one routed expert. Raises RefusedError for a number that can't be."""
    count = fields.number(*shapes.EXPERTS, least=0, most=MOST_EXPERTS)
    return bool(count and count > 1)


def moe_layers(fields: Fields, shape: Shape) -> list[bool]:
    """Which layers are mixtures of experts, by the several ways in which families say so."""
    count = shape.layers
    if not has_experts(fields):
        return [False] * count
    kinds = fields.values.get("mlp_layer_types")
    if kinds is not None:
        names = fields.texts("mlp_layer_types") or []
        if len(names) != count:
            raise fields.refuse("mlp_layer_types", kinds, f"a list of {count} texts")
        return [name in ("sparse", "moe") for name in names]
    listed = fields.values.get("moe_layers") if isinstance(fields.values.get("moe_layers"), list) else None
    if listed is not None:
        chosen = set(fields.numbers("moe_layers", most=LARGEST_LAYERS) or [])
        return [layer in chosen for layer in range(count)]
    if isinstance(fields.values.get("moe_layer_freq"), list):
        flags = fields.numbers("moe_layer_freq", most=1) or []
        return [bool(flag) for flag in flags[:count]] + [True] * (count - len(flags))
    return _by_period(fields, shape)


def _by_period(fields: Fields, shape: Shape) -> list[bool]:
    count = shape.layers
    first = fields.number("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", least=0) or 0
    last = fields.number("moe_layer_end_index", least=-1)
    end = count if last is None or last < 0 else last + 1
    if shape.model_type == "jamba":
        period, offset = fields.number("expert_layer_period") or 2, fields.number("expert_layer_offset", least=0) or 0
        return [layer % period == offset for layer in range(count)]
    step = (
        fields.number("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", "moe_layer_interval") or 1
    )
    dense_alone = set(fields.numbers("mlp_only_layers") or [])
    if shape.model_type in ("deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2"):
        return [layer >= first and layer % step == 0 for layer in range(count)]
    return [first <= layer < end and (layer + 1) % step == 0 and layer not in dense_alone for layer in range(count)]
