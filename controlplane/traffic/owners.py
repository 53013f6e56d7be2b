"""The objects that rules of traffic belong to, found or refused; and the tiers that there are."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.accounts.models import ApiKey, Tenant
from controlplane.deployments.models import Deployment
from controlplane.domain.admission.tiers import DEFAULT_TIERS
from controlplane.domain.errors import RefusedError

TIERS = {tier.name: tier for tier in DEFAULT_TIERS}
STANDARD = "standard"


def check_tier(name: str) -> None:
    """Refuses a tier that there is not."""
    if name not in TIERS:
        hint = f"There are {', '.join(TIERS)}."
        raise RefusedError("no_such_tier", f"There is no tier {name}.", kind="not_found", hint=hint)


def deployment(name: str) -> Deployment:
    """Returns a deployment that is not being removed; refuses where there is none."""
    found = Deployment.objects.filter(name=name, deleted_at=None).first()
    if found is None:
        raise RefusedError("no_such_deployment", f"There is no deployment {name}.", kind="not_found")
    return found


def tenant(name: str) -> Tenant:
    """Returns a tenant; refuses where there is none."""
    found = Tenant.objects.filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_tenant", f"There is no tenant {name}.", kind="not_found")
    return found


def key(tenant_name: str, key_id: int) -> ApiKey:
    """Returns a key of a tenant; refuses where there is none."""
    found = ApiKey.objects.filter(pk=key_id, tenant__name=tenant_name).first()
    if found is None:
        raise RefusedError("no_such_key", f"Tenant {tenant_name} has no key {key_id}.", kind="not_found")
    return found


def refuse(problems: Mapping[str, str]) -> None:
    """Refuses (`invalid`) where there is a problem: field -> what would be right."""
    if problems:
        raise RefusedError("invalid", next(iter(problems.values())), fields=problems)
