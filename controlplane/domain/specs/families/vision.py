"""Vision towers by family, each with the projector to the text model's width."""

from __future__ import annotations

from controlplane.domain.specs import sizes
from controlplane.domain.specs.fields import LARGEST_LAYERS, Fields

_LARGEST_IMAGE = 100_000  # pixels


def read(top: Fields, part: Fields, hidden: int, model_type: str) -> int:
    """Parameters of the tower and its projector. Families that are not known are counted as a SigLIP tower with two
    linear layers behind it."""
    kind = part.text("model_type") or model_type
    if model_type == "qwen2_vl":
        return _qwen2(part, hidden)
    if model_type.startswith("qwen2_5"):
        return _qwen2_5(part, hidden)
    if model_type.startswith(("qwen3_vl", "qwen3_omni", "qwen3_5")):
        return _qwen3(part, hidden, deepstack=not model_type.startswith("qwen3_5"))
    for start, count in _FAMILIES.items():
        if kind.startswith(start) or model_type.startswith(start):
            return count(top, part, hidden)
    if kind.startswith("clip"):
        return _clip(part) + _two_layers(_width(part), hidden)
    if model_type in ("gemma3", "paligemma"):
        return _siglip(part) + _width(part) * hidden + (_width(part) if model_type == "gemma3" else hidden)
    return _siglip(part) + _two_layers(_width(part), hidden)


def _width(part: Fields) -> int:
    return part.number("hidden_size", "vt_hidden_size", "width", "embed_dim", "d_model") or 1024


def _layers(part: Fields, usual: int = 24) -> int:
    names = ("num_hidden_layers", "vt_num_hidden_layers", "layers", "depth", "num_layers")
    return part.number(*names, most=LARGEST_LAYERS) or usual


def _inner(part: Fields, width: int) -> int:
    given = part.number("intermediate_size", "vt_intermediate_size", "mlp_dim")
    return given or int((part.ratio("mlp_ratio") or 4.0) * width)


def _patch(part: Fields, usual: int = 14) -> int:
    return _first(part, "patch_size", usual)


def _first(part: Fields, name: str, usual: int) -> int:
    """A size, or the first of two."""
    most = min(sizes.most(name), _LARGEST_IMAGE)
    if isinstance(part.values.get(name), list | tuple):
        both = part.numbers(name, most=most, most_items=4)
        return (both[0] if both else 0) or usual
    return part.number(name, most=most) or usual


def _patches(part: Fields, usual_image: int = 336) -> int:
    return (_first(part, "image_size", usual_image) // _patch(part)) ** 2


def _two_layers(width: int, hidden: int) -> int:
    return width * hidden + hidden + hidden * hidden + hidden


def _biased_layer(width: int, inner: int) -> int:
    """Attention and feed-forward with biases, two norms with biases."""
    return 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width


def _clip(part: Fields) -> int:
    width = _width(part)
    layers = _layers(part) * _biased_layer(width, _inner(part, width))
    return 3 * _patch(part) ** 2 * width + width + (_patches(part) + 1) * width + 4 * width + layers


def _siglip(part: Fields) -> int:
    width = _width(part)
    layers = _layers(part, 27) * _biased_layer(width, _inner(part, width))
    return 3 * _patch(part) ** 2 * width + width + _patches(part, 384) * width + 2 * width + layers


def _pixtral(top: Fields, part: Fields, hidden: int) -> int:
    """Rotary positions, gated feed-forwards, no biases; Mistral 3 merges four patches into one."""
    width = _width(part)
    inner = _inner(part, width)
    tower = 3 * _patch(part) ** 2 * width + width + _layers(part) * (4 * width**2 + 3 * width * inner + 2 * width)
    if top.text("model_type") == "mistral3":
        merge = top.number("spatial_merge_size") or 2
        return tower + merge**2 * width**2 + width + width * hidden + hidden * hidden
    return tower + _two_layers(width, hidden)


def _intern(top: Fields, part: Fields, hidden: int) -> int:
    width = _width(part)
    large = width > 2000  # InternViT 6B: norms without biases, normed queries and keys
    layer = _biased_layer(width, _inner(part, width)) + 2 * width - (3 * width if large else 0)
    tower = 3 * _patch(part) ** 2 * width + width + width + (_patches(part, 448) + 1) * width + _layers(part) * layer
    ratio = top.ratio("downsample_ratio") or 0.5
    merged = int(width / ratio / ratio)
    return tower + 2 * merged + _two_layers(merged, hidden)


def _moon(top: Fields, part: Fields, hidden: int) -> int:
    width = _width(part)
    side = part.number("init_pos_emb_height", "pos_emb_height") or 64
    across = part.number("init_pos_emb_width", "pos_emb_width") or 64
    tower = 3 * _patch(part) ** 2 * width + width + side * across * width + 2 * width
    tower += _layers(part, 27) * _biased_layer(width, _inner(part, width))
    merged = 4 * width
    return tower + 2 * width + merged * merged + merged + merged * hidden + hidden


def _glm(top: Fields, part: Fields, hidden: int) -> int:
    width, out = _width(part), part.number("out_hidden_size") or hidden
    merge = part.number("spatial_merge_size") or 2
    merger = part.number("intermediate_size") or 4 * width
    tower = 3 * 2 * _patch(part) ** 2 * width + 3 * width + _patches(part) * width
    tower += _layers(part) * (4 * width * width + 3 * width * out + 2 * width)
    return tower + merge**2 * width * out + out + out * out + 2 * out + 3 * out * merger


def _llama_4(top: Fields, part: Fields, hidden: int) -> int:
    width = _width(part)
    tower = 3 * _patch(part) ** 2 * width + width + (_patches(part) + 1) * width + 4 * width
    tower += _layers(part, 34) * _biased_layer(width, _inner(part, width))
    ratio = part.ratio("pixel_shuffle_ratio") or 0.5
    shuffled, out = int(width / ratio / ratio), part.number("projector_output_dim", "vision_output_dim") or 4096
    return tower + shuffled * out + out * out + out * hidden


def _mllama(top: Fields, part: Fields, hidden: int) -> int:
    """Llama 3.2 Vision: local and gated global layers, embeddings of tiles and of aspect ratios."""
    width, tiles, ratios = _width(part), part.number("max_num_tiles") or 4, 9
    patches = _patches(part, 560) + 1
    layer = _biased_layer(width, _inner(part, width)) - 4 * width
    deep = part.number("num_global_layers", most=LARGEST_LAYERS) or 8
    tower = 3 * _patch(part) ** 2 * width + width + patches * width + 4 * width + 3
    tower += ratios * tiles * patches * width + 2 * ratios * tiles * width
    tower += (_layers(part, 32) + deep) * layer + 2 * deep
    return tower + (part.number("vision_output_dim") or 7680) * hidden + hidden


def _gemma_4(top: Fields, part: Fields, hidden: int) -> int:
    width = _width(part)
    attention = (part.number("num_attention_heads") or 12) * (part.number("head_dim") or 64)
    layer = 4 * width * attention + 3 * width * _inner(part, width) + 4 * width + 2 * (part.number("head_dim") or 64)
    positions = part.number("position_embedding_size") or 10240
    return 3 * _patch(part, 16) ** 2 * width + 2 * positions * width + _layers(part, 16) * layer + width * hidden


def _qwen2(part: Fields, hidden: int) -> int:
    width = part.number("embed_dim") or 1280
    tower = 3 * 2 * _patch(part) ** 2 * width + _layers(part, 32) * _biased_layer(width, _inner(part, width))
    return tower + _merger(width, hidden) + 2 * width


def _qwen2_5(part: Fields, hidden: int) -> int:
    width, inner = part.number("hidden_size") or 1280, part.number("intermediate_size") or 3420
    layer = 4 * width * width + 4 * width + 3 * width * inner + 2 * inner + width + 2 * width
    return 3 * 2 * _patch(part) ** 2 * width + _layers(part, 32) * layer + _merger(width, hidden) + width


def _merger(width: int, hidden: int) -> int:
    """Four neighbouring patches become one token of the text model."""
    four = 4 * width
    return four * four + four + four * hidden + hidden


def _qwen3(part: Fields, hidden: int, *, deepstack: bool) -> int:
    width = part.number("hidden_size") or 1152
    positions = part.number("num_position_embeddings") or 2304
    taps = len(part.numbers("deepstack_visual_indexes") or []) if deepstack else 0
    tower = 3 * 2 * _patch(part, 16) ** 2 * width + width + positions * width
    tower += _layers(part, 27) * _biased_layer(width, _inner(part, width))
    return tower + _merger(width, hidden) + 2 * width + taps * (_merger(width, hidden) + 8 * width)


_FAMILIES = {
    "pixtral": _pixtral, "mistral3": _pixtral, "intern": _intern, "moonvit": _moon, "kimi": _moon, "glm4": _glm,
    "glm_ocr": _glm, "llama4": _llama_4, "mllama": _mllama, "gemma4": _gemma_4,
}  # fmt: skip
