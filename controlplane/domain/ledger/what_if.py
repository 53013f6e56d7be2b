"""What would be if: other lengths, batches and shares of the card, other precisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from controlplane.domain.errors import RefusedError
from controlplane.domain.ledger import result
from controlplane.domain.ledger import setup as setting_up
from controlplane.domain.ledger.corrections import NO_CORRECTION, Correction
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.ledger.setup import Setup
from controlplane.domain.specs import precision as precisions
from controlplane.domain.specs.precision import Support

WEIGHTS = ("bf16", "fp8", "int8", "int4")
KV = ("auto", "fp8")
ExpectedTpot = Callable[[Ledger], float | None]  # seconds an output token, of a ledger's set-up

_WEIGHT_CAUTIONS = {
    "fp8": "Close to 16 bits in most published evaluations; check long reasoning chains and code.",
    "int8": "Close to 16 bits when activations were calibrated; check tasks outside the calibration set.",
    "int4": "Loses some quality, small models and long reasoning most: compare with your own prompts before use.",
    "nvfp4": "Close to FP8 for large models; compare with your own prompts before use.",
    "mxfp4": "Safe where the model was trained for it; otherwise compare with your own prompts before use.",
}
_KV_CAUTION = "FP8 keys and values: little loss at short lengths; check recall at the longest length you serve."


@dataclass(frozen=True, slots=True)
class TriangleRow:
    """One corner of max_num_seqs, max_model_len and utilization."""

    max_num_seqs: int
    max_model_len: int
    utilization: float
    fits: bool | None
    kv_tokens: int | None
    concurrency_at_length: float | None
    concurrency_ceiling: int | None  # requests of max_model_len that max_num_seqs and the cache both allow
    why: str


@dataclass(frozen=True, slots=True)
class PrecisionRow:
    """One pair of precisions. Bytes of one accelerator; `refusal` where this pair can't be."""

    weights: str
    kv: str
    weights_bytes: int | None
    kv_tokens: int | None
    concurrency: float | None
    tpot_s: float | None
    fits: bool | None
    support: Support | None
    caution: str
    refusal: str = ""


def triangle(
    setup: Setup,
    *,
    lengths: Iterable[int],
    sequences: Iterable[int],
    utilizations: Iterable[float],
    correction: Correction = NO_CORRECTION,
) -> tuple[TriangleRow, ...]:
    """Every combination, everything else as it is."""
    rows = []
    batches, shares = tuple(sequences), tuple(utilizations)
    for length in lengths:
        for batch in batches:
            for share in shares:
                wishes = replace(setup.wishes, max_model_len=length, max_num_seqs=batch, utilization=share)
                rows.append(_corner(again(setup, wishes), correction))
    return tuple(rows)


def again(setup: Setup, wishes: setting_up.Wishes) -> Setup:
    """The same model, card and engine with other wishes."""
    return setting_up.resolve(setup.model, setup.precision, setup.card, setup.rules, wishes)


def precision_table(
    setup: Setup,
    *,
    weights: Iterable[str] = WEIGHTS,
    kv: Iterable[str] = KV,
    expected_tpot: ExpectedTpot | None = None,
    correction: Correction = NO_CORRECTION,
) -> tuple[PrecisionRow, ...]:
    """Weights x KV precision: what each pair takes and carries, whether the card calculates in it, and a caution."""
    kinds = tuple(kv)
    return tuple(_pair(setup, name, kind, expected_tpot, correction) for name in weights for kind in kinds)


def _corner(setup: Setup, correction: Correction) -> TriangleRow:
    ledger = result.work_out(setup, correction)
    return TriangleRow(
        max_num_seqs=setup.max_num_seqs,
        max_model_len=setup.max_model_len,
        utilization=setup.utilization,
        fits=ledger.verdict.fits,
        kv_tokens=ledger.tokens,
        concurrency_at_length=ledger.concurrency(setup.max_model_len),
        concurrency_ceiling=ledger.concurrency_ceiling(setup.max_model_len),
        why=ledger.verdict.sentence,
    )


def _pair(
    setup: Setup, weights: str, kv: str, expected_tpot: ExpectedTpot | None, correction: Correction
) -> PrecisionRow:
    caution = " ".join(text for text in (_WEIGHT_CAUTIONS.get(weights, ""), _kv_caution(kv)) if text)
    plain = weights in ("bf16", "fp16", "fp32")
    try:
        chosen = precisions.parse(weights if plain else None, "none" if plain else weights, kv, setup.model)
    except RefusedError as error:
        return PrecisionRow(weights, kv, None, None, None, None, None, None, caution, error.message)
    other = setting_up.resolve(setup.model, chosen, setup.card, setup.rules, setup.wishes)
    ledger = result.work_out(other, correction)
    facts = setup.card.facts
    return PrecisionRow(
        weights=weights,
        kv=kv,
        weights_bytes=ledger.budget.weights_bytes,
        kv_tokens=ledger.tokens,
        concurrency=ledger.concurrency(other.max_model_len),
        tpot_s=expected_tpot(ledger) if expected_tpot is not None else None,
        fits=ledger.verdict.fits,
        support=precisions.support(chosen, facts) if facts is not None else None,
        caution=caution,
    )


def _kv_caution(kv: str) -> str:
    return _KV_CAUTION if kv.startswith("fp8") else ""
