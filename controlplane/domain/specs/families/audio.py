"""Audio towers: encoders like Whisper's, and the conformer of Gemma."""

from __future__ import annotations

from controlplane.domain.specs.fields import LARGEST_LAYERS, Fields


def read(part: Fields, hidden: int) -> int:
    """Parameters of the tower and of what carries its output to the text model's width."""
    if part.text("model_type").startswith("gemma"):
        return _conformer(part, hidden)
    width = part.number("d_model", "hidden_size") or 1280
    layers = part.number("encoder_layers", "num_hidden_layers", most=LARGEST_LAYERS) or 32
    inner = part.number("encoder_ffn_dim", "intermediate_size", "encoder_intermediate_size") or 4 * width
    mels = part.number("num_mel_bins") or 128
    layer = 4 * width * width + 3 * width + 2 * width * inner + inner + width + 4 * width  # keys have no bias
    tower = 3 * mels * width + 3 * width * width + 2 * width + layers * layer + 2 * width
    kind = part.text("model_type")
    if kind.startswith("voxtral"):
        return tower + 1500 * width + 4 * width * hidden + hidden * hidden
    if kind.startswith("qwen2_audio"):
        return tower + 1500 * width + width * hidden + hidden
    return tower + width * hidden + hidden + 2 * hidden


def _conformer(part: Fields, hidden: int) -> int:
    """Gemma 4's: two half feed-forwards, attention with relative keys and a light convolution in a layer."""
    width = part.number("hidden_size") or 1024
    layers = part.number("num_hidden_layers", "conf_num_hidden_layers", most=LARGEST_LAYERS) or 12
    out = part.number("output_proj_dims") or 1536
    kernel = part.number("conv_kernel_size", "conf_conv_kernel_size") or 5
    layer = 2 * (8 * width * width + 2 * width) + 5 * width * width + 3 * width * width + (kernel + 5) * width + 128
    ends = 9 * 128 + 128 + 9 * 128 * 32 + 32 + 1024 * width
    return ends + layers * layer + width * out + out + out * hidden
