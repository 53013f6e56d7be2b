"""The degradation ladders and the prices of deployments."""

from __future__ import annotations

import math
from typing import Any

from django.db import transaction

from controlplane.deployments.models import Deployment
from controlplane.domain import degradation
from controlplane.domain.quotas.quota import Price as PriceWish
from controlplane.journal.services import versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied
from controlplane.traffic import owners
from controlplane.traffic.models import Ladder, Price
from controlplane.traffic.services import telling

MOST_STEPS = 20


@transaction.atomic
def apply(
    *, actor: Actor, deployment: str, wish: degradation.Ladder, expected_version: int | None = None
) -> Applied[Ladder]:
    """Makes a deployment's ladder be as given; without steps it never degrades."""
    owner = owners.deployment(deployment)
    owners.refuse(_problems(wish, deployment))
    applied = versioned.apply(
        Ladder.objects.all(), address={"deployment": owner}, values={"steps": [_plain(step) for step in wish.steps]},
        object_kind="ladder", object_id=deployment, expected_version=expected_version,
    )  # fmt: skip
    telling.told(actor, "ladder", deployment, applied, of=deployment)
    return applied


@transaction.atomic
def delete(*, actor: Actor, deployment: str, expected_version: int | None = None) -> None:
    """Removes a ladder: the deployment never degrades."""
    row = Ladder.objects.select_for_update(of=("self",)).filter(deployment__name=deployment).first()
    telling.remove(actor, "ladder", deployment, row, expected_version, of=deployment)


@transaction.atomic
def apply_price(
    *, actor: Actor, deployment: str, wish: PriceWish, expected_version: int | None = None
) -> Applied[Price]:
    """Says what a million tokens of a deployment cost; quotas of money count by it from now on."""
    owners.refuse(_price_problems(wish))
    applied = versioned.apply(
        Price.objects.all(), address={"deployment": owners.deployment(deployment)},
        values={
            "prompt_per_million": wish.prompt_per_million, "completion_per_million": wish.completion_per_million,
        },
        object_kind="price", object_id=deployment, expected_version=expected_version,
    )  # fmt: skip
    telling.told(actor, "price", deployment, applied, of=deployment)
    return applied


@transaction.atomic
def delete_price(*, actor: Actor, deployment: str, expected_version: int | None = None) -> None:
    """Removes a price: the deployment costs nothing."""
    row = Price.objects.select_for_update(of=("self",)).filter(deployment__name=deployment).first()
    telling.remove(actor, "price", deployment, row, expected_version, of=deployment)


def _plain(step: degradation.Step) -> dict[str, Any]:
    """As a JSON column gives it back, so that the same again is the same; what its kind does not use is not kept."""
    plain = degradation.Step(step.kind, step.tiers)
    used = {name: getattr(step if degradation.uses(step.kind, name) else plain, name) for name in degradation.KIND_OF}
    return {"kind": step.kind, "tiers": list(step.tiers), **used}


def _problems(wish: degradation.Ladder, own: str) -> dict[str, str]:
    if len(wish.steps) > MOST_STEPS:
        return {"steps": f"Use at most {MOST_STEPS} steps."}
    found = degradation.problems(wish, own, owners.TIERS)
    named = {step.deployment for step in wish.steps if step.kind == "divert" and step.deployment}
    known = set(Deployment.objects.filter(name__in=named, deleted_at=None).values_list("name", flat=True))
    for place, step in enumerate(wish.steps):
        if step.deployment in named - known:
            found.setdefault(f"steps.{place}.deployment", f"There is no deployment {step.deployment}.")
    return found


def _price_problems(wish: PriceWish) -> dict[str, str]:
    return {
        name: "Give a price from 0 to 1,000,000."
        for name in ("prompt_per_million", "completion_per_million")
        if not (math.isfinite(getattr(wish, name)) and 0 <= getattr(wish, name) <= 1_000_000)
    }
