"""Writing the journal. Every service that changes something calls `event`; every automatic change calls `decision`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import F
from django.utils import timezone

from controlplane.journal.models import Decision, Event

COALESCE_WITHIN = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a user, a token of REST, or a part of the system such as `controller`."""

    kind: str  # user | token | system
    name: str


SYSTEM = Actor("system", "headworks")


def event(
    *,
    actor: Actor,
    verb: str,
    object_kind: str,
    object_id: str,
    object_name: str = "",
    deployment: str = "",
    message: str,
    numbers: Mapping[str, Any] | None = None,
    level: str = "info",
    cause: str = "",
) -> Event:
    """Writes what somebody did to an object; `deployment`: which one it concerns, where that is not the object."""
    return Event.objects.create(
        at=timezone.now(),
        actor_kind=actor.kind,
        actor=actor.name,
        verb=verb,
        object_kind=object_kind,
        object_id=object_id,
        object_name=object_name,
        deployment=object_id if object_kind == "deployment" else deployment,
        message=message,
        numbers=dict(numbers or {}),
        level=level,
        cause=cause,
    )


def decision(
    *,
    rule: str,
    object_kind: str,
    object_id: str,
    object_name: str = "",
    deployment: str = "",
    before: str = "",
    after: str = "",
    why: str,
    numbers: Mapping[str, Any] | None = None,
    cause: str = "",
) -> Decision:
    """Writes a decision of the system; the same one within `COALESCE_WITHIN` only counts up.

    `deployment`: which one it concerns, where that is not the object.
    """
    now = timezone.now()
    same = (
        Decision.objects.filter(
            rule=rule, object_kind=object_kind, object_id=object_id, before=before, after=after, why=why
        )
        .filter(last_at__gte=now - COALESCE_WITHIN)
        .first()
    )
    if same is not None:
        Decision.objects.filter(pk=same.pk).update(count=F("count") + 1, last_at=now, numbers=dict(numbers or {}))
        same.refresh_from_db()
        return same
    return Decision.objects.create(
        first_at=now,
        last_at=now,
        rule=rule,
        object_kind=object_kind,
        object_id=object_id,
        object_name=object_name,
        deployment=object_id if object_kind == "deployment" else deployment,
        before=before,
        after=after,
        why=why,
        numbers=dict(numbers or {}),
        cause=cause,
    )
