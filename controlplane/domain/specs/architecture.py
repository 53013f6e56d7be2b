"""Model facts from a short description of an architecture: a dozen numbers instead of a whole config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from controlplane.domain.specs import fields as reading
from controlplane.domain.specs import formats
from controlplane.domain.specs.families import shape
from controlplane.domain.specs.fields import Fields
from controlplane.domain.specs.model import AttentionKind, Experts, LayerRun, Layers, ModelFacts, StateShape

_COUNTS = ("mamba_layers", "linear_attention_layers", "mlp_layers", "sliding_attention_layers",
           "chunked_attention_layers")  # fmt: skip
_FEWEST_PARAMETERS = 10_000  # of the smallest models that are made for tests
_CONV_KERNEL = 4  # of every published Mamba 2 and gated delta net
_MAMBA2 = {"mamba_num_heads": 128, "mamba_head_dim": 80, "n_groups": 8, "ssm_state_size": 128}  # of Nemotron Nano v2


def read(fields: Mapping[str, object], *, name: str = "") -> ModelFacts:
    """Facts from `total_params`, `num_hidden_layers`, `hidden_size`, `num_attention_heads`, `num_key_value_heads`,
    `head_dim`, `vocab_size` and, where they apply, the fields of experts, windows, latents and states.

    null = not known. Raises RefusedError naming the field that is missing or can't be.
    """
    if not isinstance(fields, Mapping):
        raise reading.refuse("architecture", "architecture", fields, "an object with total_params, num_hidden_layers …")
    given = Fields(fields, where="architecture.", code="architecture")
    total = given.need("total_params", most=reading.LARGEST_TOTAL)
    if total < _FEWEST_PARAMETERS:
        raise given.refuse("total_params", total, "all parameters, as 8030261248; not in billions")
    layers, assumptions = _layers(given)
    embedding = _embedding(given)
    if total < embedding:
        right = f"a number of parameters, at least the {embedding} of vocab_size x hidden_size alone"
        raise given.refuse("total_params", total, right)
    experts = _experts(given, given.number("hidden_size") or 0, total - embedding)
    idle = experts.routed_params * (experts.count - experts.active) // experts.count if experts else 0
    facts = replace(
        _widths(given, layers, total),
        name=name,
        active_parameters=total - idle,
        embedding_parameters=embedding,
        experts=experts,
        layer_runs=_runs(given, experts, total - embedding),
        quantization=_quantization(given.text("quant")),
    )
    unknown = [field for field in ("hidden_size", "vocab_size") if not given.number(field)]
    assumptions += [f"{field} is not known; what depends on it was left out." for field in unknown]
    if not given.has("max_position_embeddings"):
        assumptions.append("max_position_embeddings is not given; the model's own limit was not checked.")
    return replace(_with_replicated(facts, given), assumptions=tuple(assumptions))


def _widths(given: Fields, layers: tuple[Layers, ...], total: int) -> ModelFacts:
    """The facts that stand in single fields, or follow from the layers; a width that is not known is 0."""
    heads = given.number("num_attention_heads") or 0
    hidden = given.number("hidden_size") or 0
    for field in ("intermediate_size", "moe_intermediate_size"):
        if hidden:
            shape.check_feed_forward(given, field, given.number(field, least=0) or 0, hidden)
    attention = next((kind for kind in layers if kind.kv_heads or kind.latent_elements), Layers("none", 0))
    return ModelFacts(
        name="",
        family=given.text("model_type") or given.text("attention"),
        parameters=total,
        active_parameters=total,
        hidden_size=hidden,
        num_hidden_layers=given.need("num_hidden_layers", most=reading.LARGEST_LAYERS),
        num_attention_heads=heads,
        num_key_value_heads=_kv_heads(given, heads) or attention.kv_heads,
        head_dim=given.number("head_dim") or attention.head_dim,
        intermediate_size=given.number("intermediate_size", least=0) or given.number("moe_intermediate_size") or 0,
        vocab_size=given.number("vocab_size") or 0,
        layers=layers,
        tie_word_embeddings=given.flag("tie_word_embeddings", False),
        max_position_embeddings=given.number("max_position_embeddings", most=reading.LARGEST_LENGTH),
        source="architecture",
    )


def _embedding(given: Fields) -> int:
    """Parameters of the input embedding and of the output head, one table where they are tied."""
    tables = 1 if given.flag("tie_word_embeddings", False) else 2
    return (given.number("vocab_size") or 0) * (given.number("hidden_size") or 0) * tables


def _kv_heads(given: Fields, heads: int) -> int:
    kv_heads = given.number("num_key_value_heads") or 0
    if heads and kv_heads and heads % kv_heads:
        raise given.refuse("num_key_value_heads", kv_heads, f"a divisor of num_attention_heads ({heads})")
    return kv_heads


def _layers(given: Fields) -> tuple[tuple[Layers, ...], list[str]]:
    """The layers by kind; where a pattern is described without counts, full attention in every layer is assumed."""
    count = given.need("num_hidden_layers", most=reading.LARGEST_LAYERS)
    _check_counts(given, count)
    attention = given.text("attention")
    if given.has("kv_lora_rank"):
        latent = given.need("kv_lora_rank") + (given.number("qk_rope_head_dim", least=0) or 0)
        indexer = given.number("index_head_dim", least=0) or 0
        return (Layers("mla", count, latent_elements=latent, indexer_elements=indexer),), []
    found, assumptions = _window_layers(given), []
    for field, kind in (("linear_attention_layers", "gated_delta"), ("mamba_layers", "mamba2")):
        states = given.number(field, least=0, most=reading.LARGEST_LAYERS)
        if states:
            state, assumed = _state(given, kind)
            found.append(Layers("gated_delta" if kind == "gated_delta" else "mamba2", states, state=state))
            assumptions.extend(assumed)
    stateless = given.number("mlp_layers", least=0, most=reading.LARGEST_LAYERS) or 0
    if stateless:
        found.append(Layers("none", stateless))
    full = given.number("full_attention_layers", least=0, most=reading.LARGEST_LAYERS)
    if full is None:
        full = count - sum(kind.count for kind in found)
        if found or any(word in attention for word in ("hybrid", "sliding", "chunked")):
            assumptions.append(f"full_attention_layers is not given; {full} layers were taken as full attention.")
    if sum(kind.count for kind in found) + full != count:
        raise given.refuse("full_attention_layers", full, f"such that the layers of all kinds add up to {count}")
    if full:
        found.append(_attention(given, "full", full, "full_", None))
    return tuple(found), assumptions


def _check_counts(given: Fields, count: int) -> None:
    """Layers of single kinds can't be more than there are; the field with the most of them is named."""
    numbers = {field: given.number(field, least=0, most=reading.LARGEST_LAYERS) or 0 for field in _COUNTS}
    if sum(numbers.values()) > count:
        field = max(_COUNTS, key=lambda one: numbers[one])
        others = sum(numbers.values()) - numbers[field]
        right = f"at most {max(count - others, 0)}, since num_hidden_layers is {count}"
        raise given.refuse(field, numbers[field], right + (f" and {others} are of other kinds" if others else ""))


def _window_layers(given: Fields) -> list[Layers]:
    found = []
    sliding = given.number("sliding_attention_layers", least=0, most=reading.LARGEST_LAYERS)
    if sliding:
        window = given.need("sliding_window", most=reading.LARGEST_LENGTH)
        found.append(_attention(given, "sliding", sliding, "sliding_", window))
    chunked = given.number("chunked_attention_layers", least=0, most=reading.LARGEST_LAYERS)
    if chunked:
        window = given.need("attention_chunk_size", most=reading.LARGEST_LENGTH)
        found.append(_attention(given, "chunked", chunked, "chunked_", window))
    return found


def _attention(given: Fields, kind: AttentionKind, count: int, prefix: str, window: int | None) -> Layers:
    """Layers of attention; `full_kv_heads` or `sliding_head_dim` stand before `num_key_value_heads`, `head_dim`."""
    heads = given.number("num_attention_heads")
    kv_heads = given.number(f"{prefix}kv_heads", "num_key_value_heads") or heads
    if kv_heads is None:
        raise given.missing("num_key_value_heads", "a whole number, or num_attention_heads")
    head_dim = given.number(f"{prefix}head_dim", "head_dim")
    if head_dim is None:
        hidden = given.number("hidden_size")
        if not hidden or not heads or hidden % heads:
            raise given.missing("head_dim", "a whole number, or hidden_size and num_attention_heads that divide")
        head_dim = hidden // heads
    return Layers(kind, count, kv_heads=kv_heads, head_dim=head_dim, window_tokens=window)


def _state(given: Fields, kind: str) -> tuple[StateShape, list[str]]:
    kernel = given.number("linear_conv_kernel_dim", "conv_kernel", "mamba_d_conv") or _CONV_KERNEL
    if kind == "gated_delta":
        key_heads, value_heads = given.need("linear_num_key_heads"), given.need("linear_num_value_heads")
        key, value = given.need("linear_key_head_dim"), given.need("linear_value_head_dim")
        width = 2 * key_heads * key + value_heads * value
        return StateShape((kernel - 1) * width, value_heads * value * key), []
    sizes = {field: given.number(field) or usual for field, usual in _MAMBA2.items()}
    assumed = [f"{field} is not given; {sizes[field]} was taken." for field in _MAMBA2 if not given.has(field)]
    inner = sizes["mamba_num_heads"] * sizes["mamba_head_dim"]
    width = inner + 2 * sizes["n_groups"] * sizes["ssm_state_size"]
    return StateShape((kernel - 1) * width, inner * sizes["ssm_state_size"]), assumed


def _experts(given: Fields, hidden: int, most: int) -> Experts | None:
    count = given.number("num_experts")
    if count is None:
        return None
    active = given.need("experts_per_tok", "num_experts_per_tok", most=count)
    width = given.number("moe_intermediate_size", "intermediate_size") or 0
    dense = given.number("first_k_dense", least=0, most=reading.LARGEST_LAYERS) or 0
    moe_layers = given.number("moe_layers", least=0, most=reading.LARGEST_LAYERS)
    if moe_layers is None:
        moe_layers = max(given.need("num_hidden_layers", most=reading.LARGEST_LAYERS) - dense, 0)
    routed = min(moe_layers * count * 3 * hidden * width, most)
    return Experts(
        count=count, active=active, shared=given.number("shared_experts", least=0) or 0, routed_params=routed
    )


def _runs(given: Fields, experts: Experts | None, parameters: int) -> tuple[LayerRun, ...]:
    """Layers before the mixture hold one wide feed-forward in place of experts; `parameters` are of all layers."""
    dense = given.number("first_k_dense", least=0, most=reading.LARGEST_LAYERS) or 0
    mixed = given.need("num_hidden_layers", most=reading.LARGEST_LAYERS) - dense
    if experts is None or not dense or mixed <= 0:
        return ()
    wide = 3 * (given.number("hidden_size") or 0) * (given.number("intermediate_size", least=0) or 0)
    other = max(parameters - experts.routed_params - dense * wide, 0) // (dense + mixed)
    return (LayerRun(dense, 0, other + wide), LayerRun(mixed, experts.routed_params // mixed, other))


def _quantization(text: str) -> str | None:
    """`mxfp4 experts, rest bf16` and `fp8 128x128 blocks` as `precision.parse` names them."""
    words = text.lower().replace(",", " ").split()
    if not words:
        return None
    if words[0] == "fp8":
        return "fp8_block" if "blocks" in words or "128x128" in words else "fp8"
    found = formats.named(words[0]) or formats.named(text)
    if found is None or found.name in ("bf16", "fp16", "fp32"):
        return None
    return f"{found.name}:experts" if "experts" in words else found.name


def _with_replicated(facts: ModelFacts, given: Fields) -> ModelFacts:
    """Norms (two a layer and a last one), routers, and the down-projections of MLA, by the widths that are known."""
    hidden, layers = facts.hidden_size, facts.num_hidden_layers
    fine = hidden * (2 * layers + 1) + (facts.experts.count * hidden * layers if facts.experts else 0)
    down = sum(kind.count * kind.latent_elements * hidden for kind in facts.layers if kind.kind == "mla")
    down += layers * hidden * (given.number("q_lora_rank", least=0) or 0)
    fine = min(fine, facts.parameters)
    replicated = min(fine + down, facts.parameters)
    return replace(facts, replicated_parameters=replicated, unquantized_parameters=fine)
