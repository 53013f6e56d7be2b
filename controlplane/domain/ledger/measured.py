"""What an engine measured when it started, beside what the ledger had predicted.

Sources of the measured side: the engine's log (weights, memory and tokens of the cache) and the labels of its metric
`cache_config_info` (blocks, block size, share of the card).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.domain.ledger.corrections import Comparison, CorrectionKey
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.observed import EngineFacts

_LARGEST_COUNT = 10**15


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one accelerator. None = the engine said nothing of it."""

    engine_version: str | None = None
    weights_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    gpu_blocks: int | None = None
    block_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """One sum. `error` is measured / predicted - 1: above 0 the engine took more than was predicted."""

    name: str
    predicted: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        if self.predicted is None or self.measured is None or self.predicted <= 0:
            return None
        return self.measured / self.predicted - 1


def of_engine(facts: EngineFacts, cache_config: Mapping[str, str] | None = None) -> Measured:
    """What a started engine measured; labels that are no numbers are left out."""
    labels = cache_config or {}
    return Measured(
        engine_version=facts.engine_version,
        weights_bytes=facts.weights_bytes,
        kv_cache_bytes=facts.kv_cache_bytes,
        kv_cache_tokens=facts.kv_cache_tokens or _count(labels.get("kv_cache_size_tokens")),
        gpu_blocks=_count(labels.get("num_gpu_blocks")),
        block_tokens=facts.kv_block_size_tokens or _count(labels.get("block_size")),
    )


def lines(ledger: Ledger, measured: Measured) -> tuple[Line, ...]:
    """Predicted beside measured, as a ledger row keeps them."""
    return (
        Line("weights_bytes", ledger.budget.weights_bytes + ledger.budget.adapter_bytes, measured.weights_bytes),
        Line("kv_cache_bytes", ledger.available_bytes, cache_bytes(ledger, measured)),
        Line("kv_cache_tokens", ledger.tokens, measured.kv_cache_tokens),
    )


def cache_bytes(ledger: Ledger, measured: Measured) -> int | None:
    """Memory of the cache: as logged, else the blocks that were made of it."""
    if measured.kv_cache_bytes is not None:
        return measured.kv_cache_bytes
    if measured.gpu_blocks is None:
        return None
    ours, theirs = ledger.layout.block_tokens, measured.block_tokens or ledger.layout.block_tokens
    return measured.gpu_blocks * ledger.layout.bytes_per_block * theirs // ours


def key_of(ledger: Ledger, measured: Measured) -> CorrectionKey:
    """Which later predictions this start teaches: same engine version, kind of card and family of models."""
    version = measured.engine_version or ".".join(str(part) for part in ledger.setup.rules.version)
    card = ledger.setup.card
    name = card.facts.name if card.facts is not None else card.name
    return CorrectionKey(".".join(version.split(".")[:2]), name, ledger.setup.model.family)


def comparison(uncorrected: Ledger, measured: Measured) -> Comparison:
    """What is learned from: the ledger must have been worked out without any correction.

    A cache with a cap tells nothing about what is left over, so its bytes are left out.
    """
    free = not uncorrected.budget.capped
    return Comparison(
        predicted_weights_bytes=uncorrected.budget.weights_bytes + uncorrected.budget.adapter_bytes,
        measured_weights_bytes=measured.weights_bytes,
        predicted_kv_bytes=uncorrected.available_bytes if free else None,
        measured_kv_bytes=cache_bytes(uncorrected, measured) if free else None,
    )


def _count(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 16:
        return None
    return min(int(text), _LARGEST_COUNT) or None
