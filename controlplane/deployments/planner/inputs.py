"""A planner's question as plain values, checked: every wrong field is named, nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise

from controlplane.deployments.planner import points
from controlplane.deployments.planner.fields import (
    BY_NAME,
    DRAFTS,
    FLAGS,
    LONGEST_TEXT,
    LORA_RANKS,
    MEDIA,
    NUMBERS,
    PERCENTILES,
    TEXTS,
)
from controlplane.domain.capacity import recorded, trace_file
from controlplane.domain.capacity.recorded import Recorded
from controlplane.domain.footprint import engine_rules
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.measured import MeasuredPoint
from controlplane.domain.parallelism.question import PURPOSES

CODE = "planner"


@dataclass(frozen=True, slots=True)
class Inputs:
    """Set-up, workload and policy. None = not given: the engine's default, or whatever suits best.

    One of `variant`, `model` and `config` says which model; `safetensors` makes its weights exact. GiB are 2**30 bytes
    of one card, rates requests a second, lengths tokens: means, or percentiles in their place. `trace` has lengths and
    rates, of which given rates take the place. `points` were measured on the set-up; without any those of replicas of
    one's own teach, unless `own_measurements` is false. `…_a_card` are measured too, and make
    the capacity.
    """

    variant: str = ""
    model: str = ""
    config: Mapping[str, object] | None = None
    safetensors: object | None = None
    gpu: str = ""
    pool: str = ""
    gpu_memory_total_gib: float | None = None
    cards_per_node: int = 1
    nodes: int = 1
    link_group: int | None = None
    price_per_hour: float | None = None
    dtype: str = ""
    quantization: str = ""
    kv_cache_dtype: str = ""
    vllm_version: str = ""
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    attention_copies: int | None = None
    expert_parallel: bool | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    block_size: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_gib: float | None = None
    enforce_eager: bool | None = None
    foreign_gib: float | None = None
    reserve_gib: float | None = None
    cpu_offload_gib: float | None = None
    speculative: str = ""
    speculative_tokens: int | None = None
    draft_model: str = ""
    max_loras: int | None = None
    max_lora_rank: int | None = None
    media: str = ""
    input_tokens: float | None = None
    input_p50: float | None = None
    input_p95: float | None = None
    input_p99: float | None = None
    output_tokens: float | None = None
    output_p50: float | None = None
    output_p95: float | None = None
    output_p99: float | None = None
    trace: Recorded | None = None
    purpose: str = "interactive"
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    peak_requests_per_s: float | None = None
    mean_requests_per_s: float | None = None
    requests_per_s_a_card: float | None = None
    tokens_per_s_a_card: float | None = None
    safety_factor: float = 0.8
    utilization_target: float = 0.6
    hot_share: float = 0.7
    survive_node_loss: bool = True
    points: tuple[MeasuredPoint, ...] = ()
    own_measurements: bool = True

    @property
    def split_was_given(self) -> bool:
        """Whether any degree of parallelism was; whole experts or not is a choice among splits."""
        given = (self.tensor_parallel, self.pipeline_parallel, self.attention_copies)
        return any(one is not None for one in given)

    def percentiles(self, side: str) -> dict[int, float]:
        """The given percentiles of `input` or `output`: percentile -> tokens."""
        found = {percentile: getattr(self, f"{side}_p{percentile}") for percentile in PERCENTILES}
        return {percentile: tokens for percentile, tokens in found.items() if tokens is not None}


NAMES = tuple(one.name for one in fields(Inputs))


def read(values: Mapping[str, object]) -> Inputs:
    """The question. Names that are not of it are ignored. Raises RefusedError naming each field that can't be."""
    bounds = Bounds(CODE)
    found: dict[str, object] = {}
    for number in NUMBERS:
        value = values.get(number.name)
        if value is None:
            continue
        if number.whole:
            bounds.count(number.name, value, int(number.least), int(number.most))
        else:
            bounds.number(number.name, value, number.least, number.most, above=number.above)
        found[number.name] = value
    for name in TEXTS:
        value = values.get(name)
        if value is None or value == "":
            continue
        if not isinstance(value, str) or len(value) > LONGEST_TEXT:
            bounds.refuse(name, value, f"a text of up to {LONGEST_TEXT} characters")
        found[name] = value.strip() if isinstance(value, str) else value
    for name in FLAGS:
        if values.get(name) is not None:
            bounds.flag(name, values[name])
            found[name] = values[name]
    _check_files(values, bounds, found)
    if values.get("points") not in (None, "", []):
        found["points"] = points.read(values["points"], bounds)
    if found.get("purpose", "interactive") not in PURPOSES:
        bounds.refuse("purpose", found["purpose"], " or ".join(PURPOSES))
    if not found.get("gpu") and "gpu" not in bounds.wrong:
        bounds.refuse("gpu", None, 'a card such as "H100 80GB"')
    version = found.get("vllm_version")
    if isinstance(version, str) and engine_rules.parse_version(version) is None:
        bounds.refuse("vllm_version", version, "a version such as 0.32")
    _check_one_model(bounds, found)
    _check_split(bounds, found)
    _check_rates(bounds, found)
    _check_extras(bounds, found)
    for side in ("input", "output"):
        _check_lengths(bounds, found, side)
    bounds.settle()
    return Inputs(**found)  # type: ignore[arg-type]


def _check_files(values: Mapping[str, object], bounds: Bounds, found: dict[str, object]) -> None:
    config = values.get("config")
    if config is not None:
        if not isinstance(config, Mapping):
            bounds.refuse("config", config, "a JSON object, the config.json of a model")
        found["config"] = config
    files = values.get("safetensors")
    if files is not None:
        if not isinstance(files, Mapping | list):
            bounds.refuse("safetensors", files, "an index (model.safetensors.index.json), or headers")
        found["safetensors"] = files
    trace = values.get("trace")
    if trace is None or trace == "":
        return
    if isinstance(trace, str):
        found["trace"] = trace_file.read(trace)
    elif isinstance(trace, Mapping):
        found["trace"] = recorded.read(trace)
    else:
        bounds.refuse("trace", trace, "a trace as text, or what an earlier answer says of it")


def _check_one_model(bounds: Bounds, found: Mapping[str, object]) -> None:
    given = [name for name in ("variant", "model", "config") if found.get(name)]
    if not given and "config" not in bounds.wrong and found.get("config") is None:
        bounds.refuse("model", None, "the name of a well-known model, or variant, or config")
    if len(given) > 1:
        bounds.refuse(given[1], "given", f"left out where {given[0]} is given")


def _check_extras(bounds: Bounds, found: Mapping[str, object]) -> None:
    for name, choices in (("speculative", DRAFTS), ("media", MEDIA)):
        if found.get(name) and found[name] not in choices:
            bounds.refuse(name, found[name], f"one of {', '.join(choices)}, or left out")
    for name in ("speculative_tokens", "draft_model"):
        if found.get(name) and not found.get("speculative"):
            bounds.refuse(name, found[name], "left out without speculative")
    if "max_lora_rank" in found and found["max_lora_rank"] not in LORA_RANKS:
        bounds.refuse("max_lora_rank", found["max_lora_rank"], f"one of {', '.join(str(one) for one in LORA_RANKS)}")


def _check_rates(bounds: Bounds, found: Mapping[str, object]) -> None:
    if "requests_per_s_a_card" in found and "tokens_per_s_a_card" in found:
        right = "left out where requests_per_s_a_card is given"
        bounds.refuse("tokens_per_s_a_card", found["tokens_per_s_a_card"], right)


def _check_split(bounds: Bounds, found: Mapping[str, object]) -> None:
    copies = found.get("attention_copies", 1)
    if not isinstance(copies, int) or copies <= 1:
        return
    if found.get("expert_parallel") is False:
        bounds.refuse("expert_parallel", False, "true, or left out, where attention_copies is above 1")
    if found.get("pipeline_parallel", 1) != 1:
        bounds.refuse("attention_copies", copies, "1 where pipeline_parallel is above 1")


def _check_lengths(bounds: Bounds, found: Mapping[str, object], side: str) -> None:
    """One way to say a length: a mean, percentiles, or a trace that has it."""
    mean = f"{side}_tokens"
    names = [f"{side}_p{percentile}" for percentile in PERCENTILES]
    given = [name for name in names if name in found]
    if any(name in bounds.wrong for name in (mean, *names)):
        return
    trace = found.get("trace")
    if isinstance(trace, Recorded) and trace.input is not None:
        for name in (mean, *given):
            if name in found:
                bounds.refuse(name, found[name], "left out where a trace has the lengths")
        return
    if given and mean in found:
        bounds.refuse(mean, found[mean], "left out where percentiles are given")
    if given and names[0] not in found:
        bounds.refuse(names[0], None, "given where a higher percentile is")
    for lower, higher in pairwise(given):
        low, high = found[lower], found[higher]
        if isinstance(low, int | float) and isinstance(high, int | float) and high < low:
            bounds.refuse(higher, high, f"at least {low:g}, which is {lower}")


def usual(name: str) -> float | None:
    """What is taken for a number that is not given."""
    return BY_NAME[name].usual
