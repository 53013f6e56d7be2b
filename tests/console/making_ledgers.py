"""Memory ledgers of starts: predicted, and measured where the engine was ready."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.deployments.models import LedgerRow, PassedOver, Replica
from controlplane.fleet.models import Reservation

GIB = 1024**3
PARTS = {"weights": 17.6, "non_torch": 0.26, "activation": 1.9, "graphs": 1.1, "kv_cache": 52.0, "unused": 6.3}
REJECTED = [
    {"reason": "is cordoned", "nodes": ["gpu-03"]},
    {"reason": "belongs to pool offline, not default", "nodes": [f"batch-{number:02}" for number in range(41)]},
    {
        "reason": "needs 72.8 GiB, 6.3 of 79.2 free (72.8 reserved, 0.1 used by others)",
        "cards": {"0-3,6": ["gpu-02"], "0-7": [f"gpu-{number:02}" for number in range(4, 16)]},
    },
    {"reason": "taken", "cards": {"5": ["gpu-02"]}},
    {"reason": "has no label rack=r2", "more_nodes": 7},
]


def make_ledger(replica: Replica, *, measured: bool = True, **values: Any) -> LedgerRow:
    predicted = {
        "weights_bytes": int(17.6 * GIB),
        "kv_cache_bytes": 52 * GIB,
        "kv_cache_tokens": 681_000,
        "total_bytes": int(79.16 * GIB),
        "requested_bytes": int(72.83 * GIB),
        "capped": False,
        "fits": True,
        "sentence": "2.50 GiB for one request of 32768 tokens; 52.00 GiB are left for the cache.",
        "parts": [{"name": name, "bytes": int(size * GIB)} for name, size in PARTS.items()],
    }
    seen = {"weights_bytes": int(17.7 * GIB), "kv_cache_bytes": int(46.9 * GIB), "kv_cache_tokens": 614_000}
    return LedgerRow.objects.create(
        **{
            "replica": replica.pk,
            "deployment": replica.deployment.name,
            "engine_version": "0.32",
            "accelerator": "H100-SXM",
            "family": "llama",
            "predicted": predicted,
            "correction": {
                "weights_ratio": 1.002,
                "other_bytes": 214_748_364,
                "observations": 3,
                "sentence": "Corrected by 3 measured starts: weights x 1.002, other +0.20 GiB.",
            },
            "measured": seen if measured else {},
            "error": {name: round(seen[name] / predicted[name] - 1, 6) for name in seen} if measured else {},  # type: ignore[operator]
            "measured_at": timezone.now() - timedelta(minutes=50) if measured else None,
            "claim_bytes": int(72.83 * GIB),
            "concurrency_ceiling": 332,
            "mean_request_tokens": 2048,
            "advice": [
                {
                    "code": "full_card",
                    "field": "gpu_memory_utilization",
                    "sentence": "The card is filled to 92%; above 85% fragmentation and other processes decide whether "
                    "it keeps running.",
                }
            ],
            "assumptions": ["max_num_seqs is not given; 1024 is the default of 0.32 on this card."],
            **values,
        }
    )


def make_ledgers(ready: Replica, starting: Replica) -> None:
    """One that was measured, with candidates that were passed over, and one that starts."""
    make_ledger(ready)
    make_ledger(starting, measured=False)
    Reservation.objects.filter(owner_id=ready.pk).update(memory_bytes=int(72.83 * GIB))
    PassedOver.objects.create(replica=ready, rejected=REJECTED)
