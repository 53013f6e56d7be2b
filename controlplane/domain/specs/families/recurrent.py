"""Layers that keep a state of constant size for a request: Mamba 1 and 2, gated delta net, KDA, lightning attention,
short convolutions. States are counted as engines keep them: `conv_kernel - 1` columns and the recurrent matrix."""

from __future__ import annotations

from controlplane.domain.specs.families.block import Mixer
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.fields import Fields
from controlplane.domain.specs.model import Layers, StateShape

_DTYPE_BYTES = {"float32": 4, "fp32": 4, "float16": 2, "bfloat16": 2}
_WIDE_STATES = ("nemotron_h", "qwen3_5")


def mamba2(fields: Fields, shape: Shape) -> Mixer:
    """Selective state space with scalar decay a head (Mamba 2)."""
    hidden = shape.hidden
    state = fields.need("ssm_state_size", "mamba_d_state", "state_size")
    groups = fields.number("n_groups", "mamba_n_groups", "mamba_num_groups", "mamba_ngroups") or 1
    head_dim, count, inner = _mamba2_heads(fields, hidden)
    kernel = fields.number("conv_kernel", "mamba_d_conv") or 4
    conv_width = inner + 2 * groups * state
    projections = hidden * (inner + conv_width + count) + inner * hidden
    conv_bias = fields.flag("use_conv_bias" if fields.has("use_conv_bias") else "mamba_conv_bias", True)
    bias = fields.values.get("mamba_proj_bias") is True or (
        fields.values.get("use_bias") is True and not fields.has("mamba_d_state")
    )
    fine = conv_width * kernel + (conv_width if conv_bias else 0) + 3 * count
    fine += inner if fields.flag("mamba_rms_norm", True) else 0
    fine += inner + conv_width + count + hidden if bias else 0
    shape_kept = StateShape((kernel - 1) * conv_width, count * head_dim * state, _ssm_bytes(fields, shape))
    return Mixer((Layers("mamba2", 1, state=shape_kept),), projections, fine)


def _mamba2_heads(fields: Fields, hidden: int) -> tuple[int, int, int]:
    """Width of a head, number of heads, inner width."""
    count = fields.number("mamba_num_heads", "mamba_n_heads", "n_mamba_heads", "num_heads")
    inner = fields.number("mamba_d_ssm", "mamba_intermediate")
    if inner is None:
        expand = fields.ratio("mamba_expand", "expand") or 2.0
        inner = int(expand * hidden)
    _, given = fields.raw("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    head_dim = None if given == "auto" else fields.number("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    if count is None and head_dim is None:
        head_dim = fields.number("head_dim") or 64
    if count is None:
        assert head_dim is not None
        if inner % head_dim:
            raise fields.refuse("mamba_head_dim", head_dim, f"a divisor of the inner width ({inner})")
        count = inner // head_dim
    if head_dim is None:
        if inner % count:
            raise fields.refuse("mamba_n_heads", count, f"a divisor of the inner width ({inner})")
        head_dim = inner // count
    return head_dim, count, count * head_dim


def mamba1(fields: Fields, shape: Shape) -> Mixer:
    """Selective state space with decay a channel (Mamba 1: Jamba, Falcon-Mamba). Engines keep its state as they do
    that of linear attention."""
    hidden = shape.hidden
    state = fields.need("mamba_d_state", "state_size")
    inner = int((fields.ratio("mamba_expand", "expand") or 2.0) * hidden)
    kernel = fields.number("mamba_d_conv", "conv_kernel") or 4
    _, rank = fields.raw("mamba_dt_rank", "time_step_rank")
    step = -(-hidden // 16) if rank in (None, "auto") else fields.need("mamba_dt_rank", "time_step_rank")
    projections = hidden * 2 * inner + inner * (step + 2 * state) + step * inner + inner * hidden
    fine = inner * kernel + inner + inner + inner * state + inner  # convolution and its bias, step bias, decay, skip
    fine += step + 2 * state if shape.model_type == "jamba" else 0  # norms of step, input and output
    kept = StateShape((kernel - 1) * inner, inner * state, _ssm_bytes(fields, shape))
    return Mixer((Layers("linear", 1, state=kept),), projections, fine)


def gated_delta(fields: Fields, shape: Shape) -> Mixer:
    """Gated delta net (Qwen3-Next, Qwen3.5 and 3.6)."""
    hidden = shape.hidden
    key_heads, value_heads = fields.need("linear_num_key_heads"), fields.need("linear_num_value_heads")
    key_dim, value_dim = fields.need("linear_key_head_dim"), fields.need("linear_value_head_dim")
    if value_heads % key_heads:
        raise fields.refuse("linear_num_value_heads", value_heads, f"a multiple of linear_num_key_heads ({key_heads})")
    kernel = fields.number("linear_conv_kernel_dim") or 4
    keys, values = key_heads * key_dim, value_heads * value_dim
    conv_width = 2 * keys + values
    projections = hidden * (2 * keys + 2 * values) + hidden * 2 * value_heads + values * hidden
    fine = conv_width * kernel + 2 * value_heads + value_dim
    kept = StateShape((kernel - 1) * conv_width, value_heads * value_dim * key_dim, _ssm_bytes(fields, shape))
    return Mixer((Layers("gated_delta", 1, state=kept),), projections, fine)


def kimi_delta(fields: Fields, shape: Shape) -> Mixer:
    """Kimi delta attention: a gated delta net with decay a channel (Kimi-Linear)."""
    part = fields.part("linear_attn_config") or fields
    hidden = shape.hidden
    names = ("num_heads", "head_dim") if fields.has("linear_attn_config") else ("linear_num_heads", "linear_head_dim")
    count, width = part.need(names[0]), part.need(names[1])
    kernel = part.number("short_conv_kernel_size", "linear_conv_kernel_dim") or 4
    inner = count * width
    narrow = hidden * width + width * inner
    gates = narrow + (hidden * inner if part.flag("use_full_rank_gate", False) else narrow) + hidden * count
    projections = 3 * hidden * inner + inner * hidden + gates
    fine = 3 * inner * kernel + inner + count + width
    kept = StateShape((kernel - 1) * 3 * inner, count * width * width, 4)
    return Mixer((Layers("gated_delta", 1, state=kept),), projections, fine, whole=2 * hidden * width)


def lightning(fields: Fields, shape: Shape) -> Mixer:
    """Lightning attention (MiniMax-01, Ling 2.5): linear attention with a matrix a head as its state, an output gate
    and a norm."""
    # beside latent attention `shape.head_dim` is that of its queries
    width = (fields.number("head_dim") or shape.hidden // shape.heads) if fields.has("kv_lora_rank") else shape.head_dim
    inner = shape.heads * width
    projections = shape.hidden * 3 * inner + shape.hidden * inner + inner * shape.hidden
    kept = StateShape(0, inner * width, _ssm_bytes(fields, shape))
    return Mixer((Layers("linear", 1, state=kept),), projections, inner)


def short_convolution(fields: Fields, shape: Shape) -> Mixer:
    """A gated convolution over a few tokens (LFM2)."""
    width, kernel = fields.number("conv_dim") or shape.hidden, fields.number("conv_L_cache") or 3
    biased = fields.flag("conv_bias", False)
    fine = width * kernel + (width + 3 * width + shape.hidden if biased else 0)
    kept = StateShape((kernel - 1) * width, 0)
    return Mixer((Layers("linear", 1, state=kept),), shape.hidden * 3 * width + width * shape.hidden, fine)


def _ssm_bytes(fields: Fields, shape: Shape) -> int:
    """Bytes of one element of the recurrent state: as the config says; 32 bits in families whose engines keep it so
    (Nemotron-H, Qwen3.5), otherwise as the model's own 16-bit type."""
    for name in ("mamba_ssm_cache_dtype", "mamba_ssm_dtype"):
        known = _DTYPE_BYTES.get(fields.text(name).lower())
        if known is not None:
            return known
    return 4 if shape.model_type.startswith(_WIDE_STATES) else 2
