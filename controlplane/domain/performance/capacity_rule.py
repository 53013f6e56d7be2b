"""How many tokens of cache one copy holds, where no ledger has said so.

A rule of thumb for performance only: the ledger of memory is exact and wins wherever it is asked. 0.92 of the card
less weights less 2 GiB for activations, graphs and the runtime; but never less than a small share of the card, as the
set-up is said to run.
"""

from __future__ import annotations

from controlplane.domain.performance.setup import Setup, Workload
from controlplane.domain.performance.work import Work
from controlplane.domain.specs.accelerator_rows import GIB, usable_bytes

USUAL_UTILIZATION = 0.92
USUAL_REST_BYTES = 2 * GIB
LEAST_SHARE = 0.06  # of the card


def usual_max_seqs(setup: Setup) -> float:
    """Requests an engine runs at once without a setting; each rank of data-parallel attention has its own.

    vLLM: 256, and 1024 on cards of 70 GiB and more but the A100. Others: as memory allows, at most 2048.
    """
    if "vllm" not in setup.engine.lower():
        return 2048.0 * setup.attention_parallel
    card = setup.accelerator
    large = usable_bytes(card) >= 70 * GIB and card.architecture != "Ampere"
    return (1024.0 if large else 256.0) * setup.attention_parallel


def kv_tokens(setup: Setup, work: Work, load: Workload) -> float:
    """Tokens of context that fit at the load's mean length; at least `LEAST_SHARE` of the card is cache."""
    if setup.kv_capacity_tokens is not None:
        return float(setup.kv_capacity_tokens)
    length = load.mean_context_tokens
    of_one = max(1.0, work.kv_bytes_of(length) / work.kv_copies)
    total = usable_bytes(setup.accelerator) * USUAL_UTILIZATION
    free = total - work.dense_bytes - work.expert_bytes - USUAL_REST_BYTES
    return max(free, LEAST_SHARE * total) / of_one * length
