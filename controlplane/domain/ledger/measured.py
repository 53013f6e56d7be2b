"""What an engine measured when it started, beside what the ledger had predicted.

Sources of the measured side: the engine's log (weights, memory and tokens of the cache) and the labels of its metric
`cache_config_info` (blocks, block size, tokens, type and cap of the cache, share of the card). Each value says which of
them it is from. Where both tell one: the metrics count, because they are of the engine that runs now while a log is
read by its wording; memory is taken from the log, which tells it of a cache without cap too. What contradicts is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from controlplane.domain.ledger.corrections import Comparison, CorrectionKey
from controlplane.domain.ledger.result import Ledger
from controlplane.domain.observed import EngineFacts

_LARGEST_COUNT = 10**15
_LOG_ROUNDS_BYTES = 2**30 // 100  # logs tell GiB with two digits

_LOG_COUNTS = frozenset({"weights_bytes", "kv_cache_bytes"})

Source = Literal["log", "metrics", "both"]


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one accelerator. None = the engine said nothing of it."""

    engine_version: str | None = None
    weights_bytes: int | None = None
    kv_cache_bytes: int | None = None
    kv_cache_tokens: int | None = None
    gpu_blocks: int | None = None
    block_tokens: int | None = None
    max_concurrency: float | None = None  # requests of max_model_len
    cache_dtype: str | None = None  # as the engine names it; "auto" = that of the model
    utilization: float | None = None  # share of the card that the engine took for its own
    cache_cap_bytes: int | None = None  # the cap that the engine was given
    sources: Mapping[str, Source] = field(default_factory=dict)  # name of a value -> where it is from
    contradictions: tuple[Contradiction, ...] = ()


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A value of which log and metrics say different things; `Measured` has the one of `sources`."""

    name: str
    log: int
    metrics: int


@dataclass(frozen=True, slots=True)
class Line:
    """One sum. `error` is measured / predicted - 1: above 0 the engine took more than was predicted."""

    name: str
    predicted: float | None
    measured: float | None

    @property
    def error(self) -> float | None:
        """measured / predicted - 1; None where one is not known or the prediction is not above 0."""
        if self.predicted is None or self.measured is None or self.predicted <= 0:
            return None
        return self.measured / self.predicted - 1


def of_engine(facts: EngineFacts, cache_config: Mapping[str, str] | None = None) -> Measured:
    """What a started engine measured; labels (those of `facts` unless others are given) that are no numbers are left
    out."""
    labels = facts.cache_config if cache_config is None else cache_config
    cap = _count(labels.get("kv_cache_memory_bytes"))
    told: dict[str, tuple[int | None, int | None]] = {
        "weights_bytes": (facts.weights_bytes, None),
        "kv_cache_bytes": _rounded(facts.kv_cache_bytes, cap),
        "kv_cache_tokens": (facts.kv_cache_tokens, _tokens(labels, facts.kv_cache_tokens)),
        "gpu_blocks": (None, _count(labels.get("num_gpu_blocks"))),
        "block_tokens": (facts.kv_block_size_tokens, _count(labels.get("block_size"))),
    }
    sources = {name: _source(name, *both) for name, both in told.items() if both != (None, None)}
    contradictions = tuple(
        Contradiction(name, log, metrics)
        for name, (log, metrics) in told.items()
        if log is not None and metrics is not None and log != metrics
    )
    concurrency = _fraction(labels.get("kv_cache_max_concurrency"))
    if concurrency is not None or facts.max_concurrency is not None:
        sources["max_concurrency"] = "log" if concurrency is None else "metrics"
    return Measured(
        engine_version=facts.engine_version,
        **{name: _chosen(name, *both) for name, both in told.items()},
        max_concurrency=facts.max_concurrency if concurrency is None else concurrency,
        cache_dtype=labels.get("cache_dtype") or None,
        utilization=_fraction(labels.get("gpu_memory_utilization")),
        cache_cap_bytes=cap,
        sources=sources,
        contradictions=contradictions,
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
    blocks = pool_blocks(ledger, measured)
    return None if blocks is None else blocks * ledger.layout.bytes_per_block


def pool_blocks(ledger: Ledger, measured: Measured) -> int | None:
    """Blocks of the engine's pool, counted as the ledger's: those of the engine may be larger or smaller."""
    if measured.gpu_blocks is None:
        return None
    ours, theirs = ledger.layout.block_tokens, measured.block_tokens or ledger.layout.block_tokens
    return measured.gpu_blocks * theirs // ours


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


def _tokens(labels: Mapping[str, str], logged: int | None) -> int | None:
    """Older engines do not tell the tokens. Blocks times their size are as many where all layers are of one kind, so
    this says nothing against a log."""
    tokens = _count(labels.get("kv_cache_size_tokens"))
    if tokens is not None or logged is not None:
        return tokens
    blocks, each = _count(labels.get("num_gpu_blocks")), _count(labels.get("block_size"))
    return None if blocks is None or each is None else blocks * each


def _rounded(log: int | None, cap: int | None) -> tuple[int | None, int | None]:
    """A cache that was given a cap has it to the byte, and a log the same with two digits."""
    if log is not None and cap is not None and abs(log - cap) <= _LOG_ROUNDS_BYTES:
        return cap, cap
    return log, cap


def _source(name: str, log: int | None, metrics: int | None) -> Source:
    if log is not None and metrics is not None and log == metrics:
        return "both"
    return "log" if metrics is None or (log is not None and name in _LOG_COUNTS) else "metrics"


def _chosen(name: str, log: int | None, metrics: int | None) -> int | None:
    return log if _source(name, log, metrics) == "log" else metrics


def _fraction(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 < number < _LARGEST_COUNT else None


def _count(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 16:
        return None
    return min(int(text), _LARGEST_COUNT) or None
