"""Quotas of tenants: made, changed and removed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.db import transaction

from controlplane.domain.quotas.measures import MEASURES
from controlplane.journal.services import versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied
from controlplane.traffic import owners
from controlplane.traffic.models import Quota
from controlplane.traffic.services import telling

LARGEST = 2**53 - 1  # Valkey's scripts count exactly up to here
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class QuotaWish:
    """`limits`: measure -> number, money in millionths. `key_id` None and `deployment` "" = all."""

    limits: Mapping[str, int] = field(default_factory=dict)
    key_id: int | None = None
    deployment: str = ""


@transaction.atomic
def apply(
    *, actor: Actor, tenant: str, name: str, wish: QuotaWish, expected_version: int | None = None
) -> Applied[Quota]:
    """Makes a quota be as given. What was used of a limit stays used when its number changes."""
    owners.refuse(_problems(name, wish))
    owner = owners.tenant(tenant)
    if wish.key_id is not None:
        owners.key(tenant, wish.key_id)
    deployment = owners.deployment(wish.deployment) if wish.deployment else None
    applied = versioned.apply(
        Quota.objects.all(), address={"tenant": owner, "name": name},
        values={"key_id": wish.key_id, "deployment": deployment, "limits": dict(wish.limits)},
        object_kind="quota", object_id=f"{tenant}/{name}", expected_version=expected_version,
    )  # fmt: skip
    telling.told(actor, "quota", f"{tenant}/{name}", applied, of=wish.deployment)
    return applied


@transaction.atomic
def delete(*, actor: Actor, tenant: str, name: str, expected_version: int | None = None) -> None:
    """Removes a quota."""
    row = Quota.objects.select_for_update(of=("self",)).filter(tenant__name=tenant, name=name).first()
    telling.remove(actor, "quota", f"{tenant}/{name}", row, expected_version)


def _problems(name: str, wish: QuotaWish) -> dict[str, str]:
    found: dict[str, str] = {}
    if not _NAME.fullmatch(name):
        found["name"] = "Use lower-case letters, digits and hyphens, at most 63."
    if not wish.limits:
        found["limits"] = f"Give at least one limit of {', '.join(MEASURES)}."
    for measure, limit in wish.limits.items():
        if measure not in MEASURES:
            found[measure] = f"There is no such limit; there are {', '.join(MEASURES)}."
        elif not 0 <= limit <= LARGEST:
            found[measure] = "Give a number from 0 to 9,007,199,254,740,991."
    return found
