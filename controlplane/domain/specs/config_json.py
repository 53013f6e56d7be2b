"""Model facts from a Hugging Face config.json.

Guarantees
    Whatever stands in the mapping, the answer is ModelFacts or RefusedError that names the field. Parameters are
    counted from the widths, one rule a family, and agree with published totals within 0.1 % for known families.
Does not do
    Read files, or look at weights: `safetensors_index` makes the bytes exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import fields as reading
from controlplane.domain.specs import quantization_config
from controlplane.domain.specs.families import (
    defaults,
    draft,
    encoder_decoders,
    feed_forward,
    length,
    purpose,
    shape,
    text_model,
    towers,
    whisper,
)
from controlplane.domain.specs.families.block import Block
from controlplane.domain.specs.families.shape import Shape
from controlplane.domain.specs.families.text_model import TextModel
from controlplane.domain.specs.fields import Fields
from controlplane.domain.specs.model import Experts, LayerRun, Layers, ModelFacts

_TEXT_PARTS = ("text_config", "llm_config", "language_config", "language_model_config")
_OTHER_CACHES = (
    "deepseek_v4", "deepseek_v41", "zamba", "zaya", "recurrent_gemma", "rwkv", "rwkv5", "rwkv6", "rwkv7",
    "xlstm",
    "qwen4_exp_text", "qwen4_exp", "glm5_next_text", "glm5_next", "hy_v4", "inkling_text", "dots3_note",
    "longcat_flash_ngram",
)  # fmt: skip
_DTYPES = ("bfloat16", "float16", "float32", "bf16", "fp16", "fp32", "half", "float")


def read(config: Mapping[str, object], *, name: str = "") -> ModelFacts:
    """Facts of the model that `config` describes. Raises RefusedError (code model_config) naming the field."""
    if not isinstance(config, Mapping):
        raise reading.refuse("model_config", "config.json", config, "a JSON object, the config.json of a model")
    if not config:
        raise RefusedError(
            "model_config",
            "config.json is empty.",
            hint="Give the config.json that lies beside the model's weights.",
            fields={"config.json": "an object with model_type, hidden_size, num_hidden_layers …"},
        )
    top = Fields(config)
    model_type = top.text("model_type").lower()
    if model_type == whisper.MODEL_TYPE:
        return replace(whisper.read(top, name=name), torch_dtype=_dtype(top, top))
    text, text_type = _text_part(top, model_type)
    _check_supported(top, text_type)
    read_shape = shape.read(text, text_type)
    model = text_model.read(text, read_shape)
    assumptions = _assumptions(read_shape)
    tower, assumed = towers.read(_outer(top), read_shape.hidden, model_type)
    return _facts(top, text, read_shape, model, name=name, tower=tower, assumptions=assumptions + assumed)


def _text_part(top: Fields, model_type: str) -> tuple[Fields, str]:
    """The config of the language model, and its model type; defaults of the family fill a nested one, as they do in
    the published code."""
    outer = _outer(top)
    for part_name in _TEXT_PARTS:
        part = outer.part(part_name)
        if part is not None and part.values:
            kind = (part.text("model_type") or defaults.TEXT_TYPES.get(model_type, model_type)).lower()
            filled = {**defaults.TEXT.get(kind, {}), **part.values}
            for shared in ("tie_word_embeddings", "vocab_size"):
                if filled.get(shared) is None and outer.has(shared):
                    filled[shared] = outer.values[shared]
            return Fields(filled, where=part.where), kind
    return outer, model_type


def _check_supported(top: Fields, text_type: str) -> None:
    """Refuses what keeps something for a request that is not summed here: an answer would only look like one."""
    top.flag("is_encoder_decoder", False)
    model_type = top.text("model_type").lower()
    if encoder_decoders.is_one(top.values, model_type):
        raise encoder_decoders.refusal(model_type)
    newer = text_type == "bailing_hybrid" and any("V3" in name for name in top.texts("architectures") or [])
    if text_type in _OTHER_CACHES or newer:
        raise top.refuse("model_type", text_type, "a family whose cache is summed here; give an architecture instead")


def _outer(top: Fields) -> Fields:
    """Omni models put everything that answers into `thinker_config`."""
    return top.part("thinker_config") or top


def _assumptions(read_shape: Shape) -> list[str]:
    if read_shape.traits.known:
        return []
    kind = read_shape.model_type or "none"
    return [f"model_type {reading.shown(kind)} is not known; parameters were counted as of a Llama-like model."]


def _facts(
    top: Fields, text: Fields, read_shape: Shape, model: TextModel, *, name: str, tower: int, assumptions: list[str]
) -> ModelFacts:
    blocks = model.blocks
    tied = _tied(top, text, read_shape)
    embedding = read_shape.vocab * read_shape.hidden * (1 if tied else 2)
    head_bias = read_shape.vocab if read_shape.traits.head_bias else 0
    total = model.parameters + embedding + head_bias + tower
    _check_total(text, read_shape, total)
    fine = model.fine_parameters + head_bias
    draft_layers, draft_parameters = draft.read(text, read_shape, blocks)
    lengths = length.read(text, read_shape.model_type)
    return ModelFacts(
        name=name,
        family=top.text("model_type").lower() or read_shape.model_type,
        parameters=total,
        active_parameters=total - model.idle_parameters,
        hidden_size=read_shape.hidden,
        num_hidden_layers=read_shape.layers,
        num_attention_heads=read_shape.heads,
        num_key_value_heads=read_shape.kv_heads,
        head_dim=read_shape.head_dim,
        intermediate_size=read_shape.intermediate,
        vocab_size=read_shape.vocab,
        layers=_grouped(cache for block in blocks for cache in block.mixer.caches),
        layer_runs=_runs(blocks),
        tie_word_embeddings=tied,
        max_position_embeddings=lengths.longest,
        usual_length_tokens=lengths.usual,
        yarn_length_tokens=lengths.yarn_before_0_32,
        embedding_parameters=embedding + model.lookup,
        replicated_parameters=fine + sum(block.mixer.whole for block in blocks),
        attention_parameters=sum(block.mixer.projections for block in blocks),
        unquantized_parameters=fine,
        experts=_experts(text, read_shape, blocks),
        tower_parameters=tower,
        draft_layers=draft_layers,
        draft_parameters=draft_parameters,
        torch_dtype=_dtype(top, text),
        quantization=quantization_config.read(top) or quantization_config.read(text),
        kv_cache_dtype=quantization_config.cache(top) or quantization_config.cache(text),
        pools=purpose.pools(top, read_shape.model_type),
        source="config.json",
        assumptions=tuple(assumptions),
    )


def _check_total(text: Fields, read_shape: Shape, parameters: int) -> None:
    if parameters > reading.LARGEST_TOTAL:
        right = f"widths that make up to {reading.LARGEST_TOTAL:.0e} parameters"
        raise text.refuse("hidden_size", read_shape.hidden, right)


def _tied(top: Fields, text: Fields, read_shape: Shape) -> bool:
    for fields in (text, top):
        if fields.has("tie_word_embeddings"):
            return fields.flag("tie_word_embeddings", False)
    return read_shape.traits.tied


def _grouped(caches: Iterable[Layers]) -> tuple[Layers, ...]:
    """Layers that are alike as one entry with their number, in the order of their first appearance."""
    return tuple(replace(cache, count=count) for cache, count in Counter(caches).items())


def _runs(blocks: tuple[Block, ...]) -> tuple[LayerRun, ...]:
    """Neighbours that weigh the same as one entry."""
    weights = [(block.feed_forward.routed, block.parameters - block.feed_forward.routed) for block in blocks]
    return tuple(LayerRun(len(list(alike)), *weight) for weight, alike in groupby(weights))


def _experts(text: Fields, read_shape: Shape, blocks: tuple[Block, ...]) -> Experts | None:
    routed = sum(block.feed_forward.routed for block in blocks)
    if not routed:
        return None
    count, active, _ = feed_forward.routed_experts(text, read_shape)
    shared = text.number("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", least=0)
    if shared is None:
        shared = 1 if text.has("shared_expert_intermediate_size") else 0
    return Experts(count=count, active=active, shared=shared, routed_params=routed)


def _dtype(top: Fields, text: Fields) -> str:
    for fields in (top, text):
        for field in ("dtype", "torch_dtype"):
            value = fields.text(field).lower().removeprefix("torch.")
            if value in _DTYPES:
                return value
            if value and value != "auto":
                raise fields.refuse(field, value, "bfloat16, float16 or float32")
    return "bfloat16"
