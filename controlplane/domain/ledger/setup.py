"""What a ledger is worked out from: one model on some cards, with an engine's settings, and nothing left open.

`resolve` fills what was not given by the engine's own defaults for its version and card, and notes each of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from controlplane.domain.errors import RefusedError
from controlplane.domain.footprint import card_formats, sparse_latent
from controlplane.domain.footprint.cards import Card
from controlplane.domain.footprint.engine_rules import EngineRules
from controlplane.domain.ledger import defaults, drafts
from controlplane.domain.ledger.drafts import Draft
from controlplane.domain.specs.model import Layers, ModelFacts
from controlplane.domain.specs.precision import Precision

GIB = 2**30
_SMALL_BLOCKS, _BLOCK_STEP = (1, 8), 16  # tokens: smaller ones were allowed by older versions


@dataclass(frozen=True, slots=True)
class Wishes:
    """Settings as a deployment or a case gives them. None = not given: the engine's default is taken and noted."""

    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    expert_parallel: bool = False  # whole experts on ranks
    utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool | None = None
    block_size: int | None = None
    multimodal: str | bool | None = None
    speculative: str | None = None
    cpu_offload_bytes: int = 0
    kv_cap_bytes: int | None = None  # --kv-cache-memory-bytes; the budget by utilization is then not used
    kv_cap_share: float | None = None  # the same as a share of the card
    adapters: int = 0  # LoRA slots
    adapter_rank: int = 16
    foreign_bytes: int = 0  # of other processes on the card
    reserve_bytes: int = 0  # that a deployment wants to stay free
    free_bytes: int | None = None  # on the card before the engine starts, where it was seen
    mean_request_tokens: int | None = None  # prompt and answer, of the requests that are expected
    overrides_config: bool = False  # fields of config.json are overridden, so its limit of lengths may be another
    notes: tuple[str, ...] = ()  # why some of these were set by somebody else than the caller
    ranks_must_be_known: bool = True  # False: without tensor_parallel, weights beyond one card decide nothing
    length_must_fit: bool = True  # False: a length that was not given may be shortened to what fits


@dataclass(frozen=True, slots=True)
class Setup:
    """A complete set-up. Sizes are of one accelerator, the fullest one."""

    model: ModelFacts
    precision: Precision
    card: Card
    rules: EngineRules
    tensor_parallel: int
    pipeline_parallel: int
    utilization: float
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    enforce_eager: bool
    wishes: Wishes
    multimodal_tokens: int = 0
    draft: Draft | None = None
    assumptions: tuple[str, ...] = field(default=())

    @property
    def kv_cap_bytes(self) -> int | None:
        """The hard cap of the cache in bytes of one accelerator, of bytes or of a share of the card; None = no cap."""
        if self.wishes.kv_cap_bytes is not None:
            return self.wishes.kv_cap_bytes
        if self.wishes.kv_cap_share is not None and self.card.total_bytes is not None:
            return int(self.wishes.kv_cap_share * self.card.total_bytes)
        return None

    @property
    def length_was_given(self) -> bool:
        """Whether max_model_len was asked for, so that the engine refuses to start rather than shorten it."""
        return self.wishes.max_model_len is not None

    @property
    def length_is_beyond_model(self) -> bool:
        """Whether the engine refuses max_model_len, because the model's config.json allows less."""
        limit = self.model.max_position_embeddings
        sure = self.model.length_is_certain and not self.wishes.overrides_config
        return sure and limit is not None and self.length_was_given and self.max_model_len > limit

    @property
    def layers(self) -> tuple[Layers, ...]:
        """Of the model, and of the draft when speculation is on."""
        return self.model.layers + (self.draft.layers if self.draft else ())

    def with_length(self, max_model_len: int) -> Setup:
        """The same set-up with another max_model_len in tokens."""
        return replace(self, max_model_len=max_model_len)


def resolve(model: ModelFacts, precision: Precision, card: Card, rules: EngineRules, wishes: Wishes) -> Setup:
    """The set-up with everything filled in. Raises RefusedError naming the field that can't be."""
    notes = [note for note in (rules.assumption, card.assumption, *model.assumptions, *precision.assumptions) if note]
    notes.extend(wishes.notes)
    tensor = wishes.tensor_parallel or 1
    if wishes.tensor_parallel is None:
        notes.append("tensor_parallel is not given; 1 was taken.")
    pipeline = wishes.pipeline_parallel or 1
    check_split(model, tensor, pipeline)
    utilization = wishes.utilization
    if utilization is None:
        utilization = rules.default_utilization
        if wishes.kv_cap_bytes is None:
            notes.append(f"gpu_memory_utilization is not given; {utilization:.2f} is the default of {rules.label}.")
    _check_batch(wishes)
    model = defaults.as_kept(defaults.limited(model, rules), rules, notes)
    length = defaults.length(model, rules, wishes.max_model_len, notes)
    multimodal = defaults.image_tokens(model, wishes.multimodal, notes)
    given = (wishes.max_num_seqs, wishes.max_num_batched_tokens)
    sequences, tokens = defaults.batch(model, card, rules, given, notes, length=length, multimodal=multimodal > 0)
    if card.unified and wishes.free_bytes is None:
        notes.append(f"{card.name} shares its memory with the system; all that is not foreign was taken as free.")
    if model.pools:
        notes.append("It pools: it answers with a vector or a score, writes nothing, and holds no chats.")
    if wishes.enforce_eager is None:
        notes.append("enforce_eager is not given; CUDA graphs were assumed.")
    kept = _as_kept(precision, model, card, rules, notes)
    return Setup(
        model=model,
        precision=kept,
        card=card,
        rules=rules,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        utilization=utilization,
        max_model_len=length,
        max_num_seqs=sequences,
        max_num_batched_tokens=tokens,
        enforce_eager=bool(wishes.enforce_eager),
        wishes=wishes,
        multimodal_tokens=multimodal,
        draft=drafts.draft_of(model, kept, wishes.speculative, notes),
        assumptions=tuple(notes),
    )


def _as_kept(precision: Precision, model: ModelFacts, card: Card, rules: EngineRules, notes: list[str]) -> Precision:
    """The precision as this engine calculates on this card, and with the cache as it keeps it there."""
    precision, fallen_back = card_formats.as_calculated(precision, model.family, card.facts, rules)
    capability = card.facts.compute_capability if card.facts is not None else None
    kept, note = sparse_latent.of_engine(precision.kv, rules, capability, model.family)
    notes.extend(sentence for sentence in (fallen_back, note) if sentence)
    return replace(precision, kv=kept)


def _check_batch(wishes: Wishes) -> None:
    """What vLLM itself refuses: a step has to hold one token of each request, and kernels know blocks of few sizes."""
    sequences, tokens = wishes.max_num_seqs, wishes.max_num_batched_tokens
    if sequences is not None and tokens is not None and tokens < sequences:
        right = f"at least max_num_seqs ({sequences})"
        raise RefusedError(
            "parallelism",
            f"max_num_batched_tokens {tokens} is less than max_num_seqs {sequences}: the engine refuses to start.",
            hint=f"max_num_batched_tokens: {right}",
            fields={"max_num_batched_tokens": right},
        )
    block = wishes.block_size
    if block is not None and block not in _SMALL_BLOCKS and (block < 1 or block % _BLOCK_STEP):
        right = f"{', '.join(str(small) for small in _SMALL_BLOCKS)} or a multiple of {_BLOCK_STEP}, in tokens"
        raise RefusedError(
            "parallelism",
            f"block_size {block} is none that an engine has kernels for.",
            hint=f"block_size: {right}",
            fields={"block_size": right},
        )


def divides(model: ModelFacts, tensor_parallel: int) -> bool:
    """Whether so many ranks can share the model's heads."""
    try:
        check_split(model, tensor_parallel, 1)
    except RefusedError:
        return False
    return True


def check_split(model: ModelFacts, tensor_parallel: int, pipeline_parallel: int) -> None:
    """Raises RefusedError when ranks do not divide the heads, or stages outnumber the layers."""
    if any(layer.count < 0 for layer in model.layers):
        right = "numbers of layers by kind that add up to num_hidden_layers"
        raise RefusedError(
            "architecture",
            "The layers by kind are more than the model has.",
            hint=right,
            fields={"architecture": right},
        )
    heads = model.num_attention_heads
    if heads and heads % tensor_parallel:
        options = ", ".join(str(n) for n in range(1, min(heads, 64) + 1) if heads % n == 0)
        raise RefusedError(
            "parallelism",
            f"tensor_parallel {tensor_parallel} does not divide the {heads} attention heads of this model.",
            hint=f"tensor_parallel: one of {options}",
            fields={"tensor_parallel": f"one of {options}"},
        )
    for layer in model.layers:
        if layer.kv_heads and layer.kv_heads % tensor_parallel and tensor_parallel % layer.kv_heads:
            right = f"a divisor or a multiple of the {layer.kv_heads} key-value heads"
            raise RefusedError(
                "parallelism",
                f"tensor_parallel {tensor_parallel} neither divides {layer.kv_heads} key-value heads nor they it.",
                hint=f"tensor_parallel: {right}",
                fields={"tensor_parallel": right},
            )
    if pipeline_parallel > max(1, model.num_hidden_layers):
        right = f"at most {model.num_hidden_layers}, the layers of this model"
        raise RefusedError(
            "parallelism",
            f"pipeline_parallel {pipeline_parallel} is more than the model has layers.",
            hint=f"pipeline_parallel: {right}",
            fields={"pipeline_parallel": right},
        )
