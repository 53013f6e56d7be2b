"""The key with which the console itself asks the gateway when somebody tries a model.

It is derived from the server's secret, so it is nowhere stored in clear and every console process knows it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane import dispatch
from controlplane.accounts.models import ApiKey, Tenant
from controlplane.journal.services import record
from controlplane.lib import ids

TENANT = "headworks"
NAME = "console"


def secret() -> str:
    """Returns the key's text."""
    digest = hmac.new(settings.SECRET_KEY.encode(), b"headworks console: try a model", hashlib.sha256).digest()
    return "hw-" + base64.urlsafe_b64encode(digest[:24]).decode()


@transaction.atomic
def ensure() -> bool:
    """Makes the key known to the gateways; returns whether it is new, so that they need a moment to learn of it."""
    text = secret()
    if ApiKey.objects.filter(key_hash=ids.secret_hash(text)).exists():
        return False
    tenant, _made = Tenant.objects.get_or_create(name=TENANT, defaults={"description": "Headworks itself"})
    # after a change of the server's secret the old key opens nothing any more
    tenant.api_keys.filter(name=NAME, revoked_at=None).update(revoked_at=timezone.now())
    key, made = ApiKey.objects.get_or_create(
        key_hash=ids.secret_hash(text), defaults={"tenant": tenant, "name": NAME, "prefix": text[:9]}
    )
    if made:
        message = "Made for trying models from the console."
        record.event(
            actor=record.SYSTEM, verb="api_key.created", object_kind="api_key", object_id=str(key.pk),
            object_name=f"{TENANT}/{NAME}", message=message,
        )  # fmt: skip
        dispatch.wake_controller()
    return made
