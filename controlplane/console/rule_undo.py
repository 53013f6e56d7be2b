"""Taking back changes of the rules of traffic: what a row was before, or that there was none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.urls import reverse

from controlplane.accounts import roles
from controlplane.console.undo import Back
from controlplane.domain.degradation import Ladder, Step
from controlplane.domain.quotas.quota import Price
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied
from controlplane.traffic.services import ladders, quotas, shares, slos, tiers
from controlplane.traffic.services.quotas import QuotaWish
from controlplane.traffic.services.shares import ShareWish
from controlplane.traffic.services.tiers import TierWish

Do = Callable[[Actor, Back], object]


def back(
    kind: str, name: str, applied: Applied[Any], before: Mapping[str, Any] | None, /, **address: Any
) -> list[Back]:
    """Returns how to take back what `apply` did; `before`: the values as they were, None = there was no row."""
    if not applied.changed:
        return []
    return [Back(kind, name, applied.row.version, {"address": address, "before": before})]


def gone(kind: str, name: str, before: Mapping[str, Any], /, **address: Any) -> list[Back]:
    """Returns how to take back that a row was removed."""
    return [Back(kind, name, 0, {"address": address, "before": before})]


def _tier(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    if before is None:
        return tiers.delete(actor=who, **address, expected_version=step.version)
    return tiers.apply(actor=who, **address, wish=TierWish(**before), expected_version=step.version)


def _quota(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    if before is None:
        return quotas.delete(actor=who, **address, expected_version=step.version)
    return quotas.apply(actor=who, **address, wish=QuotaWish(**before), expected_version=step.version)


def _share(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    if before is None:
        return shares.delete(actor=who, **address, expected_version=step.version)
    # what was sold before was allowed before
    wish = ShareWish(**before)
    return shares.apply(actor=who, **address, wish=wish, override=True, expected_version=step.version)


def _ladder(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    if before is None:
        return ladders.delete(actor=who, **address, expected_version=step.version)
    wish = Ladder(tuple(Step(**{**one, "tiers": tuple(one["tiers"])}) for one in before["steps"]))
    return ladders.apply(actor=who, **address, wish=wish, expected_version=step.version)


def _price(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    if before is None:
        return ladders.delete_price(actor=who, **address, expected_version=step.version)
    return ladders.apply_price(actor=who, **address, wish=Price(**before), expected_version=step.version)


def _slo(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    if before is None:
        return slos.delete(actor=who, **address, expected_version=step.version)
    return slos.apply(actor=who, **address, **before, expected_version=step.version)


def _key_tier(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    return tiers.apply_of_key(actor=who, **address, tier=before["tier"], expected_version=step.version)


# kind -> what takes it back, the page that shows it, and who may
COUNTERS: Mapping[str, tuple[Do, Callable[[Back], str], str]] = {
    "tier": (_tier, lambda _: reverse("tiers"), roles.OPERATOR),
    "quota": (_quota, lambda _: reverse("quotas"), roles.ADMINISTRATOR),
    "share": (_share, lambda _: reverse("shares"), roles.ADMINISTRATOR),
    "ladder": (_ladder, lambda step: reverse("ladder", args=[step.name]), roles.OPERATOR),
    "price": (_price, lambda _: reverse("prices"), roles.ADMINISTRATOR),
    "slo": (_slo, lambda step: reverse("deployment-traffic", args=[step.name]), roles.OPERATOR),
    "key_tier": (_key_tier, lambda _: reverse("keys"), roles.ADMINISTRATOR),
}
