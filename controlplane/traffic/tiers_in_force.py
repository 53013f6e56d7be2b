"""Which rules of a tier hold: a deployment's own before what its pool says of batch, that before what is said for all
deployments, and that before the built-in ones. Gateways get the same by `controlplane.traffic.routed`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from controlplane.domain.admission.tiers import BATCH
from controlplane.domain.errors import RefusedError
from controlplane.traffic import owners, rule_selectors
from controlplane.traffic.models import Tier
from controlplane.traffic.rule_selectors import TIER_FIELDS

SetBy = Literal["built_in", "all", "pool", "deployment"]


@dataclass(frozen=True, slots=True)
class TierInForce:
    """A tier as it holds. `version` is that of the rules at this address, 0 = it has none of its own. `set_by` "pool":
    its KV share is what the deployment's pool says. `id` puts lists in order: the tiers of all deployments first."""

    id: int
    name: str
    deployment: str | None  # None = all that have no rules of their own
    weight: float
    queue_most: int
    queue_most_bytes: int
    longest_wait_s: float
    total_base_s: float
    total_per_token_s: float
    kv_share: float
    version: int
    set_by: SetBy

    @property
    def is_own(self) -> bool:
        """Whether the deployment has rules of its own for it."""
        return self.set_by == "deployment"

    def values(self) -> dict[str, Any]:
        """Returns the rules alone."""
        return {name: getattr(self, name) for name in TIER_FIELDS}


def common() -> list[TierInForce]:
    """Returns the tiers of all deployments that have no rules of their own; one query."""
    rows = {row.name: row for row in Tier.objects.filter(deployment=None)}
    return [_of(rows[name]) if name in rows else _built_in(name) for name in owners.TIERS]


def listed(deployment: str | None = None) -> list[TierInForce]:
    """Returns the tiers of all deployments and those that single ones have of their own; with `deployment` those that
    hold for it."""
    if deployment:
        return of(deployment)
    return [*common(), *(_of(row) for row in rule_selectors.tiers().filter(deployment__isnull=False))]


def of(deployment: str) -> list[TierInForce]:
    """Returns all tiers as they hold for a deployment; refuses where there is no such deployment."""
    name = owners.deployment(deployment).name
    own = {row.name: _of(row) for row in rule_selectors.tiers(deployment=name)}
    return [replace(own.get(tier.name, tier), id=tier.id) for tier in inherited(name)]


def one(deployment: str, tier: str) -> TierInForce:
    """Returns one tier as it holds for a deployment; refuses where there is no such deployment or tier."""
    return _named(of(deployment), tier)


def own(deployment: str, tier: str) -> TierInForce:
    """Returns a deployment's own rules of a tier; refuses where it has none."""
    found = one(deployment, tier)
    if not found.is_own:
        raise RefusedError("no_such_tier", f"There is no tier {deployment}/{tier}.", kind="not_found")
    return found


def one_inherited(deployment: str, tier: str) -> TierInForce:
    """Returns one tier as it would hold for a deployment (without: for all) if nobody had set rules for just that."""
    return _named(inherited(deployment), tier) if deployment else _built_in(tier)


def inherited(deployment: str) -> list[TierInForce]:
    """Returns all tiers as they would hold for a deployment that has no rules of its own."""
    share = rule_selectors.batch_kv_shares().get(deployment)
    found = [replace(tier, deployment=deployment, version=0) for tier in common()]
    if share is None:
        return found
    return [replace(tier, kv_share=share, set_by="pool") if tier.name == BATCH.name else tier for tier in found]


def common_one(tier: str) -> TierInForce:
    """Returns one tier of all deployments; refuses where there is no such tier."""
    return _named(common(), tier)


def _named(tiers: list[TierInForce], name: str) -> TierInForce:
    owners.check_tier(name)
    return next(tier for tier in tiers if tier.name == name)


def _built_in(name: str) -> TierInForce:
    owners.check_tier(name)
    values = {field: getattr(owners.TIERS[name], field) for field in TIER_FIELDS}
    return TierInForce(_place(name), name, None, **values, version=0, set_by="built_in")


def _of(row: Tier) -> TierInForce:
    values = {field: getattr(row, field) for field in TIER_FIELDS}
    if row.deployment is None:
        return TierInForce(_place(row.name), row.name, None, **values, version=row.version, set_by="all")
    return TierInForce(row.pk, row.name, row.deployment.name, **values, version=row.version, set_by="deployment")


def _place(name: str) -> int:
    """Before every row, in the order in which tiers are always told."""
    return list(owners.TIERS).index(name) - len(owners.TIERS)
