"""A new API key and the tier of its requests, in one step."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from controlplane.accounts.models import ApiKey
from controlplane.accounts.services import keys
from controlplane.journal.services.record import Actor
from controlplane.traffic import owners
from controlplane.traffic.services import tiers


@transaction.atomic
def create(
    *,
    actor: Actor,
    tenant: str,
    name: str,
    tier: str = owners.STANDARD,
    deployments: Sequence[str] | None = None,
    expires_at: datetime | None = None,
) -> tuple[ApiKey, str]:
    """Makes a key whose requests belong to the tier from the first one on; returns it and its secret."""
    key, secret = keys.create(actor=actor, tenant=tenant, name=name, deployments=deployments, expires_at=expires_at)
    if tier != owners.STANDARD:  # what nobody says anything else of
        tiers.apply_of_key(actor=actor, tenant=tenant, key_id=key.pk, tier=tier)
    return key, secret
