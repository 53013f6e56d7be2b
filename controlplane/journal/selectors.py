"""Reading the journal: filtered, newest first, never evaluated here, so that callers page."""

from __future__ import annotations

from datetime import datetime

from django.db.models import Q, QuerySet

from controlplane.domain.access import ACCOUNT_KINDS
from controlplane.journal.models import Decision, Event


def events(
    *,
    object_kind: str | None = None,
    object_id: str | None = None,
    deployment: str | None = None,
    of_model: str | None = None,
    verb: str | None = None,
    actor: str | None = None,
    level: str | None = None,
    since: datetime | None = None,
    search: str | None = None,
    with_accounts: bool = False,
) -> QuerySet[Event]:
    """Returns events, newest first. `verb` may end with a dot to mean a family, such as `deployment.`.

    `deployment` gives also those of its replicas, `of_model` those of its variants. Those of users, tokens and keys are
    left out unless `with_accounts` says that the reader may see them.
    """
    rows = Event.objects.all() if with_accounts else Event.objects.exclude(object_kind__in=ACCOUNT_KINDS)
    if object_kind:
        rows = rows.filter(object_kind=object_kind)
    if object_id:
        rows = rows.filter(object_id=object_id)
    if deployment:
        rows = rows.filter(deployment=deployment)
    if of_model:
        variants = Q(object_kind="variant", object_id__startswith=f"{of_model}/")
        rows = rows.filter(Q(object_kind="model", object_id=of_model) | variants)
    if verb:
        rows = rows.filter(verb__startswith=verb) if verb.endswith(".") else rows.filter(verb=verb)
    if actor:
        rows = rows.filter(actor=actor)
    if level:
        rows = rows.filter(level=level)
    if since:
        rows = rows.filter(at__gte=since)
    if search:
        rows = rows.filter(Q(message__icontains=search) | Q(object_name__icontains=search))
    return rows


def decisions(
    *,
    object_kind: str | None = None,
    object_id: str | None = None,
    deployment: str | None = None,
    rule: str | None = None,
    since: datetime | None = None,
    search: str | None = None,
) -> QuerySet[Decision]:
    """Returns what the system decided by itself, newest first; of a `deployment` also what is about its replicas."""
    rows = Decision.objects.all()
    if object_kind:
        rows = rows.filter(object_kind=object_kind)
    if object_id:
        rows = rows.filter(object_id=object_id)
    if deployment:
        rows = rows.filter(deployment=deployment)
    if rule:
        rows = rows.filter(rule=rule)
    if since:
        rows = rows.filter(last_at__gte=since)
    if search:
        rows = rows.filter(Q(why__icontains=search) | Q(object_name__icontains=search))
    return rows
