"""Which layer mixes tokens how, and in which window: the several ways in which config.json says so."""

from __future__ import annotations

from typing import NamedTuple

from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import LARGEST_LAYERS, LARGEST_LENGTH, Fields


class Kind(NamedTuple):
    """`name` is full, sliding, chunked, mla, mla_shared, mamba2, mamba1, gated_delta, kda, lightning, conv, both, cross
    or none."""

    name: str
    window_tokens: int | None = None


_LAYER_TYPES = {
    "full_attention": "full", "attention": "full", "sliding_attention": "sliding", "chunked_attention": "chunked",
    "linear_attention": "gated_delta", "mamba": "mamba2", "conv": "conv", "hybrid": "both", "global": "full",
    "local": "sliding", "lightning_attention": "lightning", "dense": "full", "hybrid_sliding": "sliding",
    "moe": "none", "mlp": "none", "compressed_sparse_attention": "full", "kda": "kda",
}  # fmt: skip
ENCODERS = ("bert", "roberta", "xlm-roberta", "camembert")
_HYBRID_LETTERS = {"M": "mamba2", "*": "full", "-": "none", "E": "none"}
_HYBRID_NAMES = {"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
_WINDOW_EVERY = {"gemma2": 2, "gpt_oss": 2, "gemma3": 6, "gemma3_text": 6, "gemma4": 6, "gemma4_text": 6, "cohere2": 4,
                 "olmo3": 4, "exaone4": 4, "exaone_moe": 4, "afmoe": 4, "ministral": 4}  # fmt: skip


def mixers(fields: Fields, shape: Shape) -> list[Kind]:
    """One kind a layer."""
    if shape.model_type in ENCODERS:
        return [Kind("encoder")] * shape.layers
    if shape.model_type == "nemotron_h":
        return [Kind(_HYBRID_LETTERS[letter]) for letter in hybrid_letters(fields, shape.layers)]
    if fields.has("hybrid_layer_pattern"):
        return _marked_sliding(fields, shape)
    if fields.has("kv_lora_rank") and shape.model_type != "kimi_linear":
        return _latent(fields, shape)
    if fields.has("layer_types", "layers_block_type"):
        return _listed(fields, shape)
    special = _SPECIAL.get(shape.model_type)
    if special:
        return special(fields, shape)
    window = sliding_window(fields)
    every = fields.number("sliding_window_pattern") if _is_number(fields, "sliding_window_pattern") else None
    every = every or _WINDOW_EVERY.get(shape.model_type)
    if window and every:
        return [Kind("full") if (layer + 1) % every == 0 else Kind("sliding", window) for layer in range(shape.layers)]
    if window and shape.positions and window >= shape.positions:
        window = None  # a window that nothing outgrows
    chunk = fields.number("attention_chunk_size", most=LARGEST_LENGTH)
    if chunk:
        return _chunked(fields, shape, chunk)
    if window and fields.values.get("use_sliding_window") is not False:
        return _windowed(fields, shape, window)
    return [Kind("full")] * shape.layers


def _latent(fields: Fields, shape: Shape) -> list[Kind]:
    """MLA in every layer, or in the last one of each group whose others are linear (Ling and Ring 2.5). GLM-5.2: layers
    that are marked shared take an earlier layer's choice of tokens and have no indexer of their own; vLLM's rule where
    they are not listed is every `index_topk_freq`-th."""
    group = fields.number("layer_group_size", most=LARGEST_LAYERS) if shape.model_type == "bailing_hybrid" else None
    if group:
        return [Kind("lightning" if (layer + 1) % group else "mla") for layer in range(shape.layers)]
    types = fields.texts("indexer_types")
    if types:
        if len(types) < shape.layers or set(types) - {"full", "shared"}:
            raise fields.refuse("indexer_types", types, f"a list of {shape.layers} texts, full or shared")
        return [Kind("mla" if name == "full" else "mla_shared") for name in types[: shape.layers]]
    every = fields.number("index_topk_freq", most=LARGEST_LAYERS) or 1
    offset = fields.number("index_skip_topk_offset", least=0, most=LARGEST_LAYERS)
    first = 2 if offset is None else offset
    return [Kind("mla_shared" if max(layer - first + 1, 0) % every else "mla") for layer in range(shape.layers)]


def sliding_window(fields: Fields) -> int | None:
    """Tokens of the window, None where there is none (null or a value that can't hold a token)."""
    return fields.number("sliding_window", "sliding_window_size", most=LARGEST_LENGTH, least=-1) or None


def _is_number(fields: Fields, name: str) -> bool:
    return isinstance(fields.values.get(name), int | float)


def _windowed(fields: Fields, shape: Shape, window: int) -> list[Kind]:
    """Qwen2's rule: layers from `max_window_layers` on have the window; every layer where nothing is said."""
    if window < 1:
        return [Kind("full")] * shape.layers
    first = 0
    if fields.has("use_sliding_window"):
        first = fields.number("max_window_layers", least=0) or 0
    return [Kind("sliding", window) if layer >= first else Kind("full") for layer in range(shape.layers)]


def _chunked(fields: Fields, shape: Shape, chunk: int) -> list[Kind]:
    """Llama 4: layers with rotary positions attend within a chunk, those without over everything."""
    flags = fields.numbers("no_rope_layers", most=1)
    if flags and len(flags) == shape.layers:
        return [Kind("chunked", chunk) if flag else Kind("full") for flag in flags]
    every = fields.number("no_rope_layer_interval") or 4
    return [Kind("full") if (layer + 1) % every == 0 else Kind("chunked", chunk) for layer in range(shape.layers)]


def _listed(fields: Fields, shape: Shape) -> list[Kind]:
    name = "layer_types" if fields.has("layer_types") else "layers_block_type"
    names = fields.texts(name) or []
    if len(names) < shape.layers:
        raise fields.refuse(name, names, f"a list of {shape.layers} texts, one a layer")
    found = []
    for item in names[: shape.layers]:
        kind = _LAYER_TYPES.get(item)
        if kind is None:
            raise fields.refuse(name, item, "of " + ", ".join(sorted(_LAYER_TYPES)))
        found.append(_with_window(fields, shape, name, kind))
    return found


def _with_window(fields: Fields, shape: Shape, name: str, kind: str) -> Kind:
    if kind == "sliding":
        window = sliding_window(fields)
        if window is None or window < 1:
            raise fields.missing("sliding_window", f"the window in tokens, since {name} names sliding layers")
        return Kind(kind, window)
    if kind == "chunked":
        return Kind(kind, fields.number("attention_chunk_size", most=LARGEST_LENGTH) or 8192)
    if kind == "gated_delta" and shape.model_type.startswith("minimax"):
        return Kind("lightning")
    if kind == "gated_delta" and (fields.has("linear_attn_config") or shape.model_type == "kimi_linear"):
        return Kind("kda")
    if kind == "gated_delta" and fields.has("mamba_d_state", "ssm_state_size"):
        return Kind("mamba1" if shape.model_type == "jamba" else "mamba2")
    if kind == "mamba2" and shape.model_type == "jamba":
        return Kind("mamba1")
    if kind == "full" and shape.model_type == "kimi_linear":
        return Kind("mla")
    return Kind(kind)


def hybrid_letters(fields: Fields, layers: int) -> str:
    """Nemotron-H: a letter a layer, M state, * attention, - feed-forward, E experts."""
    if not fields.has("hybrid_override_pattern"):
        names = fields.texts("layers_block_type") or fields.texts("layer_types") or []
        unknown = next((name for name in names if name not in _HYBRID_NAMES), None)
        if unknown is not None or len(names) != layers:
            right = f"a list of {layers} texts of " + ", ".join(_HYBRID_NAMES)
            raise fields.refuse("layers_block_type", unknown if unknown is not None else names, right)
        return "".join(_HYBRID_NAMES[name] for name in names)
    _, value = fields.raw("hybrid_override_pattern")
    letters = value.replace("|", "") if isinstance(value, str) and len(value) <= 2 * LARGEST_LAYERS else ""
    if len(letters) != layers or set(letters) - set(_HYBRID_LETTERS):
        right = f"{layers} letters, one a layer: M state, * attention, - feed-forward, E experts"
        raise fields.refuse("hybrid_override_pattern", value, right)
    return letters


def _marked_sliding(fields: Fields, shape: Shape) -> list[Kind]:
    """MiMo-V2: 1 for a sliding layer, 0 for a full one."""
    flags = fields.numbers("hybrid_layer_pattern", most=1) or []
    window = sliding_window(fields)
    if len(flags) != shape.layers or not window or window < 1:
        right = f"a list of {shape.layers} numbers, 1 sliding and 0 full, with sliding_window"
        raise fields.refuse("hybrid_layer_pattern", fields.values.get("hybrid_layer_pattern"), right)
    return [Kind("sliding", window) if flag else Kind("full") for flag in flags]


def _attention_at(fields: Fields, shape: Shape, other: str) -> list[Kind]:
    chosen = set(fields.numbers("attn_layer_indices") or fields.numbers("full_attn_idxs") or [])
    return [Kind("full" if layer in chosen else other) for layer in range(shape.layers)]


def _bamba(fields: Fields, shape: Shape) -> list[Kind]:
    return _attention_at(fields, shape, "mamba2")


def _jamba(fields: Fields, shape: Shape) -> list[Kind]:
    period, offset = fields.number("attn_layer_period") or 8, fields.number("attn_layer_offset", least=0) or 0
    return [Kind("full" if layer % period == offset else "mamba1") for layer in range(shape.layers)]


def _delta_every(fields: Fields, shape: Shape) -> list[Kind]:
    every = fields.number("full_attention_interval") or 4
    return [Kind("full" if (layer + 1) % every == 0 else "gated_delta") for layer in range(shape.layers)]


def _minimax(fields: Fields, shape: Shape) -> list[Kind]:
    flags = fields.numbers("attn_type_list", most=1)
    if not flags or len(flags) < shape.layers:
        right = f"a list of {shape.layers} numbers, 0 linear and 1 full"
        raise fields.refuse("attn_type_list", fields.values.get("attn_type_list"), right)
    return [Kind("full" if flag else "lightning") for flag in flags[: shape.layers]]


def _kimi_linear(fields: Fields, shape: Shape) -> list[Kind]:
    part = fields.part("linear_attn_config")
    if part is None:
        return [Kind("mla")] * shape.layers
    chosen = set(part.numbers("kda_layers") or [])  # counted from 1
    return [Kind("kda" if layer + 1 in chosen else "mla") for layer in range(shape.layers)]


def _lfm2(fields: Fields, shape: Shape) -> list[Kind]:
    return _attention_at(fields, shape, "conv")


def _falcon_h1(fields: Fields, shape: Shape) -> list[Kind]:
    return [Kind("both")] * shape.layers


def _mamba_alone(fields: Fields, shape: Shape) -> list[Kind]:
    return [Kind("mamba2" if shape.model_type == "mamba2" else "mamba1")] * shape.layers


def _cross(fields: Fields, shape: Shape) -> list[Kind]:
    chosen = set(fields.numbers("cross_attention_layers") or [])
    return [Kind("cross" if layer in chosen else "full") for layer in range(shape.layers)]


_SPECIAL = {
    "bamba": _bamba, "jamba": _jamba, "qwen3_next": _delta_every, "qwen3_5": _delta_every, "qwen3_5_text": _delta_every,
    "qwen3_5_moe": _delta_every, "qwen3_5_moe_text": _delta_every, "minimax_text_01": _minimax, "minimax": _minimax,
    "minimax_m1": _minimax, "kimi_linear": _kimi_linear, "lfm2": _lfm2, "lfm2_moe": _lfm2, "falcon_h1": _falcon_h1,
    "mamba": _mamba_alone, "mamba2": _mamba_alone, "falcon_mamba": _mamba_alone, "mllama_text_model": _cross,
}  # fmt: skip
