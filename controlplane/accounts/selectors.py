"""Reading people, tokens, tenants and keys. Querysets are not evaluated here, so that callers page."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Count, Max, Q, QuerySet

from controlplane.accounts.models import ApiKey, ApiToken, Tenant, User
from controlplane.domain.errors import RefusedError


def users(*, role: str | None = None, is_active: bool | None = None, search: str | None = None) -> QuerySet[User]:
    """Returns people by username."""
    rows = User.objects.order_by("username")
    if role:
        rows = rows.filter(role=role)
    if is_active is not None:
        rows = rows.filter(is_active=is_active)
    if search:
        rows = rows.filter(Q(username__icontains=search) | Q(email__icontains=search))
    return rows


def user(username: str) -> User:
    """Returns one user; raises RefusedError when there is none of this name."""
    found = User.objects.filter(username=username).first()
    if found is None:
        raise RefusedError("no_such_user", f"There is no user {username}.", kind="not_found")
    return found


def tokens(*, user: str | None = None, usable_at: datetime | None = None) -> QuerySet[ApiToken]:
    """Returns tokens with their user; with `usable_at` those that are neither revoked nor expired then."""
    rows = ApiToken.objects.select_related("user")
    if user:
        rows = rows.filter(user__username=user)
    if usable_at is not None:
        rows = rows.filter(Q(expires_at=None) | Q(expires_at__gt=usable_at), revoked_at=None)
    return rows


def token(token_id: int) -> ApiToken:
    """Returns one token; raises RefusedError when there is none."""
    found = tokens().filter(pk=token_id).first()
    if found is None:
        raise RefusedError("no_such_token", f"There is no token {token_id}.", kind="not_found")
    return found


def tenants(*, search: str | None = None) -> QuerySet[Tenant]:
    """Returns tenants with `keys_usable` (not revoked) and `newest_key_at`."""
    rows = Tenant.objects.order_by("name").annotate(
        keys_usable=Count("api_keys", filter=Q(api_keys__revoked_at=None)), newest_key_at=Max("api_keys__created_at")
    )
    if search:
        rows = rows.filter(Q(name__icontains=search) | Q(description__icontains=search))
    return rows


def tenant(name: str) -> Tenant:
    """Returns one tenant with the numbers of `tenants()`; raises RefusedError when there is none of this name."""
    found = tenants().filter(name=name).first()
    if found is None:
        raise RefusedError("no_such_tenant", f"There is no tenant {name}.", kind="not_found")
    return found


def keys(*, tenant: str | None = None, usable_at: datetime | None = None) -> QuerySet[ApiKey]:
    """Returns keys with their tenant and tier; with `usable_at` those that are neither revoked nor expired then."""
    rows = ApiKey.objects.select_related("tenant", "tier")
    if tenant:
        rows = rows.filter(tenant__name=tenant)
    if usable_at is not None:
        rows = rows.filter(Q(expires_at=None) | Q(expires_at__gt=usable_at), revoked_at=None)
    return rows


def key(tenant: str, key_id: int) -> ApiKey:
    """Returns one key of a tenant; raises RefusedError when there is none."""
    found = keys(tenant=tenant).filter(pk=key_id).first()
    if found is None:
        raise RefusedError("no_such_key", f"Tenant {tenant} has no key {key_id}.", kind="not_found")
    return found
