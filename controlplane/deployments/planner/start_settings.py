"""What was chosen in the planner as settings of vLLM: those that were given, and what the split needs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from math import floor

from controlplane.deployments.planner.answers import Answer
from controlplane.deployments.planner.fields import USUAL_DRAFT_TOKENS, USUAL_LORA_RANK
from controlplane.deployments.planner.inputs import Inputs
from controlplane.domain.desired import SettingValue
from controlplane.domain.ledger.setup import GIB
from controlplane.domain.specs import precision
from engine_adapters.vllm.settings import FIELDS

_CACHES = {"bf16": "bfloat16", "fp16": "float16"}  # the planner's names of cache types -> vLLM's
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_CHOICES = {field.name: frozenset(field.choices) for field in FIELDS}
_NO_MEDIA = {"image": 0, "video": 0, "audio": 0}
_LEAST_SHARE = 0.05


def of(answer: Answer, inputs: Inputs) -> dict[str, SettingValue]:
    """Settings of vLLM by their names; what was left open is left to the engine."""
    setup = answer.ledger.setup
    share = share_with_reserve(answer, inputs)
    found: dict[str, SettingValue] = {
        "max_num_seqs": inputs.max_num_seqs,
        "max_num_batched_tokens": inputs.max_num_batched_tokens,
        "gpu_memory_utilization": inputs.gpu_memory_utilization if share is None else share,
        "kv_cache_memory_bytes": setup.wishes.kv_cap_bytes,
        "block_size": inputs.block_size,
        "dtype": _DTYPES.get(inputs.dtype, inputs.dtype) or None,
        "kv_cache_dtype": _CACHES.get(inputs.kv_cache_dtype, inputs.kv_cache_dtype) or None,
        "enforce_eager": inputs.enforce_eager,
        "quantization": "fp8" if other_weights(answer, inputs)[1] else None,
        "data_parallel_size": answer.split.attention_copies if answer.split.attention_copies > 1 else None,
        "enable_expert_parallel": True if answer.split.experts else None,
        "extra_args": shlex.join(_options(answer, inputs)) or None,
    }
    if inputs.max_model_len is not None or setup.max_model_len != setup.model.max_position_embeddings:
        found["max_model_len"] = setup.max_model_len
    return {name: value for name, value in found.items() if value is not None and _may_be(name, value)}


def share_with_reserve(answer: Answer, inputs: Inputs) -> float | None:
    """The share of the card that leaves free what is to stay free: the engine has no setting for that itself. None
    where nothing is, or where a cap of the cache decides in the share's place."""
    total, setup = answer.ledger.budget.total_bytes, answer.ledger.setup
    if not inputs.reserve_gib or total is None or setup.kv_cap_bytes is not None:
        return None
    share = setup.utilization - inputs.reserve_gib * GIB / total
    return max(_LEAST_SHARE, floor(share * 10_000) / 10_000)


def other_weights(answer: Answer, inputs: Inputs) -> tuple[str, bool]:
    """The weights' numbers where other ones than those of the files are asked for (else the empty text), and whether
    vLLM makes them while it loads."""
    if not inputs.quantization:
        return "", False
    subject, wanted = answer.subject, answer.question.precision
    stored = precision.parse(inputs.dtype or subject.dtype or None, subject.quantization or None, None, subject.facts)
    if (wanted.quantized, wanted.weights.name) == (stored.quantized, stored.weights.name):
        return "", False
    if not wanted.quantized:
        return wanted.plain_dtype, False
    return wanted.weights.name, wanted.weights.name == "fp8" and not stored.quantized


def why_no_cache(inputs: Inputs) -> str:
    """Why the engine can't keep its cache as asked; the empty text where it can."""
    cache = inputs.kv_cache_dtype
    if cache and _CACHES.get(cache, cache) not in _CHOICES["kv_cache_dtype"]:
        return f"vLLM keeps no KV cache in {cache.upper()}, so this can be worked out but not started."
    return ""


def _options(answer: Answer, inputs: Inputs) -> Iterator[str]:
    """Further arguments: what has no setting of its own."""
    if inputs.speculative:
        config: dict[str, object] = {
            "method": inputs.speculative,
            "num_speculative_tokens": inputs.speculative_tokens or USUAL_DRAFT_TOKENS,
        }
        if inputs.draft_model:
            config["model"] = inputs.draft_model
        yield from ("--speculative-config", json.dumps(config))
    if inputs.max_loras:
        yield from ("--enable-lora", "--max-loras", str(inputs.max_loras))
        yield from ("--max-lora-rank", str(inputs.max_lora_rank or USUAL_LORA_RANK))
    if inputs.cpu_offload_gib:
        yield from ("--cpu-offload-gb", f"{inputs.cpu_offload_gib:g}")
    if inputs.media == "refused" and answer.subject.facts.tower_parameters:
        yield from ("--limit-mm-per-prompt", json.dumps(_NO_MEDIA))


def _may_be(name: str, value: SettingValue) -> bool:
    choices = _CHOICES.get(name)
    return not choices or value in choices
