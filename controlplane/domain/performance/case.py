"""A published measurement or a question, read from the fields of a case: model, set-up, load.

Raises RefusedError naming the field. What was not given and had to be assumed stands in `assumptions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger import setup as setup_checks
from controlplane.domain.performance import assumed_model, classes, fields, number_formats
from controlplane.domain.performance.fields import Case
from controlplane.domain.performance.setup import (
    USUAL_INPUT_TOKENS,
    USUAL_OUTPUT_TOKENS,
    LoadMode,
    Setup,
    Workload,
)
from controlplane.domain.specs import accelerators
from controlplane.domain.specs.accelerator import AcceleratorFacts
from controlplane.domain.specs.model import ModelFacts

FindModel = Callable[[str], ModelFacts | None]

MOST_CARDS = 100_000
MOST_TOKENS = 20_000_000
MOST_REQUESTS = 1_000_000
LOAD_MODES: tuple[LoadMode, ...] = ("closed_loop", "open_loop", "burst", "max_load")


@dataclass(frozen=True, slots=True)
class Question:
    """One case, understood."""

    series_id: str | None
    model: ModelFacts
    setup: Setup
    weights: number_formats.WeightFormat
    load: Workload
    mode: LoadMode
    concurrency: float | None
    requests_per_s: float | None
    requests: float | None
    assumptions: tuple[str, ...] = field(default=())


def read(case: Case, find_model: FindModel) -> Question:
    """The question a case asks."""
    notes: list[str] = []
    model = _model(case, find_model, notes)
    setup, weights = _setup(case, model, notes)
    mode = _mode(case)
    concurrency = fields.number(case, "concurrency", 1, MOST_REQUESTS)
    rate = fields.number(case, "request_rate", 1e-6, 1e6)
    requests = fields.number(case, "num_requests", 1, 1e9)
    load = _load(case, requests, notes)
    notes.extend(_notes(setup, weights, model, load))
    if concurrency is None and mode == "closed_loop":
        concurrency = _missing_concurrency(case, notes)
    return Question(
        series_id=fields.text(case, "series_id"),
        model=model,
        setup=setup,
        weights=weights,
        load=load,
        mode=mode,
        concurrency=concurrency,
        requests_per_s=rate,
        requests=requests,
        assumptions=(*model.assumptions, *notes),
    )


def _missing_concurrency(case: Case, notes: list[str]) -> float:
    notes.append("No concurrency was given; one request at a time is assumed.")
    return 1.0


def _mode(case: Case) -> LoadMode:
    given = fields.text(case, "load_mode")
    for mode in LOAD_MODES:
        if given == mode:
            return mode
    if given is not None:
        fields.refuse("load_mode", given, "one of " + ", ".join(LOAD_MODES))
    return "open_loop" if case.get("concurrency") is None and case.get("request_rate") is not None else "closed_loop"


def _model(case: Case, find_model: FindModel, notes: list[str]) -> ModelFacts:
    name = fields.text(case, "model")
    parameters = fields.number(case, "params_b", 1e-3, 1e5)
    active = fields.number(case, "active_params_b", 1e-3, 1e5)
    if active is not None and parameters is not None and active > parameters * 1.01:
        fields.refuse("active_params_b", active, f"at most params_b ({parameters:g})")
    known = find_model(name) if name else None
    if known is not None and known.pools:
        fields.refuse("model", name, "a model that writes: this one answers with a vector or a score, not with tokens")
    if known is not None:
        return known
    if parameters is None:
        if name is None:
            fields.refuse("model", None, "the name of a known model, or params_b beside it")
        fields.refuse("model", name, "a known model, or any name with params_b (billions of parameters) beside it")
    return assumed_model.of(name or "unnamed", parameters * 1e9, (active or parameters) * 1e9)


def _setup(case: Case, model: ModelFacts, notes: list[str]) -> tuple[Setup, number_formats.WeightFormat]:
    name = fields.text(case, "gpu")
    if name is None:
        fields.refuse("gpu", case.get("gpu"), "the name of an accelerator, such as H100-SXM")
    card = accelerators.find(name)
    if card is None:
        fields.refuse("gpu", name, "an accelerator that is known, such as H100-SXM, A100-SXM-80GB or L40S")
    text = fields.text(case, "dtype")
    quantization = fields.text(case, "quantization")
    weights = number_formats.parse(quantization or text or _format_in_name(case), model)
    if weights is None:
        fields.refuse("dtype", quantization or text, "a weight format such as bf16, fp8, int4-awq, mxfp4 or nvfp4")
    kv_format = fields.text(case, "kv_cache_dtype") or "auto"
    kv_format = kv_format.split(" ")[0].lower()
    if number_formats.kv_bytes(kv_format) is None:
        fields.refuse("kv_cache_dtype", kv_format, "one of " + ", ".join(number_formats.KV_BYTES))
    split = _split(case, card.link_group or 1, model, notes)
    engine = fields.text(case, "engine")
    if engine is None:
        notes.append("The engine was not given; coefficients are those of an average engine.")
    setup = Setup(
        accelerator=card,
        tensor_parallel=split.tensor,
        pipeline_parallel=split.pipeline,
        data_parallel=split.copies,
        attention_parallel=split.attention,
        expert_parallel=split.experts,
        engine=engine or "unknown",
        engine_version=fields.text(case, "engine_version"),
        weight_format=weights.name,
        kv_format=kv_format,
        kv_narrow=case.get("kv_cache_dtype") is None and _narrow_cache(card, weights, notes),
        speculative=fields.flag(case, "speculative"),
        max_num_seqs=fields.count(case, "max_num_seqs", MOST_REQUESTS),
        max_num_batched_tokens=fields.count(case, "max_num_batched_tokens", MOST_TOKENS) or 8192,
        eager=fields.flag(case, "enforce_eager"),
    )
    return setup, weights


def _narrow_cache(card: AcceleratorFacts, weights: number_formats.WeightFormat, notes: list[str]) -> bool:
    """Whether an unstated cache is more likely FP8: published runs of narrow weights on Blackwell use it."""
    if weights.width == 16 or not card.fp4_flops:
        return False
    notes.append("The format of the KV cache was not given; FP8 is assumed, as usual for narrow weights on this card.")
    return True


def _format_in_name(case: Case) -> str | None:
    """The format that a model's name ends with, such as -FP8 or -AWQ."""
    name = (fields.text(case, "model") or "").lower()
    for word, meaning in (("nvfp4", "nvfp4"), ("mxfp4", "mxfp4"), ("fp8", "fp8"), ("awq", "int4"), ("gptq", "int4"),
                          ("int4", "int4"), ("w4a16", "int4"), ("w8a8", "int8"), ("int8", "int8")):  # fmt: skip
        if word in name:
            return meaning
    return None


@dataclass(frozen=True, slots=True)
class _Split:
    tensor: int
    pipeline: int
    copies: int
    attention: int
    experts: bool


def _split(case: Case, link_group: int, model: ModelFacts, notes: list[str]) -> _Split:
    """Degrees of parallelism. Data-parallel ranks of a mixture with expert parallelism share their experts."""
    cards = fields.count(case, "gpu_count", MOST_CARDS)
    pipeline = fields.degree(case, "pp", MOST_CARDS)
    data = fields.degree(case, "dp", MOST_CARDS)
    experts = fields.degree(case, "ep", MOST_CARDS)
    if case.get("tp") is None:
        tensor = max(1, (cards or pipeline * data) // (pipeline * data))
    else:
        tensor = fields.degree(case, "tp", MOST_CARDS)
    if cards is not None and pipeline > cards:
        fields.refuse("pp", pipeline, f"at most gpu_count ({cards})")
    if cards is not None and tensor * pipeline > cards:
        fields.refuse("tp", tensor, f"at most gpu_count ({cards}) divided by pp ({pipeline})")
    if tensor > link_group > 1 and experts > 1 and tensor % experts == 0 and tensor // experts >= experts:
        notes.append(f"tp {tensor} with ep {experts} spans more cards than one fabric joins: read as their product.")
        tensor //= experts
        cards = None
    _check(tensor, pipeline, model, given=case.get("tp") is not None)
    if cards is not None and data > 1 and tensor * pipeline * data > cards and tensor % data:
        notes.append(f"tp {tensor} x pp {pipeline} x dp {data} is more than the {cards} cards: dp was left out.")
    total = cards if cards is not None else tensor * pipeline * (data if data <= tensor else 1)
    ranks = tensor * pipeline
    if data > 1 and ranks * data <= total and model.experts is not None and experts > 1:
        return _Split(tensor * data, pipeline, max(1, total // (ranks * data)), data, True)
    if data > 1 and ranks * data > total and tensor % data == 0:
        return _Split(tensor, pipeline, max(1, total // ranks), data, experts > 1)
    return _Split(tensor, pipeline, max(1, total // ranks), 1, experts > 1)


def _check(tensor: int, pipeline: int, model: ModelFacts, *, given: bool) -> None:
    """Refuses what the engine refuses. Models with experts may be spread by experts instead of by heads."""
    if model.experts is not None or not model.num_attention_heads:
        return
    try:
        setup_checks.check_split(model, tensor if given else 1, pipeline)
    except RefusedError as refused:
        named = {"tensor_parallel": "tp", "pipeline_parallel": "pp"}
        wrong = {named.get(field, field): right for field, right in refused.fields.items()}
        hint = "; ".join(f"{field}: {right}" for field, right in wrong.items())
        raise RefusedError(fields.CODE, refused.message, hint=hint, fields=wrong) from refused


def _notes(setup: Setup, weights: number_formats.WeightFormat, model: ModelFacts, load: Workload) -> list[str]:
    """What such a set-up would not start with, or was summed up without knowing."""
    found = []
    held = model.parameters * weights.width / 8 / (setup.tensor_parallel * setup.pipeline_parallel)
    if held > setup.accelerator.memory_bytes:
        found.append(
            f"It does not fit: about {held / 1e9:.0f} GB of weights a card are more than the "
            f"{setup.accelerator.memory_bytes / 1e9:.0f} GB of {setup.accelerator.name}."
        )
    limit, length = model.max_position_embeddings, load.input_tokens + load.output_tokens
    if limit is not None and length > limit:
        found.append(f"Requests of {length:.0f} tokens are longer than the model's own limit of {limit}.")
    if setup.engine != "unknown" and classes.engine(setup) == "unknown":
        found.append(f"The engine {setup.engine[:40]} is not known; coefficients are those of an average engine.")
    return found


def _load(case: Case, requests: float | None, notes: list[str]) -> Workload:
    """Mean lengths: measured ones before nominal ones."""

    def tokens(measured: str, nominal: str, usual: float) -> float:
        known = fields.number(case, measured, 0.5, MOST_TOKENS) or fields.number(case, nominal, 1, MOST_TOKENS)
        if known is None:
            notes.append(f"{nominal} was not given; {usual:.0f} tokens, the mean of ShareGPT, are assumed.")
        return usual if known is None else known

    prompt = tokens("input_len_mean", "input_len", USUAL_INPUT_TOKENS)
    answer = tokens("output_len_mean", "output_len", USUAL_OUTPUT_TOKENS)
    return Workload(input_tokens=prompt, output_tokens=max(1.0, answer), requests=requests)
