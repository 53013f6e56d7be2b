"""API keys of the gateway: made and revoked. The text of a key is known only to who made it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.apps import apps
from django.db import transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.accounts import names
from controlplane.accounts.models import ApiKey, Tenant
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.lib import ids

PREFIX = "hw"
_SHOWN_CHARACTERS = 9


@transaction.atomic
def create(
    *,
    actor: Actor,
    tenant: str,
    name: str,
    deployments: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Makes a key of the tenant for these deployments, which have to exist (None = all); returns it and its secret."""
    names.check_label(name)
    names.check_expiry(expires_at, timezone.now())
    owner = Tenant.objects.select_for_update().filter(name=tenant).first()
    if owner is None:
        raise RefusedError("no_such_tenant", f"There is no tenant {tenant}.", kind="not_found")
    _check_deployments(deployments or ())
    secret = ids.new_secret(PREFIX)
    key = ApiKey.objects.create(
        tenant=owner,
        name=name,
        prefix=secret[:_SHOWN_CHARACTERS],
        key_hash=ids.secret_hash(secret),
        deployments=None if deployments is None else sorted(set(deployments)),
        expires_at=expires_at,
    )
    _event(actor, key, "api_key.created", f"Key {name} of {tenant} was made.")
    return key, secret


def _check_deployments(wanted: Sequence[str]) -> None:
    # by name: deployments are built upon accounts, not the other way round
    known = apps.get_model("deployments", "Deployment").objects.filter(name__in=wanted).values_list("name", flat=True)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        text = f"There is no deployment {', '.join(unknown)}."
        raise RefusedError("invalid", text, fields={"deployments": text})


@transaction.atomic
def revoke(*, actor: Actor, tenant: str, key_id: int, expected_version: int | None = None) -> ApiKey:
    """Ends a key for ever: gateways refuse it within seconds. Again changes nothing."""
    key = (
        ApiKey.objects.select_for_update(of=("self",))
        .filter(pk=key_id, tenant__name=tenant)
        .select_related("tenant")
        .first()
    )
    if key is None:
        raise RefusedError("no_such_key", f"Tenant {tenant} has no key {key_id}.", kind="not_found")
    versioned.check(
        object_kind="api_key", object_id=str(key_id), version=version(key), expected_version=expected_version
    )
    if key.revoked_at is not None:
        return key
    key.revoked_at = timezone.now()
    key.save(update_fields=["revoked_at"])
    _event(actor, key, "api_key.revoked", f"Key {key.name} of {tenant} was revoked.", "warning")
    return key


def version(key: ApiKey) -> int:
    """Returns the key's version: all that can happen to it is that it is revoked."""
    return 1 if key.revoked_at is None else 2


def _event(actor: Actor, key: ApiKey, verb: str, message: str, level: str = "info") -> None:
    record.event(
        actor=actor,
        verb=verb,
        object_kind="api_key",
        object_id=str(key.pk),
        object_name=f"{key.tenant.name}/{key.name}",
        message=message,
        level=level,
    )
    dispatch.wake_controller()  # it publishes the keys to the gateways
