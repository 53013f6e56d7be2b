"""A planner's question as plain values, checked: every wrong field is named, nothing is guessed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from controlplane.deployments.planner.fields import BY_NAME, FLAGS, LONGEST_TEXT, NUMBERS, TEXTS
from controlplane.domain.footprint import engine_rules
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.question import PURPOSES

CODE = "planner"


@dataclass(frozen=True, slots=True)
class Inputs:
    """Set-up, workload and policy. None = not given: the engine's default, or whatever suits best.

    One of `variant`, `model` and `config` says which model; `safetensors` makes its weights exact. GiB are 2**30 bytes
    of one card, rates requests a second, lengths means in tokens.
    """

    variant: str = ""
    model: str = ""
    config: Mapping[str, object] | None = None
    safetensors: object | None = None
    gpu: str = ""
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
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    gpu_memory_utilization: float | None = None
    kv_cache_memory_gib: float | None = None
    enforce_eager: bool | None = None
    foreign_gib: float | None = None
    reserve_gib: float | None = None
    input_tokens: float = 1000
    output_tokens: float = 300
    purpose: str = "interactive"
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    peak_requests_per_s: float | None = None
    mean_requests_per_s: float | None = None
    safety_factor: float = 0.8
    utilization_target: float = 0.6
    hot_share: float = 0.7
    survive_node_loss: bool = True


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
    if found.get("purpose", "interactive") not in PURPOSES:
        bounds.refuse("purpose", found["purpose"], " or ".join(PURPOSES))
    if not found.get("gpu") and "gpu" not in bounds.wrong:
        bounds.refuse("gpu", None, 'a card such as "H100 80GB"')
    version = found.get("vllm_version")
    if isinstance(version, str) and engine_rules.parse_version(version) is None:
        bounds.refuse("vllm_version", version, "a version such as 0.32")
    _check_one_model(bounds, found)
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


def _check_one_model(bounds: Bounds, found: Mapping[str, object]) -> None:
    given = [name for name in ("variant", "model", "config") if found.get(name)]
    if not given and "config" not in bounds.wrong and found.get("config") is None:
        bounds.refuse("model", None, "the name of a well-known model, or variant, or config")
    if len(given) > 1:
        bounds.refuse(given[1], "given", f"left out where {given[0]} is given")


def usual(name: str) -> float | None:
    """What is taken for a number that is not given."""
    return BY_NAME[name].usual
