"""Attention with a cache of keys and values a head, and attention with one latent vector (MLA): caches, parameters."""

from __future__ import annotations

from controlplane.domain.specs.families.block import Mixer
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import Fields
from controlplane.domain.specs.model import AttentionKind, Layers

_KEPT_BY_HEAD = ("minicpm3",)


def heads(
    fields: Fields,
    shape: Shape,
    *,
    kind: AttentionKind = "full",
    window_tokens: int | None = None,
    query_heads: int | None = None,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    value_head_dim: int | None = None,
    keys_are_values: bool = False,
) -> Mixer:
    """MHA, GQA and MQA: query, key, value and output projections; keys and values are kept for each KV head."""
    traits, hidden = shape.traits, shape.hidden
    queries = query_heads or shape.heads
    kv, width = kv_heads or shape.kv_heads, head_dim or shape.head_dim
    value_width = value_head_dim or width
    bias = _bias(fields, shape)
    output_bias = traits.output_bias if traits.output_bias is not None else bias
    if fields.has("attention_out_bias"):
        output_bias = fields.flag("attention_out_bias", False)
    query = queries * width * (2 if traits.output_gate else 1)
    keys, values = kv * width, 0 if keys_are_values else kv * value_width
    projections = hidden * (query + keys + values) + queries * value_width * hidden
    projections += hidden * queries if fields.values.get("use_head_wise_attn_gate") is True else 0
    fine = (query + keys + values if bias else 0) + (hidden if output_bias else 0)
    fine += _qk_norm(fields, shape, queries, kv, width)
    sinks = traits.sinks or (kind == "sliding" and fields.values.get("add_swa_attention_sink_bias") is True)
    fine += queries if sinks else 0
    cache = Layers(
        kind,
        1,
        kv_heads=kv,
        head_dim=width,
        value_head_dim=value_width if value_width != width else None,
        window_tokens=window_tokens,
    )
    return Mixer((cache,), projections, fine)


def _bias(fields: Fields, shape: Shape) -> bool:
    if shape.traits.qkv_bias is not None:
        return shape.traits.qkv_bias
    for name in ("attention_bias", "use_qkv_bias", "qkv_bias", "add_qkv_bias", "use_bias", "bias"):
        if fields.has(name):
            return fields.flag(name, False)
    return False


def _qk_norm(fields: Fields, shape: Shape, queries: int, kv: int, width: int) -> int:
    kind = shape.traits.qk_norm
    if fields.values.get("use_qk_norm") is True and kind == "none":
        kind = "heads" if shape.model_type in ("cohere", "cohere2") else "head"
    if fields.values.get("use_qk_norm") is False or (
        shape.model_type in ("llama4", "llama4_text", "llama") and kind == "head"
    ):
        kind = "none"
    if shape.model_type == "stablelm" and fields.values.get("qk_layernorm") is True:
        kind = "heads"
    if kind == "head":
        return 2 * width
    return (queries + kv) * width if kind in ("full", "heads") else 0


def latent(fields: Fields, shape: Shape, *, shared: bool = False) -> Mixer:
    """MLA (DeepSeek-V2 and after): keys and values are kept as one latent vector and one rotary key a token.

    The down-projections to the latents are held whole by every tensor-parallel rank, and so is the indexer of sparse
    attention (V3.2, GLM-5), which layers that share an earlier one's choice (`shared`) lack. MiniCPM3 projects the same
    way, and engines keep its keys and values a head, values as wide as keys: it is none of the types that vLLM
    computes in latents (`is_deepseek_mla` of 0.32).
    """
    hidden, count = shape.hidden, shape.heads
    kv_rank, rope = fields.need("kv_lora_rank"), fields.need("qk_rope_head_dim", least=0)
    nope, value = fields.need("qk_nope_head_dim", least=0), fields.need("v_head_dim")
    query_rank = fields.number("q_lora_rank", least=0) or 0
    down = hidden * (kv_rank + rope)
    fine = kv_rank
    if query_rank:
        down += hidden * query_rank
        fine += query_rank
        query = query_rank * count * (nope + rope)
    else:
        query = hidden * count * (nope + rope)
    up = query + kv_rank * count * (nope + value) + count * value * hidden
    if fields.flag("mla_use_output_gate", False):
        up += hidden * count * value
    if fields.values.get("attention_bias") is True:
        fine += (query_rank + kv_rank + rope if query_rank else kv_rank + rope) + hidden
    indexer_dim = 0 if shared else fields.number("index_head_dim", least=0) or 0
    indexer = 0
    if indexer_dim:
        index_heads = fields.need("index_n_heads")
        indexer = query_rank * index_heads * indexer_dim + hidden * indexer_dim + hidden * index_heads
        fine += 2 * indexer_dim
    cache = Layers("mla", 1, latent_elements=kv_rank + rope, indexer_elements=indexer_dim)
    if shape.model_type in _KEPT_BY_HEAD:
        cache = Layers("full", 1, kv_heads=count, head_dim=nope + rope)
    return Mixer((cache,), down + up + indexer, fine, whole=down + indexer)


def cross(fields: Fields, shape: Shape) -> Mixer:
    """Attention over an image's tokens (Llama 3.2 Vision): has two norms and two gates."""
    own = heads(fields, shape)
    return Mixer((Layers("cross", 1, kv_heads=shape.kv_heads, head_dim=shape.head_dim),), own.projections,
                 own.fine + 2 * shape.head_dim + 2)  # fmt: skip
