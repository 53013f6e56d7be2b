"""Vision and audio towers with their projectors: parameters, from the configs beside the text config."""

from __future__ import annotations

from controlplane.domain.specs.fields import LARGEST_LAYERS, Fields

_QWEN_3 = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen3_omni_moe_vision_encoder")


def read(top: Fields, hidden: int, model_type: str) -> tuple[int, list[str]]:
    """Parameters of all towers and their projectors, with what was assumed. 0 for a model of text alone."""
    total = 0
    assumed: list[str] = []
    for name in ("vision_config", "vit_config", "visual", "vision_tower_config"):
        part = top.part(name)
        if part is None or not part.values:
            continue
        total += _vision(top, part, hidden, model_type, assumed)
        break
    for name in ("audio_config", "audio_encoder_config", "encoder_config"):
        part = top.part(name)
        if part is not None and part.values:
            total += _audio(part, hidden)
            break
    return total, assumed


def _vision(top: Fields, part: Fields, hidden: int, model_type: str, assumed: list[str]) -> int:
    kind = part.text("model_type") or model_type
    if model_type in ("qwen2_vl",):
        return _qwen2(part, hidden)
    if model_type.startswith("qwen2_5") or model_type == "qwen2_5_vl":
        return _qwen2_5(part, hidden)
    if model_type.startswith(_QWEN_3):
        return _qwen3(part, hidden, deepstack=not model_type.startswith("qwen3_5"))
    if not part.has("hidden_size", "width", "embed_dim", "d_model", "num_hidden_layers", "layers", "depth"):
        assumed.append(f"{part.where.rstrip('.')} names no widths; its tower was left out.")
        return 0
    total = vit(part, gated=kind in ("pixtral", "gemma4_vision"))
    return total + _projector(top, part, hidden, model_type, kind)


def vit(part: Fields, *, gated: bool = False) -> int:
    """A vision transformer: patches, positions, layers of attention and feed-forward with biases, norms."""
    width = part.number("hidden_size", "width", "embed_dim", "d_model") or 1024
    layers = part.number("num_hidden_layers", "layers", "depth", "num_layers", most=LARGEST_LAYERS) or 24
    inner = part.number("intermediate_size", "mlp_dim") or int((part.ratio("mlp_ratio") or 4.0) * width)
    _, patch_given = part.raw("patch_size")
    patch = 14 if isinstance(patch_given, list | tuple) else part.number("patch_size") or 14
    _, image_given = part.raw("image_size")
    image = 336 if isinstance(image_given, list | tuple) else part.number("image_size", most=100_000) or 336
    embed = 3 * patch * patch * width
    if gated:
        return embed + layers * (4 * width * width + 3 * width * inner + 2 * width) + width
    layer = 4 * width * width + 2 * width * inner + 9 * width + inner
    return embed + width + ((image // patch) ** 2 + 1) * width + layers * layer + 4 * width


def _projector(top: Fields, part: Fields, hidden: int, model_type: str, kind: str) -> int:
    width = part.number("hidden_size", "width", "embed_dim", "d_model") or 1024
    merged = width
    for name in ("spatial_merge_size", "downsample_factor"):
        _, value = top.raw(name) if top.has(name) else part.raw(name)
        if value is not None:
            size = (top if top.has(name) else part).number(name) or 1
            merged = width * size * size
    ratio = top.ratio("downsample_ratio", "pixel_shuffle_ratio") or part.ratio(
        "downsample_ratio", "pixel_shuffle_ratio"
    )
    if ratio is not None and ratio < 1:
        merged = int(width / ratio / ratio)
    if model_type in ("gemma3", "gemma4", "paligemma") or kind.startswith("gemma"):
        return width * hidden + width
    return merged * hidden + hidden * hidden + 2 * hidden + 2 * merged


def _qwen2(part: Fields, hidden: int) -> int:
    width, layers = part.number("embed_dim") or 1280, part.number("depth", most=LARGEST_LAYERS) or 32
    inner = int((part.ratio("mlp_ratio") or 4.0) * width)
    patch = part.number("patch_size", "spatial_patch_size") or 14
    layer = 4 * width * width + 2 * width * inner + inner + width + 4 * width + 4 * width
    return 3 * 2 * patch * patch * width + layers * layer + _merger(width, hidden, norm_bias=True)


def _qwen2_5(part: Fields, hidden: int) -> int:
    width, layers = part.number("hidden_size") or 1280, part.number("depth", most=LARGEST_LAYERS) or 32
    inner = part.number("intermediate_size") or 3420
    patch = part.number("patch_size", "spatial_patch_size") or 14
    layer = 4 * width * width + 4 * width + 3 * width * inner + 2 * inner + width + 2 * width
    return 3 * 2 * patch * patch * width + layers * layer + _merger(width, hidden, norm_bias=False)


def _merger(width: int, hidden: int, *, norm_bias: bool) -> int:
    """Four neighbouring patches become one token of the language model."""
    four = 4 * width
    return four * four + four + four * hidden + hidden + (2 if norm_bias else 1) * width


def _qwen3(part: Fields, hidden: int, *, deepstack: bool) -> int:
    width, layers = part.number("hidden_size") or 1152, part.number("depth", most=LARGEST_LAYERS) or 27
    inner, patch = part.number("intermediate_size") or 4304, part.number("patch_size") or 16
    positions = part.number("num_position_embeddings") or 2304
    four = 4 * width
    layer = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width
    merger = four * four + four + four * hidden + hidden
    taps = len(part.numbers("deepstack_visual_indexes") or []) if deepstack else 0
    embed = 3 * 2 * patch * patch * width + width + positions * width
    return embed + layers * layer + merger + 2 * width + taps * (merger + 2 * four)


def _audio(part: Fields, hidden: int) -> int:
    """A Whisper-like encoder: two convolutions, layers with biases (none on keys), norms; one projection."""
    width = part.number("d_model", "hidden_size") or 1280
    layers = part.number("encoder_layers", "num_hidden_layers", most=LARGEST_LAYERS) or 32
    inner = part.number("encoder_ffn_dim", "intermediate_size", "encoder_intermediate_size") or 4 * width
    mels = part.number("num_mel_bins") or 128
    layer = 4 * width * width + 3 * width + 2 * width * inner + inner + width + 4 * width
    return 3 * mels * width + 3 * width * width + 2 * width + layers * layer + 2 * width + width * hidden + hidden
