"""The deployment that follows from a planner's answer, as far as Headworks can start it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.deployments.planner.answers import Answer
from controlplane.deployments.planner.inputs import Inputs
from controlplane.deployments.services.checking import MAX_ACCELERATORS
from controlplane.domain.capacity.plan import Plan
from controlplane.domain.desired import SettingValue
from controlplane.domain.parallelism.candidate import Candidate
from controlplane.domain.specs import precision
from engine_adapters.vllm.settings import FIELDS

_CACHES = {"bf16": "bfloat16", "fp16": "float16"}  # the planner's names of cache types -> vLLM's
_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_CHOICES = {field.name: frozenset(field.choices) for field in FIELDS}
_MOST_COPIES = max(int(field.maximum or 1) for field in FIELDS if field.name == "data_parallel_size")


@dataclass(frozen=True, slots=True)
class Start:
    """`why_not` "" = a deployment of this can be made. `variant` "" = it has to be chosen; `note` says what is to be
    looked for then."""

    why_not: str
    note: str
    variant: str
    replicas: int
    tensor_parallel: int
    pipeline_parallel: int
    accelerators_per_replica: int
    settings: Mapping[str, SettingValue]

    @property
    def can_start(self) -> bool:
        return not self.why_not

    @property
    def body(self) -> dict[str, object]:
        """What REST takes for a deployment."""
        return {
            "engine": "vllm",
            "variant": self.variant,
            "replicas": self.replicas,
            "accelerators_per_replica": self.accelerators_per_replica,
            "tensor_parallel": self.tensor_parallel,
            "pipeline_parallel": self.pipeline_parallel,
            "settings": dict(self.settings),
        }


def of(answer: Answer, inputs: Inputs, plan: Plan | None = None) -> Start:
    """The deployment of the answer's split; with as many replicas as `plan` has, else as the cards hold."""
    split = answer.split
    return Start(
        why_not=_why_not(answer, inputs),
        note=_note(answer, inputs),
        variant=answer.subject.variant,
        replicas=max(1, answer.copies) if plan is None else plan.replicas,
        tensor_parallel=split.tensor,
        pipeline_parallel=split.pipeline,
        accelerators_per_replica=split.cards,
        settings=_settings(answer, inputs),
    )


def why_no_split(candidate: Candidate) -> str:
    """Why Headworks starts no engine with this split; the empty text where it does."""
    nodes, split = candidate.layout.nodes_a_copy, candidate.split
    if nodes > 1:
        return f"A copy takes {nodes} nodes, and Headworks starts each replica inside one node."
    if split.cards > MAX_ACCELERATORS or split.attention_copies > _MOST_COPIES:
        return f"A copy takes {split.cards} cards, more than Headworks gives one replica."
    return ""


def _why_not(answer: Answer, inputs: Inputs) -> str:
    """The first thing in the way; the empty text where nothing is."""
    if answer.chosen is None:
        return answer.why_not or "This does not run."
    refusal = why_no_split(answer.chosen)
    if refusal:
        return refusal
    wanted, while_loading = _other_weights(answer, inputs)
    if answer.subject.variant and wanted and not while_loading:
        return (
            f"Weights in {wanted.upper()} have to lie in the model's files: vLLM makes only FP8 of others while it "
            "loads. Add a variant with such files."
        )
    cache = inputs.kv_cache_dtype
    if cache and _CACHES.get(cache, cache) not in _CHOICES["kv_cache_dtype"]:
        return f"vLLM keeps no KV cache in {cache.upper()}, so this can be worked out but not started."
    return ""


def _note(answer: Answer, inputs: Inputs) -> str:
    wanted, while_loading = _other_weights(answer, inputs)
    if answer.subject.variant or not wanted or while_loading:
        return ""
    return f"Choose a variant whose files hold {wanted.upper()} weights."


def _other_weights(answer: Answer, inputs: Inputs) -> tuple[str, bool]:
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


def _settings(answer: Answer, inputs: Inputs) -> dict[str, SettingValue]:
    """Settings of vLLM by their names: those that were given, and what the split needs."""
    setup = answer.ledger.setup
    found: dict[str, SettingValue] = {
        "max_num_seqs": inputs.max_num_seqs,
        "max_num_batched_tokens": inputs.max_num_batched_tokens,
        "gpu_memory_utilization": inputs.gpu_memory_utilization,
        "kv_cache_memory_bytes": setup.wishes.kv_cap_bytes,
        "dtype": _DTYPES.get(inputs.dtype, inputs.dtype) or None,
        "kv_cache_dtype": _CACHES.get(inputs.kv_cache_dtype, inputs.kv_cache_dtype) or None,
        "enforce_eager": inputs.enforce_eager,
        "quantization": "fp8" if _other_weights(answer, inputs)[1] else None,
        "data_parallel_size": answer.split.attention_copies if answer.split.attention_copies > 1 else None,
        "enable_expert_parallel": True if answer.split.experts else None,
    }
    if inputs.max_model_len is not None or setup.max_model_len != setup.model.max_position_embeddings:
        found["max_model_len"] = setup.max_model_len
    return {name: value for name, value in found.items() if value is not None and _may_be(name, value)}


def _may_be(name: str, value: SettingValue) -> bool:
    choices = _CHOICES.get(name)
    return not choices or value in choices
