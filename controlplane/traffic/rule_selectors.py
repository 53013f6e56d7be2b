"""Reading the rules of traffic: tiers, quotas, shares, ladders, prices. Querysets are for callers to page."""

from __future__ import annotations

from django.db.models import FloatField, OuterRef, QuerySet, Subquery, Sum

from controlplane.deployments.models import Deployment
from controlplane.domain.errors import RefusedError
from controlplane.traffic import owners
from controlplane.traffic.models import KeyTier, Ladder, Price, Quota, Share, Slo, Tier

TIER_FIELDS = (
    "weight", "queue_most", "queue_most_bytes", "longest_wait_s", "total_base_s", "total_per_token_s", "kv_share",
)  # fmt: skip


def tiers(*, deployment: str | None = None) -> QuerySet[Tier]:
    """Returns tiers with rules of their own, those of all deployments among them."""
    rows = Tier.objects.select_related("deployment").order_by("id")
    return rows.filter(deployment__name=deployment) if deployment else rows


def batch_kv_shares() -> dict[str, float]:
    """Returns deployment -> the most of a replica's KV tokens that the batch tier may hold, where its pool says so."""
    rows = Deployment.objects.filter(deleted_at=None, pool__batch_kv_share__isnull=False)
    return {name: share for name, share in rows.values_list("name", "pool__batch_kv_share") if share is not None}


def key_tier(tenant: str, key_id: int) -> KeyTier:
    """Returns the tier of a key (version 0 = the standard one, as nobody said another)."""
    key = owners.key(tenant, key_id)
    return KeyTier.objects.filter(key=key).first() or KeyTier(key=key, tier=owners.STANDARD, version=0)


def quotas(*, tenant: str | None = None, deployment: str | None = None) -> QuerySet[Quota]:
    """Returns quotas with their tenant and deployment."""
    rows = Quota.objects.select_related("tenant", "deployment").order_by("id")
    if tenant:
        rows = rows.filter(tenant__name=tenant)
    if deployment:
        rows = rows.filter(deployment__name=deployment)
    return rows


def quota(tenant: str, name: str) -> Quota:
    """Returns one quota; refuses where there is none."""
    found = quotas(tenant=tenant).filter(name=name).first()
    if found is None:
        raise _missing("quota", f"{tenant}/{name}")
    return found


def shares(*, tenant: str | None = None, deployment: str | None = None) -> QuerySet[Share]:
    """Returns shares with their tenant and deployment, and `guaranteed_sum` of the deployment."""
    others = Share.objects.filter(deployment=OuterRef("deployment")).order_by().values("deployment")
    summed = Subquery(others.annotate(sum=Sum("guaranteed")).values("sum"), output_field=FloatField())
    rows = Share.objects.select_related("tenant", "deployment").order_by("id").annotate(guaranteed_sum=summed)
    if deployment:
        rows = rows.filter(deployment__name=deployment)
    if tenant:
        rows = rows.filter(tenant__name=tenant)
    return rows


def share(tenant: str, deployment: str) -> Share:
    """Returns one share with `guaranteed_sum`; refuses where there is none."""
    rows = Share.objects.select_related("tenant", "deployment")
    found = rows.filter(tenant__name=tenant, deployment__name=deployment).first()
    if found is None:
        raise _missing("share", f"{tenant}/{deployment}")
    found.guaranteed_sum = guaranteed_sum(found.deployment)  # type: ignore[attr-defined]
    return found


def guaranteed_sum(deployment: Deployment, *, without: str = "") -> float:
    """Returns what is guaranteed of a deployment in all; above 1.0 it is oversold."""
    rows = Share.objects.filter(deployment=deployment).exclude(tenant__name=without)
    return rows.aggregate(sum=Sum("guaranteed"))["sum"] or 0.0


def ladders() -> QuerySet[Ladder]:
    """Returns ladders with their deployment."""
    return Ladder.objects.select_related("deployment").order_by("id")


def ladder(deployment: str) -> Ladder:
    """Returns the ladder of a deployment; refuses where it has none."""
    found = ladders().filter(deployment__name=deployment).first()
    if found is None:
        raise _missing("ladder", deployment)
    return found


def prices() -> QuerySet[Price]:
    """Returns prices with their deployment."""
    return Price.objects.select_related("deployment").order_by("id")


def price(deployment: str) -> Price:
    """Returns the price of a deployment; refuses where it has none."""
    found = prices().filter(deployment__name=deployment).first()
    if found is None:
        raise _missing("price", deployment)
    return found


def slos() -> QuerySet[Slo]:
    """Returns objectives with their deployment."""
    return Slo.objects.select_related("deployment").order_by("id")


def slo(deployment: str) -> Slo:
    """Returns the objective of a deployment; refuses where it has none."""
    found = slos().filter(deployment__name=deployment).first()
    if found is None:
        raise _missing("slo", deployment)
    return found


def _missing(kind: str, address: str) -> RefusedError:
    return RefusedError(f"no_such_{kind}", f"There is no {kind} {address}.", kind="not_found")
