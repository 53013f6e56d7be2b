"""Shares of tenants in a deployment. More than the whole is guaranteed only where somebody says so expressly."""

from __future__ import annotations

import math
from dataclasses import dataclass

from django.db import transaction

from controlplane.deployments.models import Deployment
from controlplane.domain.admission import guarantees
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied
from controlplane.traffic import live, owners, rule_selectors
from controlplane.traffic.models import Share
from controlplane.traffic.services import telling


@dataclass(frozen=True, slots=True)
class ShareWish:
    """Parts of the seats and KV tokens; see `domain.admission.policy.TenantShare`."""

    weight: float = 1.0
    guaranteed: float = 0.0
    most: float = 1.0


@transaction.atomic
def apply(
    *,
    actor: Actor,
    tenant: str,
    deployment: str,
    wish: ShareWish,
    override: bool = False,
    expected_version: int | None = None,
) -> Applied[Share]:
    """Makes a share be as given; refuses to guarantee more than there is, unless with `override`. A guarantee of less
    than one of the seats of now is more than there is, too, as each tenant below its guarantee gets a whole one."""
    owners.refuse(_problems(wish))
    owner = owners.tenant(tenant)
    seats = None if override or not wish.guaranteed else live.seats(deployment)
    of = Deployment.objects.select_for_update(of=("self",)).get(pk=owners.deployment(deployment).pk)
    if not override:
        _check_sold(of, owner.name, wish, seats)
    applied = versioned.apply(
        Share.objects.all(), address={"tenant": owner, "deployment": of},
        values={"weight": wish.weight, "guaranteed": wish.guaranteed, "most": wish.most},
        object_kind="share", object_id=f"{tenant}/{deployment}", expected_version=expected_version,
    )  # fmt: skip
    telling.told(actor, "share", f"{tenant}/{deployment}", applied, of=deployment)
    return applied


@transaction.atomic
def delete(*, actor: Actor, tenant: str, deployment: str, expected_version: int | None = None) -> None:
    """Removes a share: the tenant is then treated as everybody."""
    rows = Share.objects.select_for_update(of=("self",))
    row = rows.filter(tenant__name=tenant, deployment__name=deployment).first()
    telling.remove(actor, "share", f"{tenant}/{deployment}", row, expected_version, of=deployment)


def _check_sold(of: Deployment, tenant: str, wish: ShareWish, seats: int | None) -> None:
    others = rule_selectors.guaranteed_sum(of, without=tenant)
    before = rule_selectors.guaranteed_sum(of) - others
    why = guarantees.oversold(wish.guaranteed, before=before, others=others, seats=seats)
    if why == "whole":
        free = max(0.0, 1.0 - others)
        message = f"Others are guaranteed {others:.0%} of {of.name} already, so {free:.0%} is left."
        hint = "Guarantee less, or send override: true to sell more than there is."
        raise RefusedError("oversold", message, kind="conflict", hint=hint)
    if why == "seat" and seats:
        message = f"{of.name} has {seats} seats now, and {wish.guaranteed:.1%} of them is less than one."
        hint = f"Guarantee {math.ceil(100 / seats)} % or more, or send override: true to sell more than there is."
        raise RefusedError("oversold", message, kind="conflict", hint=hint)


def _problems(wish: ShareWish) -> dict[str, str]:
    found: dict[str, str] = {}
    if not (math.isfinite(wish.weight) and 0 < wish.weight <= 1000):
        found["weight"] = "Give a weight above 0, at most 1000."
    if not (math.isfinite(wish.guaranteed) and 0 <= wish.guaranteed <= 1):
        found["guaranteed"] = "Give a part from 0 to 1."
    if not (math.isfinite(wish.most) and 0 < wish.most <= 1):
        found["most"] = "Give a part above 0, at most 1."
    elif wish.most < wish.guaranteed:
        found["most"] = "This can't be less than what is guaranteed."
    return found
