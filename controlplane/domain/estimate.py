"""A memory estimate from a plain description of a set-up: a case in, a prediction out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from controlplane.domain import estimate_assumptions
from controlplane.domain.errors import RefusedError
from controlplane.domain.footprint import card_formats, cards, engine_rules, launchers, widths
from controlplane.domain.footprint.cards import Card
from controlplane.domain.footprint.engine_rules import EngineRules, Version
from controlplane.domain.ledger import one_request, result, setup
from controlplane.domain.ledger.corrections import NO_CORRECTION, Correction
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.ledger.setup import Setup, Wishes
from controlplane.domain.specs import architecture, fields, formats, known_models, precision
from controlplane.domain.specs.families import encoder_decoders
from controlplane.domain.specs.fields import Fields
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.precision import Precision

GIB = 2**30
_LARGEST_GIB = 1_000_000.0
_USUAL_SEQUENCES = 256
_SMALLEST_CARD_GIB, _LARGEST_CARD_GIB = 0.5, 4096.0
_LARGEST_RANKS = 4096
_QUANTIZED_WORDS = frozenset((
    "awq", "gptq", "fp8", "nvfp4", "mxfp4", "mxfp8", "int4", "int8", "w4a16", "w8a8", "w8a16", "bnb", "nf4", "4bit",
    "8bit",
))  # fmt: skip
# families that came with a later engine; without a version a set-up of theirs is a recent one
_YOUNG_FAMILIES: tuple[tuple[str, Version], ...] = (
    ("gated", (0, 19, 0)),
    ("qwen3_5", (0, 19, 0)),
    ("qwen3_6", (0, 19, 0)),
    ("gemma4", (0, 19, 0)),
    ("deepseek_v4", (0, 19, 0)),
)


def estimate(case: Mapping[str, object]) -> dict[str, object]:
    """The prediction for a case. Raises RefusedError naming the field that is missing or can't be."""
    return answer(case, ledger_of(case))


def ledger_of(case: Mapping[str, object], correction: Correction = NO_CORRECTION) -> Ledger:
    """The whole ledger of a case."""
    asked = read_setup(case)
    ledger = result.work_out(asked, correction)
    smaller = _with_smaller_batch(asked, ledger)
    return ledger if smaller is None else result.work_out(smaller, correction)


def _with_smaller_batch(asked: Setup, ledger: Ledger) -> Setup | None:
    """The set-up with a usual batch, where a large card's default leaves too little and no batch was given.

    Sampling for 1024 requests with a large vocabulary takes 5 to 10 GiB: who fills a card with weights lowers it.
    """
    given = asked.wishes.max_num_seqs is not None or asked.max_num_seqs <= _USUAL_SEQUENCES
    never = ledger.verdict.reason in one_request.NEVER_STARTS
    if given or never or ledger.budget.capped or ledger.verdict.fits is not False:
        return None
    note = f"With {asked.max_num_seqs} requests at once the cache is too small; {_USUAL_SEQUENCES} were taken."
    wishes = replace(asked.wishes, max_num_seqs=_USUAL_SEQUENCES, notes=(*asked.wishes.notes, note))
    return setup.resolve(asked.model, asked.precision, asked.card, asked.rules, wishes)


def refusal(case: object, error: RefusedError) -> dict[str, object]:
    """A case that can't be answered, as it is printed."""
    case_id = case_id_of(case) if isinstance(case, Mapping) else None
    return {"case_id": case_id, "error": {"code": error.code, "message": error.message, "fields": error.fields}}


def case_id_of(case: Mapping[str, object]) -> int | str | None:
    """The case's name as it was given, where it is one."""
    given = case.get("case_id")
    return given if isinstance(given, int | str) else None


def answer(case: Mapping[str, object], ledger: Ledger) -> dict[str, object]:
    """The prediction as it is printed: GiB of 2**30 bytes, of one accelerator."""
    budget = ledger.budget
    concurrency = ledger.concurrency(ledger.setup.max_model_len)
    return {
        "case_id": case_id_of(case),
        "weights_gib": _gib(budget.weights_bytes + budget.adapter_bytes),
        "kv_bytes_per_token": round(ledger.kv_bytes_per_token, 2),
        "non_torch_gib": _gib(budget.non_torch_bytes),
        "activation_peak_gib": _gib(budget.activation_bytes),
        "cudagraph_gib": _gib(budget.graphs_bytes),
        "kv_cache_gib": _gib(budget.available_bytes),
        "kv_cache_tokens": ledger.tokens,
        "gpu_blocks": ledger.blocks,
        "max_concurrency": None if concurrency is None else round(concurrency, 2),
        "fits": ledger.verdict.fits,
        "needed_gib": round(ledger.needed_bytes / GIB, 6),
        "estimated_max_len": ledger.longest_tokens,
        "reason": ledger.verdict.sentence,
        "advice": [advice.sentence for advice in ledger.advice],
        "assumptions": [*ledger.assumptions, *estimate_assumptions.unsaid(case, ledger.setup, ledger.layout)],
    }


def read_setup(case: Mapping[str, object]) -> Setup:
    """The set-up that a case describes; null = not known."""
    given = Fields(case, code="estimate")
    facts = _model(given)
    wishes = _wishes(given)
    total_gib = given.ratio("gpu_memory_total_gib", most=_LARGEST_CARD_GIB)
    if total_gib is not None and total_gib < _SMALLEST_CARD_GIB:
        right = f"GiB of one accelerator, from {_SMALLEST_CARD_GIB} to {_LARGEST_CARD_GIB:g}"
        raise given.refuse("gpu_memory_total_gib", total_gib, right)
    card = cards.resolve(given.text("gpu") or None, total_gib, needed=wishes.kv_cap_bytes is None)
    rules = _rules(given, facts, wishes, card)
    kinds = precision.parse(
        given.text("dtype") or None,
        given.text("quantization") or None,
        given.text("kv_cache_dtype") or None,
        facts,
        takes_cache_of_files=rules.takes_cache_of_files,
    )
    wishes = _with_ranks(given, wishes, facts, kinds, rules)
    wishes = _with_launcher(given, wishes, facts, kinds, card)
    return setup.resolve(facts, kinds, card, rules, replace(wishes, notes=(*wishes.notes, *_other_engine(given))))


def _other_engine(given: Fields) -> tuple[str, ...]:
    """What is said of an engine whose memory follows other rules than vLLM's, V0 or V1."""
    name = given.text("engine").strip()
    if name.upper() in ("", "V0", "V1", "VLLM", "VLLM V0", "VLLM V1"):
        return ()
    return (f"The engine {fields.shown(name)} was summed up by the rules of vLLM; its own ones are not known here.",)


def _with_launcher(given: Fields, wishes: Wishes, facts: ModelFacts, kinds: Precision, card: Card) -> Wishes:
    """Unsloth's own 4-bit files are nearly always started by Unsloth, inside a training."""
    name = given.text("model").lower()
    if "unsloth" not in name or not kinds.weights.name.startswith("bnb") or wishes.max_num_seqs is not None:
        return wishes
    if wishes.utilization is None or card.total_bytes is None:
        return wishes
    preset = launchers.unsloth(round(card.total_bytes * wishes.utilization), kinds.weight_bytes(facts))
    return replace(
        wishes,
        max_num_seqs=preset.max_num_seqs,
        max_num_batched_tokens=wishes.max_num_batched_tokens or wishes.max_model_len,
        adapters=preset.adapters,
        adapter_rank=preset.adapter_rank,
        notes=(*wishes.notes, preset.assumption),
    )


def _model(given: Fields) -> ModelFacts:
    """Facts from `architecture`, or by the model's name; a table's exact counts go before rounded ones."""
    name = given.text("model")
    described = given.values.get("architecture")
    known = known_models.find(name) if name else None
    if described is None:
        if known is not None:
            return known
        refused = encoder_decoders.refusal_by_name(name)
        if refused is not None:
            raise refused
        right = "an object with total_params, num_hidden_layers, hidden_size, num_attention_heads, head_dim …"
        if not name:
            raise given.missing("model", f"the name of a well-known model, or architecture: {right}")
        raise RefusedError(
            "unknown_model",
            f"{fields.shown(name)} is not a model that is known here.",
            hint=f"architecture: {right}",
            fields={"architecture": right, "model": "the name of a well-known model"},
        )
    if not isinstance(described, Mapping):
        raise given.refuse("architecture", described, "an object with total_params, num_hidden_layers …")
    facts = architecture.read(described, name=name)
    setup.check_split(facts, 1, 1)
    if known is not None and _is_same(known, facts):
        return known
    return facts if facts.quantization else replace(facts, quantization=_said_quantization(name))


def _kept(facts: ModelFacts) -> dict[str, int]:
    """Layers that keep something for a request, by kind."""
    found: dict[str, int] = {}
    for layer in facts.layers:
        if layer.count and layer.kind not in ("none", "encoder", "cross", "beside"):
            found[layer.kind] = found.get(layer.kind, 0) + layer.count
    return found


def _said_quantization(name: str) -> str | None:
    """What a model's name says of its files: `acme/Foo-14B-AWQ`. None where it says nothing."""
    said = [word for word in re.split(r"[^a-z0-9]+", name.lower().replace("-bit", "bit")) if word in _QUANTIZED_WORDS]
    found = formats.named(" ".join(said)) if said else None
    return found.name if found is not None else None


def _is_same(known: ModelFacts, described: ModelFacts) -> bool:
    """Whether a description is of the model that its name means: every width that it gives agrees."""
    pairs = (
        (known.num_hidden_layers, described.num_hidden_layers),
        (known.hidden_size, described.hidden_size),
        (known.num_attention_heads, described.num_attention_heads),
        (known.vocab_size, described.vocab_size),
    )
    same = all(not given or table == given for table, given in pairs)
    same = same and _kept(known) == _kept(described)
    return same and abs(known.parameters / described.parameters - 1) < 0.05


def _rules(given: Fields, facts: ModelFacts, wishes: Wishes, card: Card) -> EngineRules:
    version = given.values.get("vllm_version")
    text = given.text("vllm_version") if version is not None else ""
    if not engine_rules.names_a_build(text):
        raise given.refuse("vllm_version", text, "a version such as 0.11.0, or null where it is not known")
    oldest = max((young for name, young in _YOUNG_FAMILIES if name in facts.family), default=(0, 0, 0))
    return engine_rules.rules_for(
        text,
        given.text("engine"),
        utilization=wishes.utilization,
        oldest_for_model=oldest,
        capability=card_formats.capability_of(card.facts),
    )


def _wishes(given: Fields) -> Wishes:
    cap = given.ratio("kv_cache_memory_gib", most=_LARGEST_GIB)
    free = given.ratio("free_memory_at_start_gib", most=_LARGEST_GIB)
    offload = _not_negative(given, "cpu_offload_gb")
    eager = given.values.get("enforce_eager")
    multimodal = given.values.get("multimodal")
    return Wishes(
        tensor_parallel=given.number("tensor_parallel", most=_LARGEST_RANKS),
        pipeline_parallel=given.number("pipeline_parallel", most=_LARGEST_RANKS),
        expert_parallel=given.values.get("expert_parallel") is True,
        utilization=given.ratio("gpu_memory_utilization", most=1.0),
        max_model_len=given.number("max_model_len", most=fields.LARGEST_LENGTH),
        max_num_seqs=given.number("max_num_seqs", most=1_000_000),
        max_num_batched_tokens=given.number("max_num_batched_tokens", most=fields.LARGEST_LENGTH),
        enforce_eager=None if eager is None else given.flag("enforce_eager", False),
        block_size=given.number("block_size", most=1_000_000),
        multimodal=multimodal if isinstance(multimodal, bool) else given.text("multimodal") or _described_images(given),
        speculative=given.text("speculative") or None,
        cpu_offload_bytes=round(offload * GIB),
        kv_cap_bytes=None if cap is None else round(cap * GIB),
        free_bytes=None if free is None else round(free * GIB),
        length_must_fit=False,
        ranks_must_be_known=False,
    )


def _described_images(given: Fields) -> bool | None:
    """Whether a short architecture says that the model takes images."""
    described = given.values.get("architecture")
    return True if isinstance(described, Mapping) and described.get("multimodal") is True else None


def _with_ranks(given: Fields, wishes: Wishes, facts: ModelFacts, kinds: Precision, rules: EngineRules) -> Wishes:
    """All cards work together where nothing else is said, as far as they divide heads and widths."""
    gpus = given.number("num_gpus", most=_LARGEST_RANKS)
    ranks = (wishes.tensor_parallel or 1) * (wishes.pipeline_parallel or 1)
    if gpus is not None and ranks > gpus:
        right = f"at least {ranks}: tensor_parallel times pipeline_parallel"
        raise given.refuse("num_gpus", gpus, right)
    if wishes.tensor_parallel is not None or gpus is None:
        return wishes
    most = max(1, gpus // (wishes.pipeline_parallel or 1))
    whole = wishes.expert_parallel
    ranks = next(
        (
            ranks
            for ranks in range(most, 1, -1)
            if setup.divides(facts, ranks)
            and not widths.refusal(facts, kinds, rules, tensor_parallel=ranks, whole_experts=whole)
        ),
        1,
    )
    note = f"tensor_parallel is not given; {ranks} was taken, of {gpus} cards."
    return replace(wishes, tensor_parallel=ranks, notes=(*wishes.notes, note))


def _not_negative(given: Fields, name: str) -> float:
    value = given.values.get(name)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LARGEST_GIB:
        raise given.refuse(name, value, f"a number from 0 to {_LARGEST_GIB:g}")
    return float(value)


def _gib(size: int | None) -> float | None:
    return None if size is None else round(size / GIB, 4)
