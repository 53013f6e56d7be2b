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


def _counter(delete: Callable[..., object], apply: Callable[..., object], given: Callable[[Any], dict[str, Any]]) -> Do:
    """Returns what takes a rule's change back: what was not there is deleted, what was is applied again; `given` makes
    the arguments of `apply` from the values that were stored."""

    def do(who: Actor, step: Back) -> object:
        address, before = step.values["address"], step.values["before"]
        if before is None:
            return delete(actor=who, **address, expected_version=step.version)
        return apply(actor=who, **address, **given(before), expected_version=step.version)

    return do


def _ladder(before: Mapping[str, Any]) -> dict[str, Any]:
    return {"wish": Ladder(tuple(Step(**{**one, "tiers": tuple(one["tiers"])}) for one in before["steps"]))}


def _key_tier(who: Actor, step: Back) -> object:
    address, before = step.values["address"], step.values["before"]
    return tiers.apply_of_key(actor=who, **address, tier=before["tier"], expected_version=step.version)


_TIER = _counter(tiers.delete, tiers.apply, lambda before: {"wish": TierWish(**before)})
_QUOTA = _counter(quotas.delete, quotas.apply, lambda before: {"wish": QuotaWish(**before)})
# what was sold before was allowed before
_SHARE = _counter(shares.delete, shares.apply, lambda before: {"wish": ShareWish(**before), "override": True})
_LADDER = _counter(ladders.delete, ladders.apply, _ladder)
_PRICE = _counter(ladders.delete_price, ladders.apply_price, lambda before: {"wish": Price(**before)})
_SLO = _counter(slos.delete, slos.apply, dict)

# kind -> what takes it back, the page that shows it, and who may
COUNTERS: Mapping[str, tuple[Do, Callable[[Back], str], str]] = {
    "tier": (_TIER, lambda _: reverse("tiers"), roles.OPERATOR),
    "quota": (_QUOTA, lambda _: reverse("quotas"), roles.ADMINISTRATOR),
    "share": (_SHARE, lambda _: reverse("shares"), roles.ADMINISTRATOR),
    "ladder": (_LADDER, lambda step: reverse("ladder", args=[step.name]), roles.OPERATOR),
    "price": (_PRICE, lambda _: reverse("prices"), roles.ADMINISTRATOR),
    "slo": (_SLO, lambda step: reverse("deployment-traffic", args=[step.name]), roles.OPERATOR),
    "key_tier": (_key_tier, lambda _: reverse("keys"), roles.ADMINISTRATOR),
}
