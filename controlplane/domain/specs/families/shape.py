"""The widths that nearly every family has, under whatever name its config.json gives them."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.specs import sizes
from controlplane.domain.specs.families.traits import TRAITS, UNKNOWN, Traits
from controlplane.domain.specs.fields import LARGEST_LAYERS, LARGEST_LENGTH, Fields

HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_attention_groups")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels")
EXPERT_WIDTH = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size", "expert_intermediate_size")
INTERMEDIATE = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "feed_forward_hidden_size", "hidden_dim")
VOCAB = ("vocab_size", "padded_vocab_size")
POSITIONS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "max_sequence_length", "n_ctx")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
EXPERTS_ACTIVE = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k", "moe_topk", "moe_top_k",
                  "top_k_experts")  # fmt: skip

# model types of which older config.json files leave fields out that the published code fills in
_TWICE_AS_WIDE = ("zamba2",)  # attention over a layer's state beside the embedding
_ONE_KV_HEAD = ("gpt_bigcode",)
_FOUR_TIMES_HIDDEN = ("gpt2", "gpt_bigcode", "gpt_neox", "gptj", "bloom", "mpt", "falcon", "refinedweb", "phi")


@dataclass(frozen=True, slots=True)
class Shape:
    """Widths and numbers of heads of the text model; 0 where a family has none of it."""

    model_type: str
    traits: Traits
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    positions: int | None

    @property
    def norm(self) -> int:
        """Parameters of one norm over the hidden width."""
        return self.hidden * (int(self.traits.norm_weight) + int(self.traits.norm_bias))


def read(fields: Fields, model_type: str) -> Shape:
    """Raises RefusedError naming the width that is missing or can't be."""
    traits = TRAITS.get(model_type, UNKNOWN)
    hidden, layers = fields.need(*HIDDEN, least=sizes.SMALLEST_WIDTH), _layers(fields)
    heads = fields.number(*HEADS)
    if heads is None and not fields.has("attn_layer_indices", "block_configs", "mamba_num_heads", "state_size"):
        raise fields.missing(HEADS[0], "a whole number")
    kv_heads = _kv_heads(fields, model_type, heads or 0)
    head_dim = fields.number(*HEAD_DIM, least=0) or 0
    if heads and not head_dim:
        if hidden % heads and not fields.has("qk_nope_head_dim", "linear_attn_config"):
            raise fields.refuse(HEADS[0], heads, f"a divisor of hidden_size ({hidden}), or head_dim given beside it")
        head_dim = hidden // heads
    if heads and model_type in _TWICE_AS_WIDE:
        head_dim = 2 * hidden // heads
    if fields.has("kv_lora_rank"):  # a query of latent attention: the part without positions and the part with them
        latent = (fields.number("qk_nope_head_dim", least=0) or 0) + (fields.number("qk_rope_head_dim", least=0) or 0)
        head_dim = latent or head_dim
    return Shape(
        model_type=model_type, traits=traits, hidden=hidden, layers=layers, heads=heads or 0, kv_heads=kv_heads,
        head_dim=head_dim, intermediate=_intermediate(fields, model_type, hidden), vocab=fields.need(*VOCAB),
        positions=fields.number(*POSITIONS, most=LARGEST_LENGTH),
    )  # fmt: skip


def _layers(fields: Fields) -> int:
    count = fields.number(*LAYERS, most=LARGEST_LAYERS)
    if count is None and fields.has("layers_block_type"):
        count = len(fields.texts("layers_block_type") or [])
    return count or fields.need(*LAYERS, most=LARGEST_LAYERS)


def _kv_heads(fields: Fields, model_type: str, heads: int) -> int:
    """Heads of keys and values; as many as of queries where nothing is said. They must divide the queries' heads."""
    if model_type in ("falcon", "refinedweb", "refinedwebmodel") and not fields.flag("new_decoder_architecture", False):
        return 1 if fields.flag("multi_query", True) else heads
    if model_type in _ONE_KV_HEAD and fields.flag("multi_query", True):
        return 1
    if model_type == "chatglm" and not fields.flag("multi_query_attention", False):
        return heads
    name, _ = fields.raw(*KV_HEADS)
    kv_heads = fields.number(*KV_HEADS)
    if kv_heads is None:
        return heads
    if heads and not fields.has("block_configs") and (heads % kv_heads):
        raise fields.refuse(name, kv_heads, f"a divisor of num_attention_heads ({heads})")
    return kv_heads


def check_feed_forward(fields: Fields, name: str, width: int, hidden: int) -> None:
    """Refuses a feed-forward, or an expert, that is narrower or wider than any is; 0 = there is none."""
    least, most = sizes.feed_forward(hidden)
    if width and not least <= width <= most:
        raise fields.refuse(name, width, f"from {least} to {most}, beside a hidden_size of {hidden}")


def _intermediate(fields: Fields, model_type: str, hidden: int) -> int:
    name, value = fields.raw(*INTERMEDIATE)
    if isinstance(value, list | tuple):  # one a layer: read by the families that have it
        return max(fields.numbers(name, most=sizes.most(name)) or [0])
    given = fields.number(*INTERMEDIATE, least=0)
    if given is not None:
        check_feed_forward(fields, name, given, hidden)
        return given
    if model_type in _FOUR_TIMES_HIDDEN:
        return 4 * hidden
    return fields.number("moe_intermediate_size", "shared_intermediate_size", "block_ff_dim") or 0
