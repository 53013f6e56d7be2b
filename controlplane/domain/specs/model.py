"""Facts of a model's architecture: what memory and speed are worked out from.

Guarantees
    Plain values, immutable. Counts are of the whole model, before any split over accelerators. What was not known and
    had to be assumed stands in `assumptions`, one sentence each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from controlplane.domain.specs.weight_parts import WeightParts

AttentionKind = Literal[
    "full", "sliding", "chunked", "mla", "mamba2", "gated_delta", "linear", "cross", "beside", "encoder", "none"
]  # cross: layers of their own over an image; beside: in the same layers as a decoder's own, over its encoder's tokens


@dataclass(frozen=True, slots=True)
class StateShape:
    """What a recurrent layer keeps for one request, whatever its length. Numbers of elements.

    `conv_elements` is of the convolution's window (in the model's data type), `ssm_elements` of the recurrent state.
    Both are split over tensor-parallel ranks.
    """

    conv_elements: int
    ssm_elements: int
    ssm_dtype_bytes: int = 4
    conv_dtype_bytes: int = 2


@dataclass(frozen=True, slots=True)
class Layers:
    """Some layers that are alike in what they keep for a request."""

    kind: AttentionKind
    count: int
    kv_heads: int = 0
    head_dim: int = 0  # of keys; and of values where `value_head_dim` is None
    value_head_dim: int | None = None
    window_tokens: int | None = None  # sliding window or chunk
    latent_elements: int = 0  # mla: kv_lora_rank + qk_rope_head_dim
    indexer_elements: int = 0  # sparse attention: elements of the indexer's key cache a token
    state: StateShape | None = None


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts. Parameters are of all MoE layers together."""

    count: int
    active: int  # routed experts a token goes through
    shared: int = 0
    routed_params: int = 0  # parameters of all routed experts: what expert parallelism splits


@dataclass(frozen=True, slots=True)
class LayerRun:
    """Layers in a row that weigh the same: parameters of one of them, in routed experts and in all else."""

    count: int
    routed_params: int
    other_params: int


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One model. `parameters` counts tied embeddings once and leaves draft layers out.

    A width or a number of heads that is not known is 0, and then stands in `assumptions`.
    """

    name: str
    family: str  # model_type of config.json: llama, qwen3_moe, deepseek_v3 …
    parameters: int
    active_parameters: int  # that one token is multiplied with; all of them for a dense model
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    layers: tuple[Layers, ...]  # attention and state layers, main model only, in no particular order
    layer_runs: tuple[LayerRun, ...] = ()  # all layers in their order; () = the order is not known
    tie_word_embeddings: bool = False
    max_position_embeddings: int | None = None  # the longest request that engines allow, with rotary scaling
    length_is_certain: bool = True  # False: the limit may be another: that of a base, whose tune may be made for more
    usual_length_tokens: int | None = None  # taken where no length is asked for; None = the longest
    yarn_length_tokens: int | None = None  # the longest that vLLM before 0.32 allows under YaRN; None = the same
    embedding_parameters: int = 0  # input embedding and output head, tied counted once
    replicated_parameters: int = 0  # that every tensor-parallel rank holds whole (norms, routers, mla down-projections)
    experts: Experts | None = None
    attention_parameters: int = 0  # projections of attention and state layers: some methods leave them unquantized
    unquantized_parameters: int = 0  # that no method quantizes: norms, routers, biases, convolutions, state parameters
    tower_parameters: int = 0  # vision or audio towers and their projectors, part of `parameters`
    draft_layers: tuple[Layers, ...] = ()  # MTP or draft layers, counted only when speculation is on
    draft_parameters: int = 0
    torch_dtype: str = "bfloat16"
    quantization: str | None = None  # of the files, as `precision.parse` names it; None = none
    kv_cache_dtype: str | None = None  # that the files were calibrated for; None = they don't say
    weight_bytes: int | None = None  # exact, from safetensors headers, over all files
    weight_parts: WeightParts | None = None  # the same by part; None = not known from files
    pools: bool = False  # answers with a vector or a score instead of text
    source: str = ""  # config.json, safetensors, table
    assumptions: tuple[str, ...] = field(default=())

    @property
    def keeps_nothing(self) -> bool:
        """Whether no layer keeps anything for a request, as in encoders: no cache is needed, only room for a step."""
        return all(layer.kind in ("encoder", "none") or not layer.count for layer in self.layers)
