"""From a checked question to what the domain is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from controlplane.deployments.planner.fields import USUAL_DRAFT_TOKENS, USUAL_LORA_RANK
from controlplane.deployments.planner.inputs import CODE, Inputs
from controlplane.deployments.planner.subject import Subject
from controlplane.deployments.planner.workload import Asked
from controlplane.deployments.services import fleet_cards, ledgers
from controlplane.deployments.services.fleet_cards import Standing
from controlplane.domain.capacity.policy import Policy
from controlplane.domain.errors import RefusedError
from controlplane.domain.footprint import card_formats, cards, engine_rules
from controlplane.domain.ledger import setup
from controlplane.domain.ledger.corrections import Correction, CorrectionKey
from controlplane.domain.ledger.setup import GIB, Wishes
from controlplane.domain.parallelism.bounds import Bounds
from controlplane.domain.parallelism.hardware import Hardware
from controlplane.domain.parallelism.question import Load, Question
from controlplane.domain.performance.curve import Objective
from controlplane.domain.specs import precision
from controlplane.domain.specs.model import ModelFacts
from controlplane.fleet import selectors as fleet


def of(inputs: Inputs, subject: Subject, asked: Asked, standing: Standing | None = None) -> Question:
    """Everything but the split, which the ranking finds. Raises RefusedError naming the field.

    `standing` is what the fleet says of the card that is asked about: its price and its engine's version count where
    none is given.
    """
    facts, standing = subject.facts, standing or Standing()
    setup.check_split(facts, inputs.tensor_parallel or 1, inputs.pipeline_parallel or 1)
    _check_experts(facts, inputs)
    _check_draft(facts, inputs)
    _check_pool(inputs)
    stored = inputs.quantization or subject.quantization or None
    hardware = _hardware(inputs, standing)
    capability = card_formats.capability_of(hardware.accelerator)
    rules = engine_rules.rules_for(inputs.vllm_version or standing.engine_version or None, capability=capability)
    kinds = precision.parse(
        inputs.dtype or subject.dtype or None,
        stored,
        inputs.kv_cache_dtype or None,
        facts,
        takes_cache_of_files=rules.takes_cache_of_files,
    )
    question = Question(
        model=facts,
        precision=kinds,
        hardware=hardware,
        rules=rules,
        load=Load(asked.workload(), asked.peak_requests_per_s),
        purpose="offline" if inputs.purpose == "offline" else "interactive",
        wishes=_wishes(inputs, asked),
        objective=Objective(inputs.ttft_ms, inputs.tpot_ms),
    )
    question.check()
    return replace(question, correction=_learned(question))


def _check_experts(facts: ModelFacts, inputs: Inputs) -> None:
    """A model without experts has nothing that copies of its attention would share."""
    if facts.experts is not None:
        return
    bounds = Bounds(CODE)
    if (inputs.attention_copies or 1) > 1:
        bounds.refuse("attention_copies", inputs.attention_copies, "1: this model has no experts that copies share")
    if inputs.expert_parallel:
        bounds.refuse("expert_parallel", True, "left out: this model has no experts")
    bounds.settle()


def _check_draft(facts: ModelFacts, inputs: Inputs) -> None:
    bounds = Bounds(CODE)
    if inputs.speculative == "mtp" and not facts.draft_layers:
        bounds.refuse("speculative", "mtp", "another way: this model has no layers of its own that propose tokens")
    bounds.settle()


def _check_pool(inputs: Inputs) -> None:
    if inputs.pool and not fleet.pools().filter(name=inputs.pool).exists():
        bounds = Bounds(CODE)
        bounds.refuse("pool", inputs.pool, "the name of a pool that is there, or left out")
        bounds.settle()


def _learned(question: Question) -> Correction:
    """What measured starts of this engine version, card and family of models taught."""
    version = ".".join(str(part) for part in question.rules.version[:2])
    key = CorrectionKey(version, question.hardware.accelerator.name, question.model.family)
    return ledgers.correction_for(key)


def policy_of(inputs: Inputs) -> Policy:
    """How carefully is planned."""
    return Policy(
        safety_factor=inputs.safety_factor,
        utilization_target=inputs.utilization_target,
        hot_share=inputs.hot_share,
        survive_node_loss=inputs.survive_node_loss,
    )


def standing_of(inputs: Inputs) -> Standing:
    """What the fleet says of the card that is asked about; nothing of one that is not known."""
    facts = cards.resolve(inputs.gpu or None, inputs.gpu_memory_total_gib, needed=False).facts
    return Standing() if facts is None else fleet_cards.of_make(facts.name)


def _hardware(inputs: Inputs, standing: Standing) -> Hardware:
    card = cards.resolve(inputs.gpu or None, inputs.gpu_memory_total_gib)
    if card.facts is None:
        right = 'a card of the list, such as "H100 80GB" or "RTX 4090"'
        raise RefusedError(
            CODE,
            f'"{inputs.gpu[:60]}" is not a card that is known here, so nothing can be said about its speed.',
            hint=right,
            fields={"gpu": right},
        )
    given = inputs.gpu_memory_total_gib
    return Hardware(
        accelerator=card.facts,
        cards_per_node=inputs.cards_per_node,
        nodes=inputs.nodes,
        link_group=inputs.link_group,
        price_per_hour=standing.price_per_hour if inputs.price_per_hour is None else inputs.price_per_hour,
        total_bytes=None if given is None else round(given * GIB),
    )


def _draft(inputs: Inputs) -> str | None:
    """As the ledger reads it: the way, the draft's own model where one is named, and how many tokens it proposes."""
    words = (inputs.speculative, inputs.draft_model, str(inputs.speculative_tokens or USUAL_DRAFT_TOKENS))
    return " ".join(word for word in words if word) if inputs.speculative else None


def _not_in_the_times(inputs: Inputs) -> Iterator[str]:
    """What the ledger knows and the latency model does not."""
    if inputs.cpu_offload_gib:
        yield "Weights in the machine's memory are read over PCIe in each step; the times do not count that."
    if inputs.max_loras:
        yield "The times are those without adapters."


def _wishes(inputs: Inputs, asked: Asked) -> Wishes:
    def size(gib: float | None) -> int:
        return round((gib or 0) * GIB)

    cap = inputs.kv_cache_memory_gib
    return Wishes(
        utilization=inputs.gpu_memory_utilization,
        max_model_len=inputs.max_model_len,
        max_num_seqs=inputs.max_num_seqs,
        max_num_batched_tokens=inputs.max_num_batched_tokens,
        enforce_eager=inputs.enforce_eager,
        block_size=inputs.block_size,
        multimodal=False if inputs.media == "refused" else None,
        speculative=_draft(inputs),
        cpu_offload_bytes=size(inputs.cpu_offload_gib),
        adapters=inputs.max_loras or 0,
        adapter_rank=inputs.max_lora_rank or USUAL_LORA_RANK,
        notes=tuple(_not_in_the_times(inputs)),
        kv_cap_bytes=None if cap is None else size(cap),
        foreign_bytes=size(inputs.foreign_gib),
        reserve_bytes=size(inputs.reserve_gib),
        mean_request_tokens=asked.request_tokens,
        length_must_fit=inputs.max_model_len is not None,
    )
