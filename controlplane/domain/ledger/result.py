"""The ledger of one accelerator: all sums, the verdict, what it carries, and what was assumed."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.domain.footprint.hybrid import KvLayout
from controlplane.domain.ledger import advice as advising
from controlplane.domain.ledger import budget as budgeting
from controlplane.domain.ledger import carried as carrying
from controlplane.domain.ledger import one_request
from controlplane.domain.ledger.advice import Advice
from controlplane.domain.ledger.budget import Budget
from controlplane.domain.ledger.carried import Carried
from controlplane.domain.ledger.corrections import NO_CORRECTION, Correction
from controlplane.domain.ledger.one_request import Verdict
from controlplane.domain.ledger.setup import Setup

TYPICAL_LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)


@dataclass(frozen=True, slots=True)
class Ledger:
    """`layout` is of the pool; `checked` is what one request is checked with (they differ in old pipelines)."""

    setup: Setup
    budget: Budget
    layout: KvLayout
    checked: KvLayout
    verdict: Verdict
    advice: tuple[Advice, ...]
    assumptions: tuple[str, ...]
    correction: Correction = NO_CORRECTION

    @property
    def available_bytes(self) -> int | None:
        """Bytes left for the cache, of one accelerator; below 0 where the rest alone is too much, None = memory not
        known."""
        return self.budget.available_bytes

    @property
    def blocks(self) -> int | None:
        """Blocks of the pool, as the engine logs them; None where the card is not known or no pool is made."""
        available = self.budget.available_bytes
        if available is None or not self.layout.bytes_per_block:
            return None
        return self.layout.pool_blocks(available)

    @property
    def needed_bytes(self) -> int:
        """KV bytes of one request of max_model_len."""
        return self.checked.needed_bytes(self.setup.max_model_len)

    @property
    def longest_tokens(self) -> int | None:
        """The longest length that fits, at most what the model or the set-up allows."""
        if self.budget.available_bytes is None:
            return None
        limit = self.setup.model.max_position_embeddings or 0
        bound = limit if self.setup.length_is_beyond_model else max(self.setup.max_model_len, limit)
        return self.checked.longest_tokens(self.budget.available_bytes, bound)

    def concurrency(self, length_tokens: int) -> float | None:
        """Requests of `length_tokens` that the pool holds at once."""
        if self.blocks is None:
            return None
        return self.blocks / max(1, self.layout.blocks_for(length_tokens))

    @property
    def concurrency_by_length(self) -> tuple[tuple[int, float], ...]:
        """At typical lengths up to max_model_len."""
        found = [(length, self.concurrency(length)) for length in TYPICAL_LENGTHS if length <= self.setup.max_model_len]
        return tuple((length, requests) for length, requests in found if requests is not None)

    @property
    def tokens(self) -> int | None:
        """The line "GPU KV cache size" as this version of the engine prints it.

        For hybrids that is concurrency x length, or, before 0.21, blocks of one group: neither is a capacity.
        """
        if self.blocks is None:
            return None
        if not self.layout.hybrid:
            return self.blocks * self.layout.block_tokens
        if not self.setup.rules.prints_tokens_by_concurrency:
            return self.blocks // len(self.layout.groups) * self.layout.block_tokens
        return int((self.concurrency(self.setup.max_model_len) or 0) * self.setup.max_model_len)

    @property
    def carried(self) -> Carried | None:
        """What the pool carries of requests of usual lengths; None where `tokens` says it, or the card is not known."""
        return carrying.of(self.layout, self.blocks)

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes of the pool for a token as the engine counts tokens; one request's need a token where it won't start.

        Uniform models: the bytes that a token adds. Hybrids: an average that depends on the length.
        """
        if not self.layout.hybrid:
            uniform = self.checked if self.verdict.fits is False else self.layout
            return uniform.bytes_per_block / uniform.block_tokens
        if self.setup.rules.prints_tokens_by_concurrency or not self.verdict.fits:
            return self.needed_bytes / self.setup.max_model_len
        return self.layout.bytes_per_block * len(self.layout.groups) / self.layout.block_tokens

    def concurrency_ceiling(self, mean_request_tokens: int) -> int | None:
        """Requests at once that make sense: max_num_seqs, or fewer where the cache holds fewer of the mean length.

        What the gateway admits until a knee was measured. Where nothing is kept for a request nothing else limits it.
        """
        if self.setup.model.keeps_nothing and self.verdict.fits:
            return self.setup.max_num_seqs
        carried = self.concurrency(mean_request_tokens)
        return None if carried is None else max(0, min(self.setup.max_num_seqs, int(carried)))


def work_out(setup: Setup, correction: Correction = NO_CORRECTION) -> Ledger:
    """The ledger of a set-up. `correction` comes from measured starts of the same kind."""
    budget = budgeting.work_out(setup, correction)
    checked = one_request.checked_layout(setup)
    setup = one_request.shortened(setup, budget, checked)
    layout = one_request.pool_layout(setup)
    notes = setup.assumptions + ((correction.sentence,) if correction.observations else ())
    return Ledger(
        setup=setup,
        budget=budget,
        layout=layout,
        checked=checked,
        verdict=one_request.decide(setup, budget, checked),
        advice=advising.give(setup, budget, layout),
        assumptions=notes,
        correction=correction,
    )
