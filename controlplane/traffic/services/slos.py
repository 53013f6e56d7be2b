"""How fast deployments are meant to be."""

from __future__ import annotations

import math

from django.db import transaction

from controlplane.journal.services import versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied
from controlplane.traffic import owners
from controlplane.traffic.models import Slo
from controlplane.traffic.services import telling

TTFT_MOST_S, TPOT_MOST_S = 600.0, 60.0


@transaction.atomic
def apply(
    *, actor: Actor, deployment: str, ttft_s: float | None, tpot_s: float | None, expected_version: int | None = None
) -> Applied[Slo]:
    """Says how long the first token and each further one of a deployment may take (seconds; None = not promised).

    Interactive requests then wait only as long as leaves time for their prefill, and seats are lowered where tokens
    come slower.
    """
    owners.refuse(_problems(ttft_s, tpot_s))
    applied = versioned.apply(
        Slo.objects.all(), address={"deployment": owners.deployment(deployment)},
        values={"ttft_s": ttft_s, "tpot_s": tpot_s}, object_kind="slo", object_id=deployment,
        expected_version=expected_version,
    )  # fmt: skip
    telling.told(actor, "slo", deployment, applied, of=deployment)
    return applied


@transaction.atomic
def delete(*, actor: Actor, deployment: str, expected_version: int | None = None) -> None:
    """Removes an objective: nothing is promised."""
    row = Slo.objects.select_for_update(of=("self",)).filter(deployment__name=deployment).first()
    telling.remove(actor, "slo", deployment, row, expected_version, of=deployment)


def _problems(ttft_s: float | None, tpot_s: float | None) -> dict[str, str]:
    found = {}
    if ttft_s is not None and not (math.isfinite(ttft_s) and 0.001 <= ttft_s <= TTFT_MOST_S):
        found["ttft_s"] = f"Give seconds from 0.001 to {TTFT_MOST_S:g}, or nothing."
    if tpot_s is not None and not (math.isfinite(tpot_s) and 0.0001 <= tpot_s <= TPOT_MOST_S):
        found["tpot_s"] = f"Give seconds from 0.0001 to {TPOT_MOST_S:g}, or nothing."
    return found
