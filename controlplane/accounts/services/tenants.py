"""Tenants: made, changed and removed."""

from __future__ import annotations

from django.db import transaction

from controlplane.accounts import names
from controlplane.accounts.models import Tenant
from controlplane.domain.errors import RefusedError
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied


@transaction.atomic
def apply(*, actor: Actor, name: str, description: str = "", expected_version: int | None = None) -> Applied[Tenant]:
    """Makes a tenant be as given; the same again changes nothing. `expected_version` 0 = it must not exist yet."""
    names.check_tenant(name)
    if len(description) > 200:
        sentence = "Use at most 200 characters."
        raise RefusedError("invalid", sentence, fields={"description": sentence})
    applied = versioned.apply(
        Tenant.objects.all(),
        address={"name": name},
        values={"description": description},
        object_kind="tenant",
        object_id=name,
        expected_version=expected_version,
    )
    if applied.changed:
        done = "created" if applied.created else "changed"
        _event(actor, name, f"tenant.{done}", f"Tenant {name} was {done}.")
    return applied


@transaction.atomic
def delete(*, actor: Actor, name: str, expected_version: int | None = None) -> None:
    """Removes a tenant and its revoked keys; refuses while a key may still be used."""
    tenant = Tenant.objects.select_for_update().filter(name=name).first()
    if tenant is None:
        raise RefusedError("no_such_tenant", f"There is no tenant {name}.", kind="not_found")
    versioned.check(object_kind="tenant", object_id=name, version=tenant.version, expected_version=expected_version)
    used = sorted(tenant.api_keys.filter(revoked_at=None).values_list("name", flat=True))
    if used:
        message = f"Tenant {name} still has keys: {', '.join(used)}."
        raise RefusedError("tenant_in_use", message, kind="conflict", hint="Revoke them first.")
    tenant.delete()
    _event(actor, name, "tenant.deleted", f"Tenant {name} was removed.", "warning")


def _event(actor: Actor, name: str, verb: str, message: str, level: str = "info") -> None:
    record.event(
        actor=actor,
        verb=verb,
        object_kind="tenant",
        object_id=name,
        object_name=name,
        message=message,
        level=level,
    )
