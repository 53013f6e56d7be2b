"""Tiers: what interactive, standard and batch mean, for all deployments or for one; and the tier of a key."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from django.db import transaction

from controlplane.journal.services import versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied
from controlplane.traffic import owners, tiers_in_force
from controlplane.traffic.models import KeyTier, Tier
from controlplane.traffic.services import telling


@dataclass(frozen=True, slots=True)
class TierWish:
    """See `domain.admission.tiers.Tier`. `kv_share` None = as it is without these rules."""

    weight: float
    queue_most: int
    queue_most_bytes: int
    longest_wait_s: float
    total_base_s: float
    total_per_token_s: float
    kv_share: float | None = None


@transaction.atomic
def apply(
    *, actor: Actor, name: str, wish: TierWish, deployment: str = "", expected_version: int | None = None
) -> Applied[Tier]:
    """Makes a tier be as given, of one deployment or (without) of all that have none of their own."""
    owners.check_tier(name)
    owners.refuse(_problems(wish))
    owner = owners.deployment(deployment) if deployment else None
    if wish.kv_share is None:
        wish = replace(wish, kv_share=tiers_in_force.one_inherited(deployment, name).kv_share)
    applied = versioned.apply(
        Tier.objects.all(), address={"name": name, "deployment": owner},
        values={field.name: getattr(wish, field.name) for field in fields(wish)},
        object_kind="tier", object_id=_address(name, deployment), expected_version=expected_version,
    )  # fmt: skip
    telling.told(actor, "tier", _address(name, deployment), applied, of=deployment)
    return applied


@transaction.atomic
def delete(*, actor: Actor, name: str, deployment: str = "", expected_version: int | None = None) -> None:
    """Removes a tier's own rules: those of all deployments hold again, or the built-in ones. Where those of all
    deployments are the built-in ones nothing is to be done."""
    owner = owners.deployment(deployment) if deployment else None
    row = Tier.objects.select_for_update().filter(name=name, deployment=owner).first()
    if row is None and owner is None:
        owners.check_tier(name)
        versioned.check(object_kind="tier", object_id=name, version=0, expected_version=expected_version)
        return
    telling.remove(actor, "tier", _address(name, deployment), row, expected_version, of=deployment)


@transaction.atomic
def apply_of_key(
    *, actor: Actor, tenant: str, key_id: int, tier: str, expected_version: int | None = None
) -> Applied[KeyTier]:
    """Says which tier a key's requests belong to."""
    if tier not in owners.TIERS:
        owners.refuse({"tier": f"Use one of {', '.join(owners.TIERS)}."})
    applied = versioned.apply(
        KeyTier.objects.all(), address={"key": owners.key(tenant, key_id)}, values={"tier": tier},
        object_kind="key_tier", object_id=f"{tenant}/{key_id}", expected_version=expected_version,
    )  # fmt: skip
    telling.told(actor, "key_tier", f"{tenant}/{key_id}", applied)
    return applied


def _address(name: str, deployment: str) -> str:
    return f"{deployment}/{name}" if deployment else name


def _problems(wish: TierWish) -> dict[str, str]:
    found: dict[str, str] = {}
    if not (math.isfinite(wish.weight) and 0 < wish.weight <= 1000):
        found["weight"] = "Give a weight above 0, at most 1000."
    if not 0 <= wish.queue_most <= 1_000_000:
        found["queue_most"] = "Give a number of requests from 0 to 1,000,000."
    if not 0 <= wish.queue_most_bytes <= 2**40:
        found["queue_most_bytes"] = "Give a number of bytes, at most 1 TiB."
    for name in ("longest_wait_s", "total_base_s", "total_per_token_s"):
        value = getattr(wish, name)
        if not (math.isfinite(value) and 0 <= value <= 86_400):
            found[name] = "Give a number of seconds from 0 to 86,400."
    if wish.kv_share is not None and not (math.isfinite(wish.kv_share) and 0 < wish.kv_share <= 1):
        found["kv_share"] = "Give a part above 0, at most 1."
    return found
