"""The memory ledger of a deployment: its model, its revision's settings and one make of accelerator in, a ledger out.

Guarantees
    What can't be known is said so, with the reason, and then whole accelerators are reserved; nothing is guessed.
    Learned corrections are applied and told with the number of starts that they come from.
Does not do
    Engines that hold no memory of their own (simulated ones) and endpoints elsewhere.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.catalog.models import Variant
from controlplane.deployments.models import Engine, LedgerRow
from controlplane.deployments.services import model_facts
from controlplane.domain.desired import SettingValue, attention_copies
from controlplane.domain.errors import RefusedError
from controlplane.domain.footprint import card_formats, cards, engine_rules
from controlplane.domain.footprint.cards import Card
from controlplane.domain.ledger import corrections, measured, one_request, result, setup
from controlplane.domain.ledger.corrections import Comparison, Correction, CorrectionKey
from controlplane.domain.ledger.measured import Measured
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.ledger.setup import Setup, Wishes
from controlplane.domain.parallelism import copy_ledger
from controlplane.domain.placement import Asked, Make
from controlplane.domain.specs import precision
from controlplane.domain.specs.model import ModelFacts
from controlplane.fleet.models import Accelerator
from engine_adapters.vllm import argv
from engine_adapters.vllm.settings import split_extra

GIB = 2**30
LEARNED_FROM = 50  # newest measured starts of a kind
USUAL_REQUEST_TOKENS = 2048  # where nobody has sent anything yet
# a ledger that misses by less than this share of the card leaves the decision to the engine itself
DOUBTFUL_SHARE = 0.03


@dataclass(frozen=True, slots=True)
class Known:
    """A ledger with what was learned, and without. `claim_bytes` is what a replica holds of each accelerator; None =
    it takes whole ones (groups of cores: their memory is the machine's)."""

    ledger: Ledger
    uncorrected: Ledger
    claim_bytes: int | None
    copies: int = 1  # groups of ranks in a replica that each have a cache of their own

    def ceiling(self, mean_request_tokens: int) -> int | None:
        """Requests of a mean length that a whole replica takes at once."""
        each = self.ledger.concurrency_ceiling(mean_request_tokens)
        return None if each is None else each * self.copies


@dataclass(frozen=True, slots=True)
class NotKnown:
    """There is no ledger, because …"""

    why: str


@dataclass(frozen=True, slots=True)
class Impossible:
    """The engine would refuse this at its start, whatever the memory."""

    why: str


Answer = Known | NotKnown | Impossible


def of_spec(
    variant: Variant | None, spec: Mapping[str, Any], make: Make, *, mean_request_tokens: int | None = None
) -> Answer:
    """Returns the ledger of a revision's spec on one make of accelerator (see `make_of_row`)."""
    if spec.get("engine") != Engine.VLLM:
        return NotKnown("Only vLLM's memory is worked out.")
    if make.kind == Accelerator.Kind.SIMULATED:
        return NotKnown("A simulated accelerator has no memory that an engine could fill.")
    known = model_facts.of_variant(variant, spec.get("model_path", ""))
    if isinstance(known, str):
        return NotKnown(f"{known[0].upper()}{known[1:]}.")
    try:
        asked = _setup(known, variant, spec, make, mean_request_tokens)
        uncorrected = result.work_out(asked)
        correction = correction_for(measured.key_of(uncorrected, Measured()))
        ledger = result.work_out(asked, correction) if correction.observations else uncorrected
    except RefusedError as error:
        if error.code == "parallelism":
            return Impossible(error.message)
        return NotKnown(error.message)
    return Known(ledger, uncorrected, _claim_bytes(ledger, make), attention_copies(spec.get("settings", {})))


def asked(variant: Variant | None, spec: Mapping[str, Any], make: Make) -> Asked:
    """Returns what placement wants to know: how much a replica takes of such an accelerator, or why it can't run."""
    found = of_spec(variant, spec, make)
    if isinstance(found, Impossible):
        return Asked(refusal=found.why)
    if isinstance(found, NotKnown):
        return Asked()
    card = found.ledger.setup.card
    price = card.facts.cost_per_hour if card.facts is not None else None
    support = precision.support(found.ledger.setup.precision, card.facts) if card.facts is not None else None
    if support is not None and support.level == "none":
        return Asked(refusal=support.why, support="none", price_per_hour=price)
    refusal = found.ledger.verdict.sentence if surely_too_small(found.ledger) else ""
    return Asked(found.claim_bytes, refusal, support.level if support is not None else "", price)


def surely_too_small(ledger: Ledger) -> bool:
    """Returns whether the engine will not start, by more than a ledger may be off."""
    if ledger.verdict.fits is not False:
        return False
    if ledger.verdict.reason in one_request.NEVER_STARTS:
        return True
    total, available = ledger.budget.total_bytes, ledger.budget.available_bytes
    if total is None or ledger.budget.capped or available is None:
        return True
    missing = ledger.needed_bytes - max(available, 0) if available > 0 else ledger.needed_bytes - available
    return missing > DOUBTFUL_SHARE * total


def correction_for(key: CorrectionKey) -> Correction:
    """Returns what measured starts of this engine version, accelerator and family teach."""
    rows = LedgerRow.objects.filter(
        engine_version=key.engine_version, accelerator=key.accelerator, family=key.family, measured_at__isnull=False
    ).order_by("-measured_at")
    return corrections.learn(
        Comparison(**one) for one in rows.values_list("uncorrected", flat=True)[:LEARNED_FROM] if one
    )


def make_of_row(row: Accelerator, engine: str) -> Make:
    """Returns what a ledger depends on, of an accelerator (with its node) for an engine."""
    return Make(row.kind, row.name, row.memory_total_bytes, row.node.engines.get(engine) or "")


def _claim_bytes(ledger: Ledger, make: Make) -> int | None:
    if make.kind != Accelerator.Kind.GPU or make.total_bytes is None:
        return None
    budget = ledger.budget
    if budget.capped or budget.requested_bytes is None:
        held = budget.held_bytes + budget.activation_bytes + max(0, budget.available_bytes or 0)
        if ledger.setup.wishes.utilization is not None:  # that much has to be free when it starts, cap or not
            held = max(held, budget.requested_bytes or 0)
    else:
        held = budget.requested_bytes + (0 if budget.graphs_inside else budget.graphs_bytes)
    return max(1, min(held, make.total_bytes))


def _setup(
    known: model_facts.Known, variant: Variant | None, spec: Mapping[str, Any], make: Make, mean: int | None
) -> Setup:
    settings: Mapping[str, SettingValue] = spec.get("settings", {})
    card = _card(make)
    rules = engine_rules.rules_for(make.engine_version or None, capability=card_formats.capability_of(card.facts))
    kinds = precision.parse(
        _text(settings, "dtype") or model_facts.dtype_of(known, variant),
        _text(settings, "quantization") or model_facts.quantization_of(known, variant),
        _text(settings, "kv_cache_dtype"),
        known.facts,
        takes_cache_of_files=rules.takes_cache_of_files,
    )
    _check_experts(known.facts, settings)
    asked = _wishes(settings, spec, make, mean)
    facts, wishes = copy_ledger.with_copies(known.facts, asked, rules, attention_copies(settings))
    return setup.resolve(facts, kinds, card, rules, wishes)


def _check_experts(facts: ModelFacts, settings: Mapping[str, SettingValue]) -> None:
    """What the engine itself refuses at its start."""
    if settings.get("enable_expert_parallel") is True and facts.experts is None:
        right = "left out: this model has no experts"
        sentence = "This model has no experts that could be placed on ranks: leave enable_expert_parallel out."
        raise RefusedError("parallelism", sentence, fields={"enable_expert_parallel": right})


def _card(make: Make) -> Card:
    if make.kind == Accelerator.Kind.CPU:
        return Card(f"cpu {make.name}", None)
    return cards.resolve(make.name, None if make.total_bytes is None else make.total_bytes / GIB)


def _wishes(settings: Mapping[str, SettingValue], spec: Mapping[str, Any], make: Make, mean: int | None) -> Wishes:
    extra = _options(str(settings.get("extra_args") or ""))
    is_cpu = make.kind == Accelerator.Kind.CPU
    cap = argv.cpu_cache_gib(settings) * GIB if is_cpu else _whole(settings, "kv_cache_memory_bytes")
    length = _whole(settings, "max_model_len")
    return Wishes(
        tensor_parallel=spec.get("tensor_parallel", 1),
        pipeline_parallel=spec.get("pipeline_parallel", 1),
        expert_parallel=settings.get("enable_expert_parallel") is True,
        utilization=None if is_cpu else _number(settings, "gpu_memory_utilization"),
        max_model_len=length,
        max_num_seqs=_whole(settings, "max_num_seqs"),
        max_num_batched_tokens=_whole(settings, "max_num_batched_tokens"),
        enforce_eager=bool(settings.get("enforce_eager")),
        block_size=_whole(settings, "block_size"),
        multimodal=_media(extra),
        speculative=_speculative(extra.get("speculative-config", "")),
        cpu_offload_bytes=round(_float(extra.get("cpu-offload-gb")) * GIB),
        kv_cap_bytes=cap,
        kv_cap_share=None if cap is not None else _number(settings, "kv_cache_memory_share"),
        adapters=_adapters(extra),
        adapter_rank=int(_float(extra.get("max-lora-rank")) or 16),
        mean_request_tokens=mean,
        overrides_config=any(name.startswith(("hf-overrides", "rope-scaling")) for name in extra),
    )


def _adapters(extra: Mapping[str, str]) -> int:
    return int(_float(extra.get("max-loras")) or 1) if "enable-lora" in extra else 0


def _media(extra: Mapping[str, str]) -> bool | None:
    """False where no picture may be sent, so that none is profiled; None = as the model."""
    limits = _object(extra.get("limit-mm-per-prompt", ""))
    return False if limits and not any(limits.values()) else None


def _object(text: str) -> Mapping[str, object] | None:
    try:
        config = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None
    return config if isinstance(config, Mapping) else None


def _speculative(text: str) -> str | None:
    config = _object(text)
    if config is None:
        return None
    words = (config.get("method", "draft"), config.get("model", ""), config.get("num_speculative_tokens", 1))
    return " ".join(str(word)[:200] for word in words if word)


def _options(text: str) -> dict[str, str]:
    """Further arguments by name, a switch as the empty text."""
    try:
        words = split_extra(text)
    except ValueError:
        return {}
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            name = name.replace("_", "-").lower()
            found[name] = value
        elif name:
            found[name] = word
    return found


def _float(text: str | None) -> float:
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) and 0 <= number < 1e6 else 0.0


def _text(settings: Mapping[str, SettingValue], name: str) -> str | None:
    value = settings.get(name)
    return value if isinstance(value, str) and value not in ("", "auto") else None


def _whole(settings: Mapping[str, SettingValue], name: str) -> int | None:
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(settings: Mapping[str, SettingValue], name: str) -> float | None:
    value = settings.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
