"""The switch that stops every automatic change at once. What runs goes on, and nodes still restart failed engines."""

from __future__ import annotations

from django.db import transaction

from controlplane import dispatch
from controlplane.deployments.models import Freeze
from controlplane.journal.services import record, versioned
from controlplane.journal.services.record import Actor
from controlplane.journal.services.versioned import Applied
from controlplane.telemetry.services import notify

_ONLY = 1  # the switch is one row, made when it is first used


def current() -> Freeze:
    """Returns the switch as it stands; version 0 while nobody has used it."""
    return Freeze.objects.filter(pk=_ONLY).first() or Freeze(pk=_ONLY, version=0)


def is_frozen() -> bool:
    """Returns whether nothing may be changed automatically."""
    return Freeze.objects.filter(pk=_ONLY, frozen=True).exists()


@transaction.atomic
def apply(*, actor: Actor, frozen: bool, reason: str = "", expected_version: int | None = None) -> Applied[Freeze]:
    """Stops every automatic change of every deployment, or allows them again; the same again changes nothing."""
    applied = versioned.apply(
        Freeze.objects.all(),
        address={"pk": _ONLY},
        values={"frozen": frozen, "reason": reason[:200] if frozen else ""},
        object_kind="system",
        object_id="headworks",
        expected_version=expected_version,
    )
    if not applied.changed:
        return applied
    Freeze.objects.filter(pk=_ONLY).update(changed_by=actor.name)
    applied.row.refresh_from_db()
    verb = "system.frozen" if frozen else "system.unfrozen"
    message = "Nothing is changed automatically any more." if frozen else "Automatic changes are allowed again."
    record.event(
        actor=actor, verb=verb, object_kind="system", object_id="headworks", object_name="headworks", message=message,
        numbers={"reason": applied.row.reason} if frozen else {}, level="warning" if frozen else "info",
    )  # fmt: skip
    dispatch.wake_controller()
    notify.changed("system", "headworks", verb)
    return applied
