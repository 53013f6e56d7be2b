"""The rules of traffic in the routing snapshot: of each deployment tiers, shares, ladder, price; quotas; key tiers."""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import replace

from controlplane.domain.admission.policy import TenantShare
from controlplane.domain.admission.tiers import BATCH
from controlplane.domain.admission.tiers import Tier as RoutedTier
from controlplane.domain.degradation import Ladder as RoutedLadder
from controlplane.domain.degradation import Step
from controlplane.domain.quotas.quota import Price as RoutedPrice
from controlplane.domain.quotas.quota import Quota as RoutedQuota
from controlplane.domain.routing import RoutingSnapshot
from controlplane.lib import wire
from controlplane.traffic import owners, rule_selectors
from controlplane.traffic.models import KeyTier, Ladder, Tier

logger = logging.getLogger(__name__)


def add_rules(content: RoutingSnapshot) -> RoutingSnapshot:
    """Returns the snapshot with the rules, from the rows; nine queries whatever there is."""
    common, own = _tiers()
    shares: dict[str, dict[str, TenantShare]] = defaultdict(dict)
    for share in rule_selectors.shares():
        shares[share.deployment.name][share.tenant.name] = TenantShare(share.weight, share.guaranteed, share.most)
    ladders = {row.deployment.name: _ladder(row) for row in rule_selectors.ladders()}
    prices = {
        row.deployment.name: RoutedPrice(row.prompt_per_million, row.completion_per_million)
        for row in rule_selectors.prices()
    }
    pools = rule_selectors.batch_kv_shares()
    slos = {row.deployment.name: row for row in rule_selectors.slos()}
    deployments = {
        name: replace(
            deployment,
            tiers=_tiers_of(common, own[name], pools.get(name)),
            shares=shares.get(name, {}),
            ladder=ladders.get(name),
            price=prices.get(name),
            ttft_target_s=slos[name].ttft_s if name in slos else None,
            tpot_target_s=slos[name].tpot_s if name in slos else None,
        )
        for name, deployment in content.deployments.items()
    }
    tiers = {str(row.key_id): row.tier for row in KeyTier.objects.all()}
    keys = {hash: replace(key, tier=tiers[key.id]) if key.id in tiers else key for hash, key in content.keys.items()}
    return replace(content, deployments=deployments, keys=keys, quotas=_quotas())


def _tiers() -> tuple[dict[str, RoutedTier], dict[str, dict[str, RoutedTier]]]:
    """Returns all tiers as every deployment has them (nothing where all are as built in), and what single ones have."""
    rows = list(rule_selectors.tiers())
    if not rows:
        return {}, defaultdict(dict)
    common = dict(owners.TIERS)
    own: dict[str, dict[str, RoutedTier]] = defaultdict(dict)
    for row in rows:
        if row.deployment is None:
            common[row.name] = _tier(row)
        else:
            own[row.deployment.name][row.name] = _tier(row)
    return common, own


def _tiers_of(
    common: dict[str, RoutedTier], own: dict[str, RoutedTier], batch_kv_share: float | None
) -> tuple[RoutedTier, ...]:
    """A deployment's own tier goes before what its pool says, and that before what is said for all."""
    if batch_kv_share is not None and BATCH.name not in own:
        batch = common.get(BATCH.name, BATCH)
        own = {**own, BATCH.name: replace(batch, kv_share=batch_kv_share)}
    return tuple({**(common or owners.TIERS), **own}.values()) if common or own else ()


def _tier(row: Tier) -> RoutedTier:
    return RoutedTier(row.name, **{field: getattr(row, field) for field in rule_selectors.TIER_FIELDS})


def _quotas() -> tuple[RoutedQuota, ...]:
    return tuple(
        RoutedQuota(
            id=str(row.pk),
            name=row.name,
            tenant=row.tenant.name,
            key_id=str(row.key_id) if row.key_id else "",
            deployment=row.deployment.name if row.deployment else "",
            limits=row.limits,
        )
        for row in rule_selectors.quotas()
    )


def _ladder(row: Ladder) -> RoutedLadder:
    try:
        return RoutedLadder(tuple(wire.from_plain(step, Step) for step in row.steps))
    except wire.WireError as error:  # of a newer version
        logger.error("the ladder of %s can't be read, so it never degrades: %s", row.deployment.name, error)
        return RoutedLadder()
